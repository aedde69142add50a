"""How patient the control plane is, and where its database lies. Knows no verb."""

from collections.abc import Mapping
from dataclasses import dataclass

from burnish.control.db import sqlite_url
from burnish.home import Home


@dataclass(frozen=True)
class Patience:
    """Durations are seconds."""

    tick: float = 0.25
    """Between two looks at the runs, while there are any."""
    idle: float = 2.0
    """The same while there are none; a submission rings."""
    lease: float = 5.0
    """How long a reconciler that was killed still holds its runs."""
    stop_grace: float = 45.0
    """From the request to stop until the trainer is killed: one step and one checkpoint should fit."""
    start: float = 300.0
    """From the launch until the trainer says that it is up."""
    teardown: float = 60.0
    """From the diary's last line until the process has to be gone."""
    sweep: float = 60.0
    """Between two searches for programs that no run wants any more."""
    attempts: int = 3
    """Launches of one run, the first included."""
    troubles: int = 40
    """Ticks in a row that may fail on one run before the run fails."""


def find_database_url(home: Home, environment: Mapping[str, str]) -> str:
    """`BURNISH_DATABASE` where it is set (`postgresql://...`), else the file in the home."""
    return environment.get("BURNISH_DATABASE") or sqlite_url(home.database)
