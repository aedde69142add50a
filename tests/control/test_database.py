from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect
from sqlalchemy.exc import IntegrityError

from burnish.control.db import Database, DatabaseAway, sqlite_url
from burnish.control.tables import StepRow, Table, VolumeRow


def test_models_and_migrations_agree(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []


def test_migrations_go_down_as_they_came_up(database: Database) -> None:
    database.downgrade("base")
    assert set(inspect(database.engine).get_table_names()) == {"alembic_version"}
    database.upgrade()
    assert set(inspect(database.engine).get_table_names()) == {*Table.metadata.tables, "alembic_version"}


def test_servers_that_start_at_once_upgrade_once(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "deep" / "burnish.db")
    _upgrade_eight_at_once(url)


@pytest.mark.postgres
def test_servers_that_start_at_once_upgrade_one_postgres_once(new_postgres_database) -> None:
    _upgrade_eight_at_once(new_postgres_database())


def _upgrade_eight_at_once(url: str) -> None:
    databases = [Database(url) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Database.upgrade, databases))
    with databases[0].engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Table.metadata) == []
    for database in databases:
        database.close()


def test_a_block_that_raises_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError), database.session() as session:
        session.add(VolumeRow(name="a", size_bytes=1, created_at=datetime.now(UTC)))
        session.flush()
        raise RuntimeError
    with database.session(writes=False) as session:
        assert session.get(VolumeRow, "a") is None


def test_writers_wait_for_each_other_and_none_fails(database: Database) -> None:
    with database.session() as session:
        session.add(VolumeRow(name="a", size_bytes=0, created_at=datetime.now(UTC)))

    def grow(_: int) -> None:
        for _ in range(10):
            with database.session() as session:
                session.get_one(VolumeRow, "a", with_for_update=True).size_bytes += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(grow, range(4)))
    with database.session(writes=False) as session:
        assert session.get_one(VolumeRow, "a").size_bytes == 40


def test_a_reader_is_not_held_up_by_a_writer(database: Database) -> None:
    with database.session() as writer:
        writer.add(VolumeRow(name="a", size_bytes=1, created_at=datetime.now(UTC)))
        writer.flush()
        with database.session(writes=False) as reader:
            assert reader.get(VolumeRow, "a") is None


def test_foreign_keys_hold(database: Database) -> None:
    with pytest.raises(IntegrityError), database.session() as session:
        session.add(
            StepRow(
                run_id="job_none",
                step=1,
                attempt=1,
                at=datetime.now(UTC),
                values={},
                tokens=1,
                trained_tokens=1,
                seconds=1,
            )
        )


def test_a_moment_comes_back_as_it_went_in(database: Database) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    with database.session() as session:
        session.add(VolumeRow(name="a", size_bytes=2**62, created_at=moment))
    with database.session(writes=False) as session:
        row = session.get_one(VolumeRow, "a")
        assert (row.created_at, row.size_bytes) == (moment, 2**62)


def test_a_url_as_people_paste_it_names_the_driver_that_is_shipped() -> None:
    database = Database("postgresql://user:word@host/name")
    assert database.url.drivername == "postgresql+psycopg"
    assert "word" not in repr(database.url)


def test_a_database_without_room_says_so_and_works_again_once_there_is_some(
    tmp_path: Path, sqlite_template: Path
) -> None:
    database = Database(sqlite_url(tmp_path / "burnish.db"))
    database.upgrade()

    def create(name: str, note: str = "") -> None:
        with database.session() as session:
            session.add(VolumeRow(name=name + note, size_bytes=1, created_at=datetime.now(UTC)))

    with database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    _limit(database, pages)
    with pytest.raises(DatabaseAway, match="There is no space left for the database") as refused:
        create("large", "x" * 100_000)
    assert str(tmp_path) in refused.value.message
    _limit(database, 1_000_000)
    create("small")


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(DatabaseAway) as refused, Database("postgresql://u:fakepass99@127.0.0.1:1/db").session():
        pass
    assert "at 127.0.0.1:1 cannot be used now" in refused.value.message
    assert "fakepass99" not in refused.value.message


def _limit(database: Database, pages: int) -> None:
    """SQLite refuses to grow beyond it with the very error of a full disk."""
    with database.engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
