"""A real server on a free port over a house whose executor is scripted, so that a run does what a test writes down."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn

from burnish.api.app import create_app
from burnish.api.server import listen
from burnish.control.db import Database, sqlite_url
from burnish.control.house import House
from burnish.control.launch import attempt_key
from burnish.control.places import run_directory
from burnish.control.reconciler import Reconciler
from burnish.executors.base import Sight
from burnish.executors.scripted import Scripted
from burnish.home import Home
from burnish.models.cache import ModelCache
from burnish.run.directory import RunDirectory
from burnish.run.events import Event, EventWriter
from burnish.sdk.client import Client

KEY = "a-key-for-tests-only"

CONFIG = """\
max_steps = 10
name = "first light"
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 64
batch_size = 1
"""


@dataclass
class Stage:
    """A server, its client, and the trainer's part to play."""

    house: House
    executor: Scripted
    client: Client
    reconciler: Reconciler = field(init=False)

    def __post_init__(self) -> None:
        self.reconciler = Reconciler(self.house)

    def start(self, config: str = CONFIG) -> str:
        run_id = self.client.runs.submit(config).id
        self.reconciler.tick()
        self.directory(run_id).log.parent.mkdir(parents=True, exist_ok=True)
        return run_id

    def directory(self, run_id: str) -> RunDirectory:
        return run_directory(self.house.home, run_id, None)

    def write(self, run_id: str, *events: Event) -> None:
        writer = EventWriter(self.directory(run_id).diary)
        for event in events:
            writer.append(event)
        writer.close()
        self.reconciler.tick()

    def log(self, run_id: str, text: str) -> None:
        with self.directory(run_id).log.open("a") as file:
            file.write(text)

    def end(self, run_id: str, *sights: Sight) -> None:
        """The program is gone; look until the run is over."""
        self.executor.tell(attempt_key(run_id, 1), *sights)
        deadline = time.monotonic() + 20
        while not self.client.runs.get(run_id).status.is_over:
            assert time.monotonic() < deadline, self.client.runs.get(run_id)
            self.reconciler.tick()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    database = Database(sqlite_url(home.database))
    database.upgrade()
    executor = Scripted()
    house = House(home, database, executor, ModelCache(home.models))
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(house, KEY), log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}", KEY)
    try:
        yield Stage(house, executor, client)
    finally:
        client.close()
        server.should_exit = True
        thread.join(timeout=10)
        database.close()
