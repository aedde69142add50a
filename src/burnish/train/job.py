"""What the light half of the trainer hands to the half with torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from burnish.data.prepare import PreparedData
from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.run.events import EventWriter
from burnish.run.order import RunOrder
from burnish.run.plan import Horizon
from burnish.train.console import Say
from burnish.train.stop import StopSignal

DtypeName = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Job:
    order: RunOrder
    run: RunDirectory
    data: PreparedData
    validation: PreparedData | None
    horizon: Horizon
    start: CheckpointDirectory | None
    """A whole checkpoint to go on from."""
    diary: EventWriter
    stop: StopSignal
    say: Say
    cut_after: int | None = None
    """Die in this step, once what is being saved is there, to show what a resume makes of it."""

    @property
    def base_name(self) -> str:
        """What an adapter calls its base: the catalogue's name, or the folder where that is what was named."""
        named, folder = self.order.spec.model, self.order.model_directory
        return str(folder) if Path(named).expanduser().resolve() == folder.resolve() else named


def compute_dtype(order: RunOrder) -> DtypeName:
    """Of matrix products. `auto` is what the device does fast: this CPU's bfloat16 is ten times slower than float32."""
    if order.spec.dtype != "auto":
        return order.spec.dtype
    return "bfloat16" if order.layout.device == "cuda" else "float32"
