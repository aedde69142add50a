"""Finds the server that a command talks to, and starts the local one where none answers.

The address is `BURNISH_URL` with `BURNISH_API_KEY`, or else the server of `$BURNISH_HOME` on this machine.
Knows processes and files of the home; nothing of what the server does.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

import burnish
from burnish.errors import AccessDenied, BurnishError, ServerError
from burnish.home import Home, find_home
from burnish.sdk.client import Client

START_SECONDS = 20.0
STOP_SECONDS = 20.0
_LOG_TAIL_LINES = 8

Say = Callable[[str], None]


class ServerFile(BaseModel):
    """`server.json`, as the running server wrote it."""

    url: str
    pid: int
    version: str


@dataclass(frozen=True)
class Place:
    """Where commands go: `home` is None where the server is somebody else's to start and stop."""

    home: Home | None
    url: str = ""
    api_key: str = ""


def find_place(environment: Mapping[str, str] = os.environ) -> Place:
    url = environment.get("BURNISH_URL")
    if not url:
        return Place(home=find_home(environment))
    key = environment.get("BURNISH_API_KEY", "").strip()
    if not key:
        raise AccessDenied(
            f"BURNISH_URL is set to {url}, but BURNISH_API_KEY is not.",
            hint="Set BURNISH_API_KEY to that server's key, or unset BURNISH_URL to use this machine.",
        )
    if not (key.isascii() and key.isprintable()):
        raise AccessDenied("BURNISH_API_KEY holds a character that no key has.", hint="Copy that server's key again.")
    return Place(home=None, url=url, api_key=key)


def connect(place: Place, *, say: Say = lambda line: None) -> Client:
    """A client of the place's server; the local one is started where none answers."""
    if place.home is None:
        return Client(place.url, place.api_key)
    home = place.home
    found = running_server(home) or start_server(home, say=say)
    if found.version != burnish.__version__:
        say(f"The server runs burnish {found.version}, this is {burnish.__version__}: `burnish up` restarts it.")
    return Client(found.url, _read_key(home), find=lambda: _address(home))


def running_server(home: Home) -> ServerFile | None:
    """The local server, if its file, its process and its health agree that it runs."""
    try:
        found = ServerFile.model_validate_json(home.server.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    try:
        with Client(found.url, "") as client:
            # Another server may have taken the port since: the pid tells them apart.
            return found if client.health().pid == found.pid else None
    except BurnishError:
        return None


def start_server(home: Home, *, say: Say = lambda line: None) -> ServerFile:
    """Start the server in the background and return once it answers; of two callers at once only one starts it."""
    home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(home.root / "start.lock"):
        if found := running_server(home):
            return found
        say("Starting the local server...")
        process = _launch(home)
        return _await_answer(home, process)


def stop_server(home: Home) -> ServerFile | None:
    """Ask the local server to end and wait until it has; runs go on. None where none ran."""
    found = running_server(home)
    if found is None:
        return None
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while _is_alive(found.pid):
        if time.monotonic() > deadline:
            raise ServerError(
                f"The server (process {found.pid}) was asked to stop and has not after {STOP_SECONDS:.0f} s.",
                hint=f"Its log is {home.server_log}; `kill -9 {found.pid}` ends it, and loses no run.",
            )
        time.sleep(0.05)
    return found


def _launch(home: Home) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "burnish.api", "--home", str(home.root.resolve())]
    with home.server_log.open("ab") as log:
        # A session of its own: neither Ctrl-C here nor the end of this terminal reaches it.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home.root, start_new_session=True
        )


def _await_answer(home: Home, process: subprocess.Popen[bytes]) -> ServerFile:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if found := running_server(home):
            return found
        if process.poll() is not None:
            raise _start_error(home, f"The local server ended at once, with exit code {process.returncode}.")
        time.sleep(0.05)
    process.terminate()
    raise _start_error(home, f"The local server did not answer within {START_SECONDS:.0f} s.")


def _start_error(home: Home, sentence: str) -> ServerError:
    tail = _tail(home.server_log)
    said = f" Its log ends:\n{tail}" if tail else ""
    return ServerError(sentence + said, hint=f"The whole log is {home.server_log}.")


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    except FileNotFoundError:
        return ""
    return "\n".join(f"  {line}" for line in lines)


def _address(home: Home) -> tuple[str, str] | None:
    found = running_server(home)
    return (found.url, _read_key(home)) if found else None


def _read_key(home: Home) -> str:
    try:
        key = home.token.read_bytes().strip()
    except FileNotFoundError as error:
        raise AccessDenied(
            f"The local server's key, {home.token}, is gone.", hint="`burnish down` and `burnish up` write it anew."
        ) from error
    if not key.isascii():
        raise AccessDenied(f"{home.token} does not hold a key.", hint=f"`burnish down`, rm {home.token}, `burnish up`.")
    return key.decode()


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return _may_signal(pid) if sys.platform != "linux" else False
    return state != "Z"


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
