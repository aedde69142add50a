"""One local server for the session, started and stopped as the SDK does it."""

from collections.abc import Iterator

import pytest

from burnish.home import Home
from burnish.sdk.client import Client
from burnish.sdk.local import Place, connect, start_server, stop_server


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("sdk") / "home")
    start_server(home)
    yield home
    stop_server(home)


@pytest.fixture(scope="session")
def client(home: Home) -> Iterator[Client]:
    with connect(Place(home=home)) as client:
        client.volumes.create("research", size="100Mi")
        yield client
