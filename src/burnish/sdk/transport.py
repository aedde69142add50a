"""One HTTP exchange with a burnish server, its failures turned into the errors of `burnish.errors`.

Knows addresses, keys and status codes; nothing of runs or volumes.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from burnish.errors import BurnishError, ConfigError, Problem, ServerError, error_from_code
from burnish.wire import PREFIX, ErrorView

W = TypeVar("W", bound=BaseModel)

_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_PATIENCE_SECONDS = 60.0
"""How long a reader waits for a server that went away: long enough for a restart."""

Find = Callable[[], tuple[str, str] | None]
"""Where the server is now: (url, key), or None while none runs."""


class Transport:
    """`find` is asked again when the server stops answering, so that a reader outlives a restart."""

    def __init__(self, url: str, api_key: str, *, http: httpx.Client | None = None, find: Find | None = None) -> None:
        self._http = http or _open(url)
        self._find = find
        self._aim(url, api_key)

    def _aim(self, url: str, api_key: str) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def close(self) -> None:
        self._http.close()

    def ask(self, answer: type[W], method: str, path: str, **request: Any) -> W:
        """Send and read an answer of that shape. Requests carry `params`, `json`, `content` or `headers`."""
        response = self._send(method, path, **request)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise ServerError(
                f"{self.url} answered {method} {path} with something that is not a {answer.__name__}.",
                hint="Is that a burnish server, and of this version? `burnish status` tells.",
            ) from error

    def tell(self, method: str, path: str, **request: Any) -> None:
        self._send(method, path, **request)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[bytes]]:
        """The body of a GET, in pieces."""
        with self._translated(), self._http.stream("GET", self._address(path), headers=self._headers) as response:
            if response.status_code >= 400:
                response.read()
            _raise_for(response)
            yield response.iter_bytes()

    def await_return(self, *, seconds: float = _PATIENCE_SECONDS) -> bool:
        """Wait until a server answers again; False where none came."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self._find() if self._find else (self.url, "")
            if found is not None and _answers(self._http, found[0]):
                if self._find:
                    self._aim(*found)
                return True
            time.sleep(0.5)
        return False

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = self._headers | request.pop("headers", {})
        with self._translated():
            response = self._http.request(method, self._address(path), headers=headers, **request)
        _raise_for(response)
        return response

    def _address(self, path: str) -> str:
        return f"{self.url}{PREFIX}{path}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ServerError(
                f"{self.url} is not the address of a server.", hint="Write BURNISH_URL as http://host:port."
            ) from error
        except httpx.TimeoutException as error:
            raise ServerError(f"The server at {self.url} took too long to answer.", hint=_LOOK) from error
        except httpx.ConnectError as error:
            raise Unreachable(f"The server at {self.url} cannot be reached.", hint=_LOOK) from error
        except httpx.TransportError as error:
            raise LostReply(f"The server at {self.url} broke off in the middle.", hint=_LOOK) from error


class Unreachable(ServerError):
    """No connection: the server may come back."""


class LostReply(Unreachable):
    """The request went out and no whole answer came: nobody knows whether it was done."""


_LOOK = "`burnish status` shows what runs; `burnish up` starts the local server."


def path_of(*parts: str) -> str:
    """`/volumes/research/files/a%20b/c.jsonl`: each part quoted, slashes inside the parts kept."""
    return "".join("/" + quote(part.strip("/"), safe="/:") for part in parts)


def _open(url: str) -> httpx.Client:
    # A proxy named in the environment has no business between us and our own machine.
    is_here = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    return httpx.Client(timeout=_TIMEOUT, trust_env=not is_here)


def _answers(http: httpx.Client, url: str) -> bool:
    try:
        return http.get(f"{url}{PREFIX}/health", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


def _raise_for(response: httpx.Response) -> None:
    if response.status_code >= 400:
        raise _error_of(response)


def _error_of(response: httpx.Response) -> BurnishError:
    try:
        view = ErrorView.model_validate(json.loads(response.content))
    except (ValueError, ValidationError):
        return ServerError(
            f"The server answered {response.request.method} {response.request.url.path} "
            f"with status {response.status_code}.",
            hint="Its log says why: `burnish status` names the file.",
        )
    if view.code == ConfigError.code:
        problems = tuple(Problem(each.key, each.message) for each in view.problems)
        return ConfigError(view.message, hint=view.hint, problems=problems)
    return error_from_code(view.code, view.message, view.hint)
