"""Finds a run's row by its id, or says that there is none."""

from burnish.control.house import House
from burnish.control.tables import RunRow
from burnish.errors import NotFound


def find_run(house: House, run_id: str) -> RunRow:
    with house.database.session(writes=False) as session:
        row = session.get(RunRow, run_id)
    if row is None:
        raise unknown_run(run_id)
    return row


def unknown_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id}.", hint="burnish train list shows all of them.")
