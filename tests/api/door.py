"""What the tests of the front door hold in their hands, and how a real server is started and stopped."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from fastapi.testclient import TestClient

from burnish.control.house import House
from burnish.home import Home
from burnish.wire import PREFIX

START_SECONDS = 40.0

FAKE_RUN = """
max_steps = 4
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 64
batch_size = 2
"""


@dataclass
class Door:
    house: House
    token: str
    api: TestClient
    """With the key, under `/burnish/v1`."""
    stranger: TestClient
    """Without, at the root."""

    def submit(self) -> dict[str, str]:
        answer = self.api.post("/runs", json={"config": FAKE_RUN})
        assert answer.status_code == 200, answer.text
        return answer.json()


@dataclass
class RealServer:
    home: Home
    process: subprocess.Popen[bytes]
    url: str
    token: str
    api: httpx.Client

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    @property
    def log(self) -> str:
        return self.home.server_log.read_text()


@contextmanager
def serving(home: Home, *arguments: str) -> Iterator[RealServer]:
    """A server process on a free port; stopped at the end, if it still runs."""
    process = start(home, "--port", "0", *arguments)
    try:
        about = await_server_file(home, process)
        token = home.token.read_text().strip()
        keyed = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=about["url"] + PREFIX, headers=keyed, trust_env=False, timeout=60) as api:
            yield RealServer(home, process, about["url"], token, api)
    finally:
        process.terminate()
        process.wait(timeout=20)


def start(home: Home, *arguments: str) -> subprocess.Popen[bytes]:
    home.root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "burnish.api", "--home", str(home.root), *arguments]
    with home.server_log.open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def await_server_file(home: Home, process: subprocess.Popen[bytes]) -> dict[str, str]:
    """What that process wrote; a file that an earlier one left does not count."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            about = json.loads(home.server.read_text())
            if about["pid"] == process.pid:
                return about
        assert process.poll() is None, home.server_log.read_text()
        time.sleep(0.02)
    raise AssertionError(f"no server.json after {START_SECONDS} s:\n{home.server_log.read_text()}")


def part_files(home: Home) -> list[Path]:
    """What is left of uploads to `research`."""
    return list((home.volume("research") / ".burnish").glob("put-*"))
