"""Runs as far as volumes and models care about one: they are on a volume, from a model, and over or not."""

from datetime import UTC, datetime

from burnish.control.house import House
from burnish.control.tables import RunRow
from burnish.literals import new_run_id
from burnish.run.status import RunStatus

KIB = 1024


def add_run(house: House, *, volume: str | None, status: RunStatus, model: str = "burnish/tiny") -> str:
    run_id = new_run_id()
    with house.database.session() as session:
        session.add(
            RunRow(
                id=run_id,
                name="test",
                status=status,
                model=model,
                volume=volume,
                dialect="own",
                config="",
                spec={},
                layout={},
                notes=[],
                request_digest="",
                created_at=datetime.now(UTC),
            )
        )
    return run_id
