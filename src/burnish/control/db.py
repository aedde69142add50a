"""The database: SQLite in the home by default, PostgreSQL by URL, one way of working for both.

`session()` reads and writes in one transaction. A writer says so (`writes=True`), so that SQLite takes its lock at the
start and not in the middle, where a wait would become an error. Knows no table.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, CursorResult, Delete, Engine, Update, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from burnish.errors import ServerError

_MIGRATIONS = Path(__file__).parent / "migrations"
_BUSY_SECONDS = 30
_LEAST_BYTES = 65_536
"""Of free disk. SQLite needs a few pages for its log and the index of that."""
# PostgreSQL's advisory locks are numbers: "burn" and "burp".
_UPGRADE_LOCK = 0x6275726E
_SERIAL_LOCK = 0x62757270


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


class DatabaseAway(ServerError):
    """It cannot be reached, is busy or has no room. It may come back; nothing of the transaction was written."""


class Database:
    """One engine. Safe to use from many threads; a session belongs to one."""

    def __init__(self, url: str) -> None:
        self.url = _with_driver(make_url(url))
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(self.url) if self.is_sqlite else create_engine(self.url, pool_pre_ping=True)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)

    @contextmanager
    def session(self, *, writes: bool = True) -> Iterator[Session]:
        """One transaction: committed when the block ends, rolled back when it raises.

        Keep it short: on SQLite it holds the only writer's lock unless `writes` is False. Rows stay readable after
        the block. `DatabaseAway` where the database is not to be had now.
        """
        with self._telling_what_is_wrong(), self._sessions.begin() as session:
            session.connection(execution_options={"burnish_writes": writes})
            yield session

    def serialise(self, session: Session) -> None:
        """Until this transaction ends, no other one gets past this line. SQLite's writers are one by one anyway."""
        if not self.is_sqlite:
            session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SERIAL_LOCK})

    def upgrade(self) -> None:
        """Bring the tables to the newest migration. Two servers that start at once wait for each other."""
        if self.is_sqlite and self.url.database:
            Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        self._migrate(command.upgrade, "head")

    def downgrade(self, revision: str) -> None:
        """Back to an earlier migration; what it did not have is lost."""
        self._migrate(command.downgrade, revision)

    def _migrate(self, step: Callable[[Config, str], None], revision: str) -> None:
        with self._telling_what_is_wrong(), _one_at_a_time(self), self.engine.connect() as connection:
            config = Config()
            config.set_main_option("script_location", str(_MIGRATIONS))
            config.attributes["connection"] = connection
            step(config, revision)

    @contextmanager
    def _telling_what_is_wrong(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            raise self._away(str(error.orig)) from error

    def _away(self, said: str) -> DatabaseAway:
        url = self.url  # its password is in no message
        where = url.database if self.is_sqlite else f"at {url.host or 'this machine'}:{url.port or 5432}"
        if "disk is full" in said or os.strerror(errno.ENOSPC) in said or self._has_no_disk():
            hint = "Make room on its disk. Runs go on, and nothing that they did is lost."
            return DatabaseAway(f"There is no space left for the database {where}.", hint=hint)
        reason = " ".join(said.split()).rstrip(".?")
        return DatabaseAway(
            f"The database {where} cannot be used now: {reason}.",
            hint="Runs go on, and are taken up again when it is back.",
        )

    def _has_no_disk(self) -> bool:
        # When it opens its files, SQLite calls a full disk an "I/O error".
        if not self.is_sqlite or self.url.database is None:
            return False
        return shutil.disk_usage(Path(self.url.database).parent).free < _LEAST_BYTES

    def close(self) -> None:
        self.engine.dispose()


def rows_matched(session: Session, statement: Update | Delete) -> int:
    """Execute it and tell how many rows its WHERE found: what a guarded write wants to know."""
    return cast(CursorResult[Any], session.execute(statement)).rowcount


def _with_driver(url: URL) -> URL:
    # `postgresql://` is what people paste; SQLAlchemy would take it for a driver that we do not ship.
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The driver would begin by itself, late and without the writer's lock; `_begin` does it.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("burnish_writes", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def _one_at_a_time(database: Database) -> Iterator[None]:
    if database.is_sqlite:
        path = Path(f"{database.url.database}.upgrade-lock")
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        return
    with database.engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _UPGRADE_LOCK})
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _UPGRADE_LOCK})
