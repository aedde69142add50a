"""One server per home: its lock, its key, its port, and the file that tells others where it listens.

Knows no route and no run.
"""

import fcntl
import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

import burnish
from burnish.errors import Conflict, ServerError
from burnish.home import Home

DEFAULT_PORT = 8420

_log = logging.getLogger("burnish.api")

_GRACE_SECONDS = 2
"""For requests that are being answered when the server is told to stop."""
_LAST_SECONDS = 4.0
"""Then a download that will not be interrupted is left: its half is swept away by the next one."""


class Server(uvicorn.Server):
    """Says in `server.json` where it listens, for as long as it does."""

    def __init__(self, app: FastAPI, *, home: Home, url: str) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,  # its lines would hold the keys of watched pages
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self.home = home
        self.url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _announce(self.home, self.url)
            _log.info("Serving %s at %s", self.home.root, self.url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.home.server.unlink(missing_ok=True)
        last = threading.Timer(_LAST_SECONDS, os._exit, (0,))
        last.daemon = True
        last.start()
        await super().shutdown(sockets)


@contextmanager
def claim_home(home: Home) -> Iterator[None]:
    """Hold the home's lock; `Conflict` names the server that has it."""
    home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with home.server_lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"{home.root} is served already, {_who(home)}.", hint="burnish down stops it.") from error
        home.server.unlink(missing_ok=True)  # of one that was killed
        try:
            yield
        finally:
            home.server.unlink(missing_ok=True)


def read_or_make_token(home: Home) -> str:
    """The home's key, made once, readable by its user alone."""
    if not home.token.exists():
        with suppress(FileExistsError):
            _write_once(home, secrets.token_urlsafe(32))
    home.token.chmod(0o600)
    token = home.token.read_text("ascii", errors="replace").strip()
    if len(token) < 16 or not token.isascii():
        raise ServerError(
            f"{home.token} does not hold a key.", hint="Remove that file; the next start makes a new key."
        )
    return token


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket on `port`; where None is said and the usual port is taken, on a free one."""
    try:
        return _bind(host, DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is None:
            return _bind(host, 0)
        raise ServerError(
            f"{host}:{port} cannot be listened on ({error.strerror}).",
            hint="Choose another --port; 0 takes a free one.",
        ) from error


def url_of(listener: socket.socket, host: str) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{listener.getsockname()[1]}"


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ServerError(f"{host} is no address of this machine.", hint="Use 127.0.0.1.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener


def _announce(home: Home, url: str) -> None:
    about = {"url": url, "pid": os.getpid(), "version": burnish.__version__}
    temporary = home.server.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(about, file)
    temporary.replace(home.server)


def _write_once(home: Home, token: str) -> None:
    """A link, so that the file is there with its key in it or not at all. `FileExistsError` if one is there."""
    temporary = home.root / f".token-{secrets.token_hex(8)}"
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    try:
        home.token.hardlink_to(temporary)
    finally:
        temporary.unlink()


def _who(home: Home) -> str:
    try:
        about = json.loads(home.server.read_text())
        return f"by process {about['pid']} at {about['url']}"
    except (OSError, ValueError, KeyError):
        return "by a process that is just starting or stopping"
