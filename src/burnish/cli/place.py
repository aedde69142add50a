"""Where a config finds its data, its model and its devices on this machine, without a server.

Does by hand what the server does for a submission: a volume is a folder of the home; without one, paths are from the
current folder.
"""

from dataclasses import dataclass
from pathlib import Path

from burnish.cli.model_folder import local_model_folder
from burnish.control.places import place_on_volume
from burnish.data.check import Setting
from burnish.errors import NotFound
from burnish.executors.local import LocalExecutor
from burnish.home import Home
from burnish.literals import check_volume_name
from burnish.models.adapter_folder import is_adapter, refuse_to_start_from
from burnish.models.cache import ModelCache
from burnish.models.folder import inspect_folder
from burnish.models.gguf_family import refuse_unwritable
from burnish.run.targets import count_adapter_parameters
from burnish.spec.train import Data, SourceData, TrainSpec


@dataclass(frozen=True)
class Place:
    root: Path
    """Holds `runs/`: the volume, or the current folder."""
    is_volume: bool


def find_place(home: Home, volume: str | None) -> Place:
    if volume is None:
        return Place(Path.cwd(), is_volume=False)
    root = home.volume(check_volume_name(volume))
    if not root.is_dir():
        raise NotFound(
            f"There is no volume {volume} on this machine.",
            hint=f"Create it: burnish volumes create {volume} --size 100Gi",
        )
    return Place(root, is_volume=True)


def find_setting(home: Home, spec: TrainSpec, place: Place) -> Setting:
    """`ModelError` where the model is not on this machine."""
    slots = LocalExecutor(home.attempts).capacity()
    model = inspect_folder(_model_directory(home, spec.model))
    if spec.export.gguf:
        refuse_unwritable(model.directory)
    return Setting(
        model_directory=model.directory,
        data_path=_path_of(spec.data, place),
        validation_path=_path_of(spec.validation.data, place) if spec.validation else None,
        store_directory=home.stores.resolve(),
        device=slots[0].kind if slots else "cpu",
        offered=len(slots),
        parameters=model.parameters,
        adapter_parameters=(
            count_adapter_parameters(spec.lora, model.shapes, vocabulary=model.facts.vocabulary) if spec.lora else 0
        ),
        model_bytes=model.size_bytes,
    )


def _model_directory(home: Home, name: str) -> Path:
    """A folder on this machine, or a model of the cache."""
    if is_adapter(Path(name).expanduser()):
        raise refuse_to_start_from(name)
    folder = local_model_folder(name)
    return folder.resolve() if folder else ModelCache(home.models).find(name).directory.resolve()


def _path_of(data: Data, place: Place) -> Path | None:
    if not isinstance(data, SourceData):
        return None
    if place.is_volume:
        return place_on_volume(place.root, data.path)
    return (place.root / Path(data.path).expanduser()).resolve()
