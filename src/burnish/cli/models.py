"""`burnish models`: what can be trained and chatted with."""

import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli.model_folder import find_model, find_whole_model, local_model_folder, model_folder
from burnish.cli.session import Json, answer, new_app, open_client, say
from burnish.cli.text import NO_MODELS, count_text, model_text, models_text
from burnish.errors import Conflict, ModelError
from burnish.literals import format_size
from burnish.wire import ModelList, ModelView

app = new_app("Models to train and to chat with.")

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="Its id: burnish/tiny, ft:...", show_default=False)]


@app.command("list")
def list_models(json: Json = False) -> None:
    """List the models."""
    with open_client() as client:
        models = client.models.list()
    answer(ModelList(models=models), models_text(models) or NO_MODELS, json=json)


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="A folder, a GGUF file, a hub id, or burnish/tiny.")],
    name: Annotated[str | None, typer.Option(help="What to call it; by default the hub id or the file's name.")] = None,
    json: Json = False,
) -> None:
    """Add a model: a Hugging Face folder, a GGUF file, a hub id, or burnish/tiny."""
    with open_client() as client:
        if not json:
            say(f"Adding {source}...")
        model = client.models.add(_whole_path(source), name=name)
    answer(model, f"Added {model.id}: {_size_text(model)}.", json=json)


@app.command()
def show(model_id: ModelId, json: Json = False) -> None:
    """Show one model."""
    with open_client() as client:
        model = find_model(client, model_id)
    answer(model, model_text(model), json=json)


@app.command()
def remove(model_id: ModelId, json: Json = False) -> None:
    """Remove a model from the cache."""
    with open_client() as client:
        model = client.models.get(model_id)
        client.models.remove(model_id)
    answer(model, f"Removed {model.id}.", json=json)


class GgufType(StrEnum):
    F16 = "f16"
    Q8_0 = "q8_0"


@app.command()
def export(
    model_id: ModelId,
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="A new folder; with --gguf a new file.", show_default=False)
    ],
    gguf: Annotated[
        GgufType | None, typer.Option(help="Write one GGUF file: 16 bits a weight, or 8.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Copy a model to DEST, as a folder that `from_pretrained` loads. A run id stands for the run's model."""
    if destination.exists() and (gguf or not destination.is_dir() or any(destination.iterdir())):
        what = "file that is not there" if gguf else "folder that is new or empty"
        raise Conflict(f"{destination} is there already.", hint=f"Name a {what}.")
    if destination.suffix == ".gguf" and gguf is None:
        raise Conflict(f"{destination} would be a folder.", hint="For a GGUF file add --gguf f16, or --gguf q8_0.")
    with open_client() as client:
        model = find_whole_model(client, model_id) if gguf else find_model(client, model_id)
        folder = model_folder(client, model.id)
        if gguf:
            _write_gguf(folder, destination, gguf)
        else:
            _copy_whole(folder, destination)
    size = destination.stat().st_size if gguf else model.size_bytes
    answer(model, f"Exported {model.id} ({format_size(size)}) to {destination}", json=json)


def _write_gguf(folder: Path, destination: Path, kind: GgufType) -> None:
    """In a process of its own: the command line needs no numpy."""
    from burnish.models.gguf_family import refuse_unwritable

    refuse_unwritable(folder)
    command = [sys.executable, "-m", "burnish.train.write_gguf", str(folder), str(destination), str(kind)]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        destination.unlink(missing_ok=True)
        said = done.stderr.strip().splitlines()
        raise ModelError(said[-1] if said else f"{destination} could not be written (code {done.returncode}).")


def _copy_whole(source: Path, destination: Path) -> None:
    temporary = destination.with_name(f".{destination.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        shutil.copytree(source, temporary, ignore=shutil.ignore_patterns("burnish-model.json"))
        temporary.replace(destination)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _whole_path(source: str) -> str:
    """The server works in another folder: a path of ours must be whole. A hub id stays as it is."""
    path = Path(source).expanduser()
    is_path = source.startswith((".", "/", "~")) or path.is_file() or local_model_folder(source) is not None
    return str(path.resolve()) if is_path else source


def _size_text(model: ModelView) -> str:
    return f"{model.architecture}, {count_text(model.parameters)} parameters, {format_size(model.size_bytes)}"
