"""A model hub on 127.0.0.1 that speaks as much of the Hugging Face API as a download needs. Shared by tests."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    repositories: dict[str, Path] = field(default_factory=dict)
    """Repository id -> its files."""
    gated: set[str] = field(default_factory=set)
    private: dict[str, str] = field(default_factory=dict)
    """Repository id -> the key that opens it."""
    cut: set[str] = field(default_factory=set)
    """File names that end after half of their bytes."""
    failing: bool = False
    """Answer 500 to everything."""
    served: list[str] = field(default_factory=list)
    """Names of the files that were sent."""
    url: str = ""


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        if self.hub.failing:
            return self._refuse(500, "")
        kind, repository, rest = _read_path(path)
        folder = self.hub.repositories.get(repository)
        key = self.hub.private.get(repository)
        if folder is None or (key and self.headers.get("Authorization") != f"Bearer {key}"):
            return self._refuse(401, "RepoNotFound")
        if repository in self.hub.gated and kind == "file":
            return self._refuse(403, "GatedRepo")
        if kind == "file":
            return self._send_file(folder / rest, body=body)
        return self._send_json(_info(repository, folder) if kind == "info" else _tree(folder))

    def _send_file(self, path: Path, *, body: bool) -> None:
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.hub.served.append(path.name)
            if path.name in self.hub.cut:
                data, self.close_connection = data[: len(data) // 2], True
            self.wfile.write(data)

    def _send_json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", f"{code} for {self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()


def _read_path(path: str) -> tuple[str, str, str]:
    """(`info` | `tree` | `file`, repository, path within it)."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "models"]:
        return ("tree" if "tree" in parts[4:5] else "info"), "/".join(parts[2:4]), ""
    return "file", "/".join(parts[:2]), "/".join(parts[4:])


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _info(repository: str, folder: Path) -> dict[str, object]:
    siblings = [{"rfilename": path.relative_to(folder).as_posix()} for path in _files(folder)]
    return {"id": repository, "modelId": repository, "sha": COMMIT, "private": False, "siblings": siblings, "tags": []}


def _tree(folder: Path) -> list[dict[str, object]]:
    return [
        {
            "type": "file",
            "path": path.relative_to(folder).as_posix(),
            "size": path.stat().st_size,
            "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
        }
        for path in _files(folder)
    ]
