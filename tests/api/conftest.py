"""The front door twice: as an application in this process, and as a real server in its own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from door import Door, RealServer, serving
from fastapi.testclient import TestClient

from burnish.api.app import create_app
from burnish.control.db import Database, sqlite_url
from burnish.control.house import House
from burnish.executors.scripted import Scripted
from burnish.home import Home
from burnish.models.cache import ModelCache
from burnish.wire import PREFIX

TOKEN = "a-key-that-only-the-owner-has"


@pytest.fixture(scope="session")
def upgraded_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database's file, to be copied: an upgrade takes a while."""
    path = tmp_path_factory.mktemp("upgraded") / "burnish.db"
    database = Database(sqlite_url(path))
    database.upgrade()
    database.close()
    return path


@pytest.fixture
def door(tmp_path: Path, upgraded_database: Path) -> Iterator[Door]:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    shutil.copyfile(upgraded_database, home.database)
    database = Database(sqlite_url(home.database))
    house = House(home, database, Scripted(), ModelCache(home.models))
    app = create_app(house, TOKEN)
    origin = "http://127.0.0.1:8420"
    keyed = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(app, base_url=origin) as stranger, TestClient(app, base_url=origin + PREFIX, headers=keyed) as api:
        yield Door(house, TOKEN, api, stranger)
    database.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One server process for a file of tests, with the volume `research` of 64 MiB."""
    with serving(Home(tmp_path_factory.mktemp("served") / "home")) as server:
        server.api.post("/volumes", json={"name": "research", "size": "64Mi"}).raise_for_status()
        yield server
