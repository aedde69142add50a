"""Files go over a real connection whole, or not at all."""

import concurrent.futures
import hashlib
import os
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from door import RealServer, part_files

from burnish.wire import PREFIX

MIB = 1024**2


def request_head(server: RealServer, verb: str, path: str, *lines: str) -> bytes:
    host, port = server.address
    head = [f"{verb} {PREFIX}{path} HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {server.token}", *lines]
    return "\r\n".join([*head, "", ""]).encode()


def raw(server: RealServer, data: bytes) -> bytes:
    """Send, then read to the end."""
    with socket.create_connection(server.address, timeout=20) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def names(server: RealServer) -> dict[str, int]:
    entries = server.api.get("/volumes/research/entries", params={"recursive": True}).json()["entries"]
    return {entry["path"]: entry["size_bytes"] for entry in entries if entry["kind"] == "file"}


def await_no_parts(server: RealServer) -> None:
    deadline = time.monotonic() + 20
    while part_files(server.home):
        assert time.monotonic() < deadline, part_files(server.home)
        time.sleep(0.01)


def test_a_large_file_comes_back_equal(server: RealServer):
    data = os.urandom(20 * MIB + 7)
    pieces = (data[start : start + 100_003] for start in range(0, len(data), 100_003))
    sized = {"Content-Length": str(len(data))}
    put = server.api.put("/volumes/research/files/datasets/large", content=pieces, headers=sized)
    assert put.json()["size_bytes"] == len(data)
    got = hashlib.sha256()
    with server.api.stream("GET", "/volumes/research/files/datasets/large") as answer:
        for piece in answer.iter_bytes():
            got.update(piece)
    assert got.digest() == hashlib.sha256(data).digest()
    server.api.delete("/volumes/research/files/datasets/large")


def test_a_body_in_chunks_says_its_length_beforehand(server: RealServer):
    path = "/volumes/research/files/datasets/chunked"
    assert server.api.put(path, content=iter([b"x" * 10])).json()["message"].startswith("The upload does not say")
    for said, status in (("10", 200), ("9", 400), ("11", 400), ("-1", 422), ("ten", 422)):
        answer = server.api.put(path, content=iter([b"x" * 10]), headers={"X-Burnish-Size": said})
        assert (said, answer.status_code) == (said, status)
    assert names(server) == {"/datasets/chunked": 10}
    server.api.delete(path)


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_connection_cut_in_the_middle_leaves_what_was_there(server: RealServer, old: bytes | None):
    path = "/volumes/research/files/datasets/train.jsonl"
    if old:
        server.api.put(path, content=old).raise_for_status()
    before = names(server)
    whole = os.urandom(5 * MIB)
    connection = socket.create_connection(server.address)
    connection.sendall(request_head(server, "PUT", path.removeprefix(PREFIX), f"Content-Length: {len(whole)}"))
    connection.sendall(whole[: len(whole) * 6 // 10])
    connection.close()
    await_no_parts(server)
    assert names(server) == before
    # And the retry ends whole.
    server.api.put(path, content=whole).raise_for_status()
    assert server.api.get(path).content == whole
    server.api.delete(path)


def test_a_put_that_is_refused_is_told_in_the_middle_of_the_sending(server: RealServer):
    def body() -> Iterator[bytes]:
        for _ in range(32):
            yield b"x" * MIB

    path = "/volumes/research/files/runs/not-here"
    refused = server.api.put(path, content=body(), headers={"Content-Length": str(32 * MIB)})
    assert (refused.status_code, refused.json()["code"]) == (400, "volume")
    assert part_files(server.home) == []


def test_a_client_that_asks_first_sends_nothing_in_vain(server: RealServer):
    head = request_head(
        server, "PUT", "/volumes/research/files/datasets/huge", f"Content-Length: {10**12}", "Expect: 100-continue"
    )
    with socket.create_connection(server.address, timeout=20) as connection:
        connection.sendall(head)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 409 "), answer
    assert names(server) == {}


@pytest.mark.parametrize(
    "path",
    [
        "../../token",
        "..%2f..%2ftoken",
        "%2e%2e/%2e%2e/token",
        "datasets/%2e%2e/%2e%2e/%2e%2e/token",
        "a%00b",
        "a%5c..%5cb",
        "",
        "/",
        ".",
        "runs/x",
        ".burnish/lock",
        "%ff%fe/x/../../../token",
    ],
)
@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE"])
def test_a_hostile_path_is_refused_in_a_sentence(server: RealServer, verb: str, path: str):
    # By a raw connection, since a client would tidy the path up first.
    lines = ["Connection: close", "Content-Length: 1"] if verb == "PUT" else ["Connection: close"]
    body = b"x" if verb == "PUT" else b""
    answer = raw(server, request_head(server, verb, f"/volumes/research/files/{path}", *lines) + body)
    assert answer.split()[1] in (b"400", b"404"), answer
    assert b'"message"' in answer and server.token.encode() not in answer
    assert server.home.token.read_text().strip() == server.token
    assert names(server) == {}


def test_many_connections_at_once_keep_the_volume_in_its_size(server: RealServer):
    def send(number: int) -> int:
        path = f"{server.url}{PREFIX}/volumes/research/files/many/{number}"
        headers = {"Authorization": f"Bearer {server.token}"}
        return httpx.put(path, content=b"x" * 10 * MIB, headers=headers, timeout=60, trust_env=False).status_code

    with concurrent.futures.ThreadPoolExecutor(10) as senders:
        statuses = sorted(senders.map(send, range(10)))
    assert statuses == [200] * 6 + [409] * 4
    assert server.api.get("/volumes/research").json()["used_bytes"] == 60 * MIB
    assert part_files(server.home) == []
    server.api.delete("/volumes/research/files/many", params={"recursive": True}).raise_for_status()
