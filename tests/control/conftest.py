"""A house in a temporary home, on SQLite and on a real PostgreSQL that the session starts and stops."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from control_bench import Bench, HandClock
from sqlalchemy import text

from burnish.control.db import Database, sqlite_url
from burnish.control.house import House
from burnish.control.tables import Table
from burnish.executors.scripted import Scripted
from burnish.home import Home
from burnish.models.cache import ModelCache


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
        database = Database(request.getfixturevalue("upgraded_postgres_url"))
        with database.session() as session:
            session.execute(text(f"TRUNCATE {', '.join(Table.metadata.tables)}"))
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
def new_postgres_database(postgres_url: str) -> Iterator[Callable[[], str]]:
    """Makes an empty database and answers its URL."""
    server = Database(postgres_url)
    names = (f"test_{number}" for number in count())

    def make() -> str:
        name = next(names)
        with server.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        return postgres_url.replace("/postgres?", f"/{name}?")

    yield make
    server.close()


@pytest.fixture(scope="session")
def upgraded_postgres_url(new_postgres_database: Callable[[], str]) -> str:
    """One database for all tests; each finds its tables empty, which is much faster than a database each."""
    url = new_postgres_database()
    database = Database(url)
    database.upgrade()
    database.close()
    return url


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
