"""What every verb of the control plane is given first: the places and the parts that one server has.

Knows no verb. The parts are made by whoever starts the server, or by a test.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from burnish.control.db import Database
from burnish.home import Home

if TYPE_CHECKING:
    from burnish.executors.base import Executor
    from burnish.models.cache import ModelCache


@dataclass(frozen=True)
class House:
    home: Home
    database: Database
    executor: "Executor"
    models: "ModelCache"
    clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    bell: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    """Rung by whoever changed what should be; the reconciler wakes by it."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), tz=UTC)
