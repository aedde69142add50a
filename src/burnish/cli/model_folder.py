"""From what people call a model to its folder on this machine.

A name is a catalogue id (`burnish/tiny`, `ft:<base>:<job>`, `peft:<base>:<job>`), a run id (the run's newest export)
or a folder.
"""

from dataclasses import dataclass
from pathlib import Path

from burnish.cli.session import open_client
from burnish.errors import ModelError, RunError
from burnish.home import find_home
from burnish.literals import is_run_id, split_model_id
from burnish.models.adapter_folder import inspect_adapter, is_adapter
from burnish.sdk.client import Client
from burnish.wire import ModelView


@dataclass(frozen=True)
class Speaker:
    """What to load to talk to a model."""

    folder: Path
    base: Path | None = None
    """The whole model that `folder` is an adapter of."""


def find_speaker(name: str) -> Speaker:
    """The model or adapter of that name. A folder on this machine needs no server, unless its base is a fine-tune."""
    if folder := local_model_folder(name):
        return Speaker(folder)
    folder = Path(name).expanduser()
    if is_adapter(folder):
        return Speaker(folder, _local_base(inspect_adapter(folder).base))
    with open_client() as client:
        model = find_model(client, name)
        base = model_folder(client, model.base) if model.kind == "adapter" and model.base else None
        return Speaker(model_folder(client, model.id), base)


def _local_base(name: str) -> Path:
    if folder := local_model_folder(name):
        return folder
    if split_model_id(name):
        with open_client() as client:
            return model_folder(client, name)
    # The cache can build burnish/tiny, for which it brings numpy.
    from burnish.models.cache import ModelCache

    return ModelCache(find_home().models).find(name).directory


def local_model_folder(name: str) -> Path | None:
    """`name` as a Hugging Face folder on this machine, if it is one."""
    folder = Path(name).expanduser()
    return folder if (folder / "config.json").is_file() else None


def find_model(client: Client, name: str) -> ModelView:
    return _export_of(client, name) if is_run_id(name) else client.models.get(name)


def find_whole_model(client: Client, name: str) -> ModelView:
    """As `find_model`, but never an adapter: of a run that left both, its merged model."""
    if is_run_id(name):
        whole = [model for model in client.models.list() if model.run_id == name and model.kind != "adapter"]
        model = max(whole, key=lambda model: model.step or 0, default=None) or find_model(client, name)
    else:
        model = find_model(client, name)
    if model.kind == "adapter":
        raise ModelError(
            f"{model.id} is an adapter, and a GGUF file holds a whole model.",
            hint="Train it with [export] merged = true, which leaves one.",
        )
    return model


def model_folder(client: Client, name: str) -> Path:
    """The folder of a model of the server's, where that is this machine."""
    model = find_model(client, name)
    folder = Path(model.directory)
    if not folder.is_dir():
        raise ModelError(
            f"{model.id} lies on the server's machine, not on this one ({folder}).",
            hint="Run this command there, or fetch a run's model with `burnish volumes get`.",
        )
    return folder


def newest_model(client: Client, run_id: str) -> ModelView | None:
    """What the run made, if it made any."""
    made = [model for model in client.models.list() if model.run_id == run_id]
    return max(made, key=lambda model: model.step or 0, default=None)


def _export_of(client: Client, run_id: str) -> ModelView:
    if model := newest_model(client, run_id):
        return model
    run = client.runs.get(run_id)
    if not run.status.is_over:
        raise RunError(
            f"Run {run_id} has no model yet: it is {run.status}.",
            hint=f"It comes at the end: burnish train logs {run_id} -f",
        )
    raise RunError(
        f"Run {run_id} left no model: it is {run.status}.",
        hint=f"Its log says how far it came: burnish train logs {run_id}",
    )
