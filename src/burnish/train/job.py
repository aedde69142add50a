"""What the light half of the trainer hands to the half with torch."""

from dataclasses import dataclass

from burnish.data.prepare import PreparedData
from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.run.events import EventWriter
from burnish.run.order import RunOrder
from burnish.run.plan import Horizon
from burnish.train.console import Say
from burnish.train.stop import StopSignal


@dataclass(frozen=True)
class Job:
    order: RunOrder
    run: RunDirectory
    data: PreparedData
    horizon: Horizon
    start: CheckpointDirectory | None
    """A whole checkpoint to go on from."""
    diary: EventWriter
    stop: StopSignal
    say: Say
