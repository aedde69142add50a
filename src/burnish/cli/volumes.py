"""`burnish volumes`: storage for data and runs, and the files on it."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli.session import Json, Yes, answer, ask_first, new_app, open_client
from burnish.cli.show import transfer_bar
from burnish.cli.text import entries_text, volume_text, volumes_text
from burnish.literals import format_size
from burnish.sdk.files import Transfer
from burnish.wire import EntryList, VolumeList

app = new_app("Storage for data and runs. A path on a volume starts at its root: /datasets/my-data.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The volume.", show_default=False)]
Size = Annotated[str, typer.Option(help="As in 500Mi, 100Gi, 2Ti.")]
Remote = Annotated[str, typer.Argument(metavar="PATH", help="A path on the volume.")]


@app.command()
def create(name: Name, size: Size = "100Gi", json: Json = False) -> None:
    """Create a volume."""
    with open_client() as client:
        volume = client.volumes.create(name, size=size)
    text = f"Created volume {name} ({format_size(volume.size_bytes)}).\n"
    text += f"Put data on it: burnish volumes put {name} ./my-data /datasets/my-data"
    answer(volume, text, json=json)


@app.command("list")
def list_volumes(json: Json = False) -> None:
    """List the volumes."""
    with open_client() as client:
        volumes = client.volumes.list()
    text = volumes_text(volumes) or "No volumes yet. Create one: burnish volumes create research --size 100Gi"
    answer(VolumeList(volumes=volumes), text, json=json)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show one volume."""
    with open_client() as client:
        volume = client.volumes.get(name)
    answer(volume, volume_text(volume), json=json)


@app.command()
def resize(name: Name, size: Annotated[str, typer.Option(help="The new size: 200Gi.")], json: Json = False) -> None:
    """Change the size of a volume."""
    with open_client() as client:
        volume = client.volumes.resize(name, size=size)
    answer(volume, f"Volume {volume.name} is {format_size(volume.size_bytes)} now.", json=json)


@app.command()
def delete(name: Name, yes: Yes = False, json: Json = False) -> None:
    """Delete a volume and everything on it."""
    with open_client() as client:
        volume = client.volumes.get(name)
        ask_first(f"Delete volume {name} with the {format_size(volume.used_bytes)} on it?", yes=yes)
        client.volumes.delete(name)
    answer(volume, f"Deleted volume {name}.", json=json)


@app.command()
def put(
    name: Name,
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="A file or a folder on this machine.")],
    remote: Annotated[str, typer.Argument(metavar="REMOTE", help="Where to; else the same name at the root.")] = "",
    json: Json = False,
) -> None:
    """Put a file, or a folder's contents, on a volume.

    `put research ./my-data /datasets/my-data` puts what is in ./my-data into /datasets/my-data. A file goes into
    REMOTE where that is a folder or ends in /, and becomes REMOTE otherwise.
    """
    target = remote or (f"/{local.resolve().name}" if local.is_dir() else "/")
    with open_client() as client, transfer_bar(f"Putting {local}") as progress:
        done = client.files.put(name, local, target, progress=progress)
        entry = client.files.measure(name, done.path)
    answer(entry, f"Put {_transfer_text(done)} to {done.path}", json=json)


@app.command()
def get(
    name: Name,
    remote: Remote,
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="Where to; into it, where it is a folder.")] = Path(),
    json: Json = False,
) -> None:
    """Get a file or a folder from a volume."""
    with open_client() as client, transfer_bar(f"Getting {remote}") as progress:
        done = client.files.get(name, remote, local, progress=progress)
        entry = client.files.measure(name, remote)
    answer(entry, f"Got {_transfer_text(done)} in {done.path}", json=json)


@app.command()
def ls(
    name: Name,
    path: Remote = "/",
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Everything under it too.")] = False,
    json: Json = False,
) -> None:
    """List a folder on a volume."""
    with open_client() as client:
        entries = client.files.list(name, path, recursive=recursive)
    answer(EntryList(entries=entries), entries_text(entries, whole_paths=recursive), json=json)


@app.command()
def du(name: Name, path: Remote = "/", json: Json = False) -> None:
    """Say how much a file or folder takes."""
    with open_client() as client:
        entry = client.files.measure(name, path)
    answer(entry, f"{format_size(entry.size_bytes)}  {entry.path}", json=json)


@app.command()
def rm(
    name: Name,
    path: Remote,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="A folder and all that is in it.")] = False,
    json: Json = False,
) -> None:
    """Remove a file, or with -r a folder, from a volume."""
    with open_client() as client:
        entry = client.files.measure(name, path)
        client.files.remove(name, path, recursive=recursive)
    answer(entry, f"Removed {entry.path} ({format_size(entry.size_bytes)}).", json=json)


def _transfer_text(done: Transfer) -> str:
    return f"{done.files} file{'' if done.files == 1 else 's'} ({format_size(done.size_bytes)})"
