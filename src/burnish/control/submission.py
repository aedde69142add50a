"""Everything that can be refused about a run before it exists. Writes nothing but tokens into the stores.

What is true here may have changed by the launch, so the launch looks again; this is where the user is still at the
keyboard.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from burnish.control.catalog import get_model, refuse_adapter
from burnish.control.house import House
from burnish.control.places import place_on_volume, require_disk, run_directory
from burnish.control.private import read_environment
from burnish.control.resume import find_checkpoint, find_resume_point
from burnish.control.tables import RunRow
from burnish.control.volumes import measured, volume_root
from burnish.data.check import Setting, check_before_run
from burnish.dialects import read_config
from burnish.dialects.reading import Reading
from burnish.errors import ConfigError, VolumeError
from burnish.models.folder import inspect_folder
from burnish.models.gguf_family import refuse_unwritable
from burnish.run.plan import Layout, plan_layout
from burnish.run.report import CheckReport
from burnish.run.targets import count_adapter_parameters
from burnish.spec.train import Data, Resume, SourceData, TrainSpec
from burnish.wire import ResumeRequest, SubmitRequest

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Accepted:
    """A request that may become a run."""

    reading: Reading
    layout: Layout
    volume: str | None
    name: str
    report: CheckReport


def check_request(house: House, request: SubmitRequest) -> Accepted:
    """`ConfigError`, `ModelError`, `VolumeError`, `DataError` or `PlanError`, whichever comes first in that order."""
    reading = read_config(request.config)
    return _check_reading(house, reading, volume=request.volume or reading.volume, name=request.name or reading.name)


def check_resumption(house: House, run: RunRow, request: ResumeRequest) -> Accepted:
    """The same config again, from a checkpoint of `run` on; what it was refused for may be true by now."""
    checkpoint = find_checkpoint(house, run, request.step)
    path = run_directory(house.home, run.id, run.volume).relative(checkpoint.root)
    reading = read_config(run.config)
    again = {"resume": Resume(directory=path), "environment": read_environment(house, run.id)}
    notes = (*reading.notes, f"It goes on from step {checkpoint.step} of {run.id}: {path}")
    reading = replace(reading, spec=reading.spec.model_copy(update=again), notes=notes)
    return _check_reading(house, reading, volume=run.volume, name=request.name or run.name)


def _check_reading(house: House, reading: Reading, *, volume: str | None, name: str | None) -> Accepted:
    spec = reading.spec
    name = _checked_name(name or spec.name or spec.model.rpartition("/")[2])
    volume = choose_volume(spec, volume)
    setting = find_setting(house, spec, volume)
    layout = plan_layout(spec, device=setting.device, offered=setting.offered)
    find_resume_point(spec, house.home.scratch if volume is None else volume_root(house, volume))
    report = check_before_run(spec, setting, notes=reading.notes)
    check_room(house, volume, setting.storage_bytes(spec))
    return Accepted(reading, layout, volume, name, report)


def choose_volume(spec: TrainSpec, volume: str | None) -> str | None:
    """`VolumeError` where the data is on one and none is named."""
    if volume is None and (isinstance(spec.data, SourceData) or spec.validation):
        raise VolumeError(
            "data.name requires `--volume <name>`. Create a volume with `burnish volumes create <name>`, "
            "then rerun `burnish train <config> --volume <name>`."
        )
    return volume


def find_setting(house: House, spec: TrainSpec, volume: str | None) -> Setting:
    """What this server would train with."""
    refuse_adapter(spec.model)
    model = get_model(house, spec.model)
    if spec.export.gguf:
        refuse_unwritable(Path(model.directory))
    root = None if volume is None else volume_root(house, volume)
    slots = house.executor.capacity()
    return Setting(
        model_directory=Path(model.directory),
        data_path=path_on(root, spec.data),
        validation_path=path_on(root, spec.validation.data) if spec.validation else None,
        store_directory=house.home.stores,
        device=slots[0].kind if slots else "cpu",
        offered=len(slots),
        parameters=model.parameters,
        adapter_parameters=_adapter_parameters(spec, Path(model.directory)),
        model_bytes=model.size_bytes,
    )


def _adapter_parameters(spec: TrainSpec, model_directory: Path) -> int:
    """`ConfigError` where a target means nothing in the model."""
    if spec.lora is None:
        return 0
    model = inspect_folder(model_directory)
    return count_adapter_parameters(spec.lora, model.shapes, vocabulary=model.facts.vocabulary)


def check_room(house: House, volume: str | None, needed_bytes: int) -> None:
    """`VolumeFull` where what a run saves has no room."""
    if volume is not None:
        with measured(house, volume) as room:
            room.admit("What this run saves", needed_bytes)
        return
    require_disk(house.home.root, "What this run saves", needed_bytes)


def _checked_name(name: str) -> str:
    """A name stands in tables and titles, on one line."""
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"{name[:40]!r} cannot name a run.",
            hint=f"Use up to {_LONGEST_NAME} letters on one line, no control codes.",
        )
    return name


def path_on(root: Path | None, data: Data) -> Path | None:
    """Where data lies on the volume at `root`; None for made-up data."""
    return place_on_volume(root, data.path) if root is not None and isinstance(data, SourceData) else None
