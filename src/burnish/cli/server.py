"""`burnish up`, `down`, `status` and `serve`: the server itself."""

import os
import sys
from typing import Annotated

import typer
from pydantic import Field

import burnish
from burnish.cli.session import Json, answer, new_app, say
from burnish.cli.text import capacity_text, runs_text
from burnish.errors import BurnishError, ServerError
from burnish.home import Home, find_home
from burnish.run.status import RunStatus
from burnish.sdk.local import Place, connect, find_place, running_server, start_server, stop_server
from burnish.wire import CapacityView, RunView, Wire

app = new_app("The server.")


class StatusView(Wire):
    """What `burnish status --json` prints."""

    running: bool
    url: str = ""
    version: str = ""
    pid: int | None = None
    home: str = ""
    log: str = ""
    capacity: CapacityView | None = None
    runs: list[RunView] = Field(default=[])
    """Those that are not over."""


@app.command()
def up(json: Json = False) -> None:
    """Start the local server in the background; one of another version is restarted."""
    home = _own_home()
    found = running_server(home)
    if found and found.version != burnish.__version__:
        say(f"Restarting the server: it is burnish {found.version}, this is {burnish.__version__}. Runs go on.")
        stop_server(home)
        found = None
    started = found or start_server(home)
    text = f"The server {'runs' if found else 'is up'} at {started.url} (process {started.pid})."
    answer(_look(find_place()), text, json=json)


@app.command()
def down(json: Json = False) -> None:
    """Stop the local server. Runs go on, and are found again by the next one."""
    home = _own_home()
    alive = _runs_if_it_tells()
    stopped = stop_server(home)
    text = f"The server (process {stopped.pid}) has stopped." if stopped else "No server runs."
    training = [run for run in alive if run.status is not RunStatus.PENDING]
    if training:
        text += f"\n{len(training)} run{'s go' if len(training) > 1 else ' goes'} on: `burnish up` finds them again."
    answer(StatusView(running=False, home=str(home.root), log=str(home.server_log), runs=alive), text, json=json)


@app.command()
def status(json: Json = False) -> None:
    """Show the server, what it can run on, and what runs."""
    view = _look(find_place())
    answer(view, _status_text(view), json=json)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
) -> None:
    """Run the server in the foreground, until Ctrl-C. Runs go on without it."""
    home = find_home()
    if found := running_server(home):
        raise ServerError(f"A server runs already for {home.root}, at {found.url}.", hint="`burnish down` stops it.")
    command = [sys.executable, "-m", "burnish.api", "--home", str(home.root.resolve())]
    command += ["--host", host, "--port", str(port)]
    sys.stdout.flush()
    os.execv(command[0], command)


def _status_text(view: StatusView) -> str:
    if not view.running:
        return f"No server runs for {view.home}. Any command starts it; so does `burnish up`."
    lines = [f"Server: {view.url} (burnish {view.version}, process {view.pid})"]
    if view.home:
        lines += [f"Home: {view.home}", f"Log: {view.log}"]
    if view.capacity:
        lines.append(f"Runs on: {capacity_text(view.capacity)}")
    return "\n".join([*lines, "", runs_text(view.runs) or "Nothing trains now."])


def _look(place: Place) -> StatusView:
    """The server as it is; nothing is started to find out."""
    home = place.home
    own, log = (str(home.root), str(home.server_log)) if home else ("", "")
    if home and running_server(home) is None:
        return StatusView(running=False, home=own, log=log)
    with connect(place) as client:
        health = client.health()
        alive = [run for run in client.runs.list() if not run.status.is_over]
        return StatusView(
            running=True,
            url=client.url,
            version=health.version,
            pid=health.pid,
            capacity=client.capacity(),
            runs=alive,
            home=own,
            log=log,
        )


def _runs_if_it_tells() -> list[RunView]:
    """A server whose key or database is lost can still be stopped."""
    try:
        return _look(find_place()).runs
    except BurnishError as error:
        say(f"Its runs cannot be listed: {error.message}")
        return []


def _own_home() -> Home:
    place = find_place()
    if place.home is None:
        raise ServerError(
            f"BURNISH_URL points at {place.url}, a server that this command does not manage.",
            hint="Unset BURNISH_URL to manage the server of this machine.",
        )
    return place.home
