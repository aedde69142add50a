"""A house with one volume of 1 MiB, small enough to fill."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.control.db import Database, sqlite_url
from burnish.control.house import House
from burnish.control.volumes import create_volume
from burnish.executors.scripted import Scripted
from burnish.home import Home
from burnish.models.cache import ModelCache
from burnish.wire import CreateVolumeRequest


@pytest.fixture(scope="session")
def upgraded_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database's file, to be copied: an upgrade takes a while."""
    path = tmp_path_factory.mktemp("upgraded") / "burnish.db"
    database = Database(sqlite_url(path))
    database.upgrade()
    database.close()
    return path


@pytest.fixture
def house(tmp_path: Path, upgraded_database: Path) -> Iterator[House]:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    shutil.copyfile(upgraded_database, home.database)
    database = Database(sqlite_url(home.database))
    yield House(home, database, Scripted(), ModelCache(home.models))
    database.close()


@pytest.fixture
def root(house: House) -> Path:
    """The folder of the volume `research`."""
    create_volume(house, CreateVolumeRequest(name="research", size="1Mi"))
    return house.home.volume("research")
