"""The models that a run may start from and a user may talk to: the cache's base models, and what runs have made."""

from contextlib import suppress
from pathlib import Path

from sqlalchemy import select

from burnish.control.house import House
from burnish.control.tables import ExportRow, RunRow
from burnish.errors import Conflict, ModelError, NotFound
from burnish.literals import split_model_id, volume_path
from burnish.models.adapter_folder import CONFIG as ADAPTER_CONFIG
from burnish.models.adapter_folder import inspect_adapter, refuse_to_start_from
from burnish.models.cache import CachedModel
from burnish.models.folder import inspect_folder
from burnish.models.names import TINY
from burnish.run.status import RunStatus
from burnish.wire import AddModelRequest, ModelList, ModelView


def list_models(house: House) -> ModelList:
    """Base models by name, then fine-tunes and adapters, newest first; without those whose files are gone."""
    house.models.find(TINY)  # built in: there is always one to train
    base = [_base_view(model) for model in house.models.list()]
    with house.database.session(writes=False) as session:
        rows = session.scalars(select(ExportRow).order_by(ExportRow.created_at.desc(), ExportRow.id)).all()
    made = []
    for row in rows:
        with suppress(ModelError):  # gone or damaged: asking for it by name says so
            made.append(_made_view(house, row))
    return ModelList(models=base + made)


def get_model(house: House, model_id: str) -> ModelView:
    """`ModelError` says how to get the model, where it is not there."""
    if split_model_id(model_id):
        return _made_view(house, _export(house, model_id))
    return _base_view(house.models.find(model_id))


def add_model(house: House, request: AddModelRequest) -> ModelView:
    return _base_view(house.models.add(request.source, request.name))


def remove_model(house: House, model_id: str) -> None:
    """Out of the cache; a fine-tune leaves the catalogue, but its files stay on the volume with its run.

    `Conflict` while a run that starts from it is not over.
    """
    with house.database.session() as session:
        live = select(RunRow.id).where(RunRow.model == model_id, RunRow.status.in_(_LIVE))
        if users := list(session.scalars(live)):
            raise Conflict(
                f"{model_id} is in use by {', '.join(users)}.", hint=f"Stop it first: burnish train stop {users[0]}"
            )
        if split_model_id(model_id):
            row = session.get(ExportRow, model_id)
            if row is None:
                raise _unknown(model_id)
            session.delete(row)
            return
    house.models.remove(model_id)


def model_directory(house: House, model_id: str) -> Path:
    """The Hugging Face folder of a base model or a fine-tune; whole, as far as its headers tell.

    `ModelError` for an adapter: a run starts from whole models.
    """
    if not split_model_id(model_id):
        return house.models.find(model_id).directory
    refuse_adapter(model_id)
    directory = _folder(house, _export(house, model_id))
    inspect_folder(directory)
    return directory


def refuse_adapter(model_id: str) -> None:
    if _is_adapter(model_id):
        raise refuse_to_start_from(model_id)


_LIVE = [status.value for status in RunStatus if not status.is_over]


def _export(house: House, model_id: str) -> ExportRow:
    with house.database.session(writes=False) as session:
        row = session.get(ExportRow, model_id)
    if row is None:
        raise _unknown(model_id)
    if not (_folder(house, row) / (ADAPTER_CONFIG if _is_adapter(row.id) else "config.json")).is_file():
        raise ModelError(
            f"The files of {model_id} are gone: {_shown(row)} is not there any more.",
            hint="Train it again, or start from a later checkpoint's model: burnish train checkpoints.",
        )
    return row


def _is_adapter(model_id: str) -> bool:
    split = split_model_id(model_id)
    return split is not None and split[0] == "peft"


def _unknown(model_id: str) -> NotFound:
    what = "adapter" if _is_adapter(model_id) else "fine-tune"
    return NotFound(f"There is no {what} {model_id}.", hint="See burnish models list.")


def _folder(house: House, row: ExportRow) -> Path:
    root = house.home.scratch if row.volume is None else house.home.volume(row.volume)
    return root / volume_path(row.path)


def _shown(row: ExportRow) -> str:
    return row.path if row.volume is None else f"{row.path} on volume {row.volume}"


def _base_view(model: CachedModel) -> ModelView:
    return ModelView(
        id=model.id,
        kind="base",
        architecture=model.architecture,
        parameters=model.parameters,
        size_bytes=model.size_bytes,
        source=model.source,
        directory=str(model.directory),
        added_at=model.added_at,
        notes=list(model.notes),
    )


def _made_view(house: House, row: ExportRow) -> ModelView:
    return _adapter_view(house, row) if _is_adapter(row.id) else _full_view(house, row)


def _adapter_view(house: House, row: ExportRow) -> ModelView:
    adapter = inspect_adapter(_folder(house, row))
    return ModelView(
        id=row.id,
        kind="adapter",
        base=row.base,
        run_id=row.run_id,
        step=row.step,
        architecture=adapter.method,
        parameters=adapter.parameters,
        size_bytes=row.size_bytes,
        source=_shown(row),
        directory=str(adapter.directory),
        added_at=row.created_at,
        notes=[f"It is an adapter, and works with {row.base} alone."],
    )


def _full_view(house: House, row: ExportRow) -> ModelView:
    folder = inspect_folder(_folder(house, row))
    return ModelView(
        id=row.id,
        kind="full",
        base=row.base,
        run_id=row.run_id,
        step=row.step,
        architecture=folder.facts.architecture,
        parameters=folder.parameters,
        size_bytes=row.size_bytes,
        source=_shown(row),
        directory=str(folder.directory),
        added_at=row.created_at,
        notes=list(folder.notes),
    )
