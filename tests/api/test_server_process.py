"""One real server per home: it says where it listens, keeps its key to itself, and ends when told to."""

import json
import re
import signal
import socket
import stat
import time
from pathlib import Path

from door import START_SECONDS, await_server_file, part_files, serving, start

import burnish
from burnish.home import Home


def test_a_server_from_start_to_stop(tmp_path: Path):
    home = Home(tmp_path / "home")
    with serving(home) as server:
        about = json.loads(home.server.read_text())
        assert about == {"url": server.url, "pid": server.process.pid, "version": burnish.__version__}
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", server.url)
        assert [stat.S_IMODE(path.stat().st_mode) for path in (home.token, home.server)] == [0o600, 0o600]
        assert server.api.get("/health").json()["pid"] == server.process.pid
        refuses_a_second(home, server.process.pid, server.url)
        server.api.get("/runs", params={"key": "a-watch-key"})
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
        assert time.monotonic() - begun < 5
    assert not home.server.exists()
    assert server.token not in server.log and "a-watch-key" not in server.log


def refuses_a_second(home: Home, pid: int, url: str) -> None:
    other = Home(home.root)
    second = start(other, "--port", "0")
    assert second.wait(timeout=START_SECONDS) == 1
    assert f"is served already, by process {pid} at {url}." in other.server_log.read_text()
    assert json.loads(home.server.read_text())["pid"] == pid


def test_what_a_killed_server_left_does_not_stop_the_next_which_keeps_the_key(tmp_path: Path):
    home = Home(tmp_path / "home")
    killed = start(home, "--port", "0")
    first = await_server_file(home, killed)
    token = home.token.read_text()
    killed.kill()
    killed.wait()
    assert home.server.exists()
    with serving(home) as server:
        assert server.api.get("/runs").status_code == 200
        assert server.process.pid != first["pid"]
        assert home.token.read_text() == token


def test_a_client_that_never_ends_its_upload_keeps_no_server(tmp_path: Path):
    home = Home(tmp_path / "home")
    with serving(home) as server, socket.create_connection(server.address) as connection:
        server.api.post("/volumes", json={"name": "research", "size": "1Mi"}).raise_for_status()
        connection.sendall(
            b"PUT /burnish/v1/volumes/research/files/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
            b"Authorization: Bearer " + server.token.encode() + b"\r\n\r\nx"
        )
        deadline = time.monotonic() + 20
        while not part_files(home):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
        assert time.monotonic() - begun < 6
    assert part_files(home) == []


def test_a_port_that_is_taken_is_told(tmp_path: Path):
    home = Home(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(home, "--port", str(port))
        assert process.wait(timeout=START_SECONDS) == 1
    assert f"127.0.0.1:{port} cannot be listened on" in home.server_log.read_text()
    assert "Traceback" not in home.server_log.read_text()
    assert not home.server.exists()
