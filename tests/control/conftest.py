"""A house in a temporary home, on SQLite and on a real PostgreSQL that the session starts and stops."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from burnish.control.db import Database, sqlite_url
from burnish.control.house import House
from burnish.control.places import run_directory
from burnish.control.tables import AttemptRow, RunRow, StepRow, VolumeRow
from burnish.executors.scripted import Scripted
from burnish.home import Home
from burnish.literals import new_run_id
from burnish.models.cache import ModelCache
from burnish.run.directory import RunDirectory
from burnish.run.events import Event, EventWriter, Finished, Started, Step
from burnish.run.plan import plan_layout
from burnish.run.status import RunStatus
from burnish.spec.train import Checkpoints, FakeData, TrainSpec


@dataclass
class HandClock:
    """Seconds since 1970, moved by hand."""

    seconds: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Bench:
    """A house with what a test needs to set it up and to look into it."""

    house: House
    executor: Scripted
    clock: HandClock
    order: list[str] = field(default_factory=list)

    def add_run(
        self,
        *,
        status: RunStatus = RunStatus.PENDING,
        attempt: int = 0,
        ranks: int = 1,
        volume: str | None = None,
        checkpoints: bool = False,
        **values: Any,
    ) -> str:
        """A run as a submission leaves it, each created a second after the one before."""
        spec = TrainSpec(
            model="burnish/tiny",
            data=FakeData(),
            steps=10,
            rows_per_step=ranks,
            devices={"per_machine": ranks},  # type: ignore[arg-type]  # pydantic takes the dict
            checkpoints=Checkpoints() if checkpoints else None,
        )
        run = RunRow(
            id=new_run_id(),
            name="test",
            status=status,
            model=spec.model,
            volume=volume,
            dialect="own",
            config="max_steps = 10\n",
            spec=spec.model_dump(mode="json"),
            layout=plan_layout(spec, device="cpu").model_dump(mode="json"),
            notes=[],
            request_digest="",
            attempt=attempt,
            max_steps=10,
            created_at=datetime.fromtimestamp(self.clock() + len(self.order), UTC),
            **values,
        )
        self.order.append(run.id)
        with self.house.database.session() as session:
            session.add(run)
            session.flush()
            for number in range(1, attempt + 1):
                session.add(AttemptRow(run_id=run.id, number=number, slots=[0], created_at=self.house.now()))
        return run.id

    def run(self, run_id: str) -> RunRow:
        with self.house.database.session(writes=False) as session:
            return session.get_one(RunRow, run_id)

    def attempt(self, run_id: str, number: int = 1) -> AttemptRow:
        with self.house.database.session(writes=False) as session:
            return session.get_one(AttemptRow, (run_id, number))

    def steps(self, run_id: str) -> list[StepRow]:
        with self.house.database.session(writes=False) as session:
            return session.query(StepRow).filter_by(run_id=run_id).order_by(StepRow.step).all()

    def add_volume(self, name: str = "research", size_bytes: int = 10 << 30) -> Path:
        with self.house.database.session() as session:
            session.add(VolumeRow(name=name, size_bytes=size_bytes, created_at=self.house.now()))
        root = self.house.home.volume(name)
        (root / "datasets").mkdir(parents=True)
        return root

    def directory(self, run_id: str) -> RunDirectory:
        return run_directory(self.house, run_id, self.run(run_id).volume)

    def write(self, run_id: str, *events: Event, attempt: int = 1) -> None:
        """Append to the run's diary, as a trainer does."""
        writer = EventWriter(self.directory(run_id).diary, attempt=attempt, clock=self.clock)
        for event in events:
            writer.append(event)
        writer.close()


def started(resumed_from_step: int = 0) -> Started:
    return Started(pid=1, device="CPU, 2 threads", dtype="float32", resumed_from_step=resumed_from_step)


def step(number: int, *, loss: float = 1.5, tokens: int = 100) -> Step:
    return Step(step=number, values={"loss/mean": loss}, tokens=tokens, trained_tokens=tokens // 2, seconds=0.25)


def finished(outcome: Any = "completed", *, at_step: int = 10, message: str = "", hint: str = "") -> Finished:
    return Finished(outcome=outcome, step=at_step, message=message, hint=hint)


@pytest.fixture(
    params=[pytest.param("sqlite", id="sqlite"), pytest.param("postgres", id="postgres", marks=pytest.mark.postgres)]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An upgraded, empty database of each kind."""
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        shutil.copy(template, tmp_path / "burnish.db")
        database = Database(sqlite_url(tmp_path / "burnish.db"))
    else:
        database = Database(request.getfixturevalue("new_postgres_database")(template="upgraded"))
    yield database
    database.close()


@pytest.fixture
def bench(database: Database, tmp_path: Path) -> Bench:
    executor, clock = Scripted(), HandClock()
    home = Home(tmp_path / "home")
    home.root.mkdir()
    house = House(home, database, executor, ModelCache(home.models), clock)
    return Bench(house, executor, clock)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "burnish.db"
    database = Database(sqlite_url(path))
    database.upgrade()
    with database.engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")  # a checkpoint of the log cannot be made within a transaction
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL of this session's own: a socket in a temporary folder, no port, stopped by its pid."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL under /usr/lib/postgresql")
    programs = found[-1].parent
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    # The path of a Unix socket may have 107 bytes, so not under pytest's long folders; and "postgres" must get in.
    root = Path(f"/tmp/burnish-pg-{os.getpid()}")
    root.mkdir(mode=0o700)
    if as_user:
        shutil.chown(root, "postgres", "postgres")
    process: subprocess.Popen[bytes] | None = None
    try:
        subprocess.run(
            [
                *as_user,
                programs / "initdb",
                "-D",
                root / "data",
                "-U",
                "burnish",
                "-A",
                "trust",
                "--no-sync",
                "-E",
                "UTF8",
            ],
            check=True,
            capture_output=True,
            cwd="/",
        )
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", f"unix_socket_directories={root}"]
        with (tmp_path_factory.mktemp("postgres") / "log").open("wb") as log:
            process = subprocess.Popen(
                [*as_user, programs / "postgres", "-D", root / "data", *options], cwd="/", stdout=log, stderr=log
            )
        url = f"postgresql+psycopg://burnish@/postgres?host={root}"
        _await_answer(url)
        yield url
    finally:
        if process is not None:
            pid = int((root / "data" / "postmaster.pid").read_text().split("\n")[0])
            os.kill(pid, 3)  # SIGQUIT: at once, nothing here is worth keeping
            process.wait(timeout=20)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def new_postgres_database(postgres_url: str) -> Iterator[Callable[..., str]]:
    """Makes a database and answers its URL; `template="upgraded"` has the tables already."""
    server = Database(postgres_url)
    count = 0

    def make(*, template: str = "template1", name: str | None = None) -> str:
        nonlocal count
        count += 1
        name = name or f"test_{count}"
        with server.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return postgres_url.replace("/postgres?", f"/{name}?")

    upgraded = Database(make(name="upgraded"))
    upgraded.upgrade()
    upgraded.close()
    yield make
    server.close()


def _await_answer(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        database = Database(url)
        try:
            with database.engine.connect():
                return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            database.close()
