"""Everything that can be refused about a run before it exists. Writes nothing.

What is true here may have changed by the launch, so the launch looks again; this is where the user is still at the
keyboard.
"""

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from burnish.control.catalog import get_model
from burnish.control.house import House
from burnish.control.places import place_on_volume
from burnish.control.queue import describe_slots
from burnish.control.resume import find_resume_point
from burnish.control.volumes import measured, volume_root
from burnish.data.prepare import probe_data
from burnish.dialects import read_config
from burnish.dialects.reading import Reading
from burnish.errors import PlanError, VolumeError, VolumeFull
from burnish.executors.base import Slot
from burnish.literals import format_size
from burnish.run.plan import Layout, plan_layout
from burnish.spec.train import SourceData, TrainSpec
from burnish.wire import SubmitRequest

_TRAINER_BYTES = 12
"""Per parameter of a checkpoint: weights and two moments of AdamW, float32 each."""

_SMALL_FILES_BYTES = 1 << 20
"""Tokenizer, configs and counters of a checkpoint."""


@dataclass(frozen=True)
class Accepted:
    """A request that may become a run."""

    reading: Reading
    layout: Layout
    volume: str | None
    name: str


def check_request(house: House, request: SubmitRequest) -> Accepted:
    """`ConfigError`, `ModelError`, `VolumeError`, `DataError` or `PlanError`, whichever comes first in that order."""
    reading = read_config(request.config)
    spec, volume = reading.spec, request.volume or reading.volume
    _require_volume(spec, volume)
    model = get_model(house, spec.model)
    root = None if volume is None else volume_root(house, volume)
    layout = _plan(spec, house.executor.capacity())
    find_resume_point(spec, root)
    probe_data(spec, model_directory=Path(model.directory), data_path=_data_path(spec, root))
    needed = forecast_checkpoint_bytes(spec, parameters=model.parameters, device=layout.device)
    _check_room(house, volume, needed)
    name = request.name or reading.name or spec.name or spec.model.rpartition("/")[2]
    return Accepted(reading, layout, volume, name)


def forecast_checkpoint_bytes(spec: TrainSpec, *, parameters: int, device: Literal["cpu", "cuda"]) -> int:
    """Bytes of the checkpoints that are there at once at the most; the model export lies in each.

    A save comes before the deletion of the oldest, so retention holds one more. Where steps follow from epochs, and so
    are not known yet, every kept checkpoint is counted if retention says how many, else the last one alone.
    """
    if spec.checkpoints is None:
        return 0
    wide = spec.dtype == "float32" or (spec.dtype == "auto" and device == "cpu")
    each = parameters * (_TRAINER_BYTES + (4 if wide else 2)) + _SMALL_FILES_BYTES
    every, keep = spec.checkpoints.every_steps, spec.checkpoints.keep_last
    if every is None:
        return each
    saves = math.ceil(spec.steps / every) if spec.steps is not None else (keep + 1 if keep else 1)
    return each * (saves if keep is None else min(saves, keep + 1))


def _require_volume(spec: TrainSpec, volume: str | None) -> None:
    if volume is None and isinstance(spec.data, SourceData):
        raise VolumeError(
            "data.name requires `--volume <name>`. Create a volume with `burnish volumes create <name>`, "
            "then rerun `burnish train <config> --volume <name>`."
        )


def _data_path(spec: TrainSpec, root: Path | None) -> Path | None:
    return place_on_volume(root, spec.data.path) if root is not None and isinstance(spec.data, SourceData) else None


def _plan(spec: TrainSpec, slots: list[Slot]) -> Layout:
    ranks = spec.devices.machines * spec.devices.per_machine
    if ranks > len(slots):
        raise PlanError(
            f"The config asks for {ranks} device{'s' if ranks > 1 else ''}; "
            f"this machine offers {describe_slots(slots)}.",
            hint="Ask for no more than that: deployment.num_train_gpus." if slots else "See burnish status.",
        )
    return plan_layout(spec, device=slots[0].kind)


def _check_room(house: House, volume: str | None, needed_bytes: int) -> None:
    if not needed_bytes:
        return
    if volume is not None:
        with measured(house, volume) as room:
            room.admit("What this run saves", needed_bytes)
        return
    free = shutil.disk_usage(house.home.root).free
    if needed_bytes > free:
        raise VolumeFull(
            f"What this run saves needs {format_size(needed_bytes)}, but the server's disk has "
            f"{format_size(free)} free.",
            hint=f"Make room on the disk that holds {house.home.root}.",
        )
