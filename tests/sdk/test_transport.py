"""What becomes of a request when the network or the server misbehaves."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from burnish.errors import AccessDenied, ConfigError, NotFound, ServerError
from burnish.sdk.client import Client
from burnish.sdk.local import find_place
from burnish.sdk.transport import LostReply, path_of

CONFIG = """\
max_steps = 100000
[model]
name = "burnish/tiny"
[data]
type = "fake"
"""


@contextmanager
def a_line_that_drops_the_first_reply(url: str) -> Iterator[str]:
    """A relay before the server at `url`: the first connection's request arrives and its answer does not."""
    listener = socket.create_server(("127.0.0.1", 0))
    upstream = (urlsplit(url).hostname, urlsplit(url).port)

    def relay(front: socket.socket, *, drop: bool) -> None:
        with front, socket.create_connection(upstream) as back:
            pump = threading.Thread(target=copy, args=(front, back), daemon=True)
            pump.start()
            if drop:
                back.recv(1)
                front.shutdown(socket.SHUT_RDWR)
            else:
                copy(back, front)

    def serve() -> None:
        for count in range(1_000_000):
            try:
                front, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=relay, args=(front,), kwargs={"drop": count == 0}, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65_536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_dispatch_whose_reply_is_lost_makes_one_run(client, home):
    with a_line_that_drops_the_first_reply(client.url) as url, Client(url, home.token.read_text().strip()) as far:
        run = far.runs.submit(CONFIG, name="sent twice")
    client.runs.stop(run.id)
    assert [each.id for each in client.runs.list() if each.name == "sent twice"] == [run.id]


def test_a_lost_reply_to_anything_else_is_told(client, home):
    with a_line_that_drops_the_first_reply(client.url) as url, Client(url, home.token.read_text().strip()) as far:
        with pytest.raises(LostReply, match="broke off in the middle"):
            far.volumes.create("lost", size="1Mi")
        assert "lost" in [volume.name for volume in far.volumes.list()]


def test_errors_come_back_as_the_class_that_was_raised(client):
    with pytest.raises(NotFound, match="no volume nowhere"):
        client.volumes.get("nowhere")
    with pytest.raises(ConfigError, match=r"\[eval\]"):
        client.runs.submit(CONFIG + "[eval]\n")
    with Client(client.url, "wrong") as stranger, pytest.raises(AccessDenied):
        stranger.runs.list()
    assert client.health().name == "burnish"


def test_nobody_there_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "key") as client, pytest.raises(ServerError) as caught:
        client.runs.list()
    assert caught.value.message == f"The server at http://127.0.0.1:{port} cannot be reached."
    assert "burnish up" in caught.value.hint


def test_what_is_no_burnish_server_is_a_sentence_too():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Client(url, "key") as client, pytest.raises(ServerError, match="not a RunList"):
            client.runs.list()


def test_names_with_anything_in_them_stay_one_path():
    assert path_of("volumes", "a", "files", "b c/d?#%.txt") == "/volumes/a/files/b%20c/d%3F%23%25.txt"
    assert path_of("models", "ft:burnish/tiny:job_0") == "/models/ft:burnish/tiny:job_0"


def test_an_address_needs_its_key():
    with pytest.raises(AccessDenied, match="BURNISH_API_KEY"):
        find_place({"BURNISH_URL": "http://127.0.0.1:1"})
    with pytest.raises(AccessDenied, match="no key has"):
        find_place({"BURNISH_URL": "http://127.0.0.1:1", "BURNISH_API_KEY": "schlüssel"})
    place = find_place({"BURNISH_URL": "http://127.0.0.1:1", "BURNISH_API_KEY": " key\n"})
    assert (place.home, place.api_key) == (None, "key")
    assert find_place({"BURNISH_HOME": "/x"}).home is not None
