"""From what people call a model to its folder on this machine.

A name is a catalogue id (`burnish/tiny`, `ft:<base>:<job>`), a run id (the run's newest export) or a folder.
"""

from pathlib import Path

from burnish.errors import ModelError, RunError
from burnish.literals import is_run_id
from burnish.sdk.client import Client
from burnish.wire import ModelView


def local_model_folder(name: str) -> Path | None:
    """`name` as a Hugging Face folder on this machine, if it is one."""
    folder = Path(name).expanduser()
    return folder if (folder / "config.json").is_file() else None


def find_model(client: Client, name: str) -> ModelView:
    return _export_of(client, name) if is_run_id(name) else client.models.get(name)


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
