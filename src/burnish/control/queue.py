"""Who may start next, and what the others wait for: first come, first served, over the executor's slots.

A slot is held by the newest attempt of a run that is being created, runs or stops. Pure but for `read_queue`.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from burnish.control.tables import AttemptRow, RunRow
from burnish.executors.base import Slot
from burnish.run.plan import describe_slots
from burnish.run.status import RunStatus

HOLDING = (RunStatus.CREATING, RunStatus.RUNNING, RunStatus.STOPPING)


@dataclass(frozen=True)
class Waiting:
    run_id: str
    ranks: int


@dataclass(frozen=True)
class Queue:
    slots: tuple[Slot, ...]
    holders: dict[int, str]
    """Slot index -> run id."""
    waiting: tuple[Waiting, ...]
    """Oldest first."""

    @property
    def free(self) -> list[int]:
        return [slot.index for slot in self.slots if slot.index not in self.holders]

    def slots_for(self, run_id: str) -> list[int] | None:
        """The slots that this run may take now; None while it waits."""
        mine = next((each for each in self.waiting if each.run_id == run_id), None)
        if mine is None or self._ahead_of(run_id) or mine.ranks > len(self.free):
            return None
        return self.free[: mine.ranks]

    def waits_for(self, run_id: str) -> str:
        """One sentence for a run that waits: `Waits for the one CPU slot, held by job_...; 2 runs ahead.`"""
        mine = next(each for each in self.waiting if each.run_id == run_id)
        if mine.ranks > len(self.slots):
            offer = describe_slots(_device(self.slots), len(self.slots))
            return f"Waits for {mine.ranks} slots; this machine now offers {offer}."
        ahead = self._ahead_of(run_id)
        if not self.holders and not ahead:
            return f"Waits for {_count(mine.ranks, self.slots)}."
        held = ", ".join(sorted(set(self.holders.values())))
        wanted = f"Waits for {_wanted(mine.ranks, self.slots)}" + (f", held by {held}" if held else "")
        return wanted + (f"; {len(ahead)} run{'s' if len(ahead) > 1 else ''} ahead." if ahead else ".")

    def _ahead_of(self, run_id: str) -> list[str]:
        # A run that can never start on this machine holds up nobody.
        ids = [each.run_id for each in self.waiting if each.ranks <= len(self.slots) or each.run_id == run_id]
        return ids[: ids.index(run_id)]


def read_queue(session: Session, slots: list[Slot]) -> Queue:
    held = session.execute(
        select(RunRow.id, AttemptRow.slots)
        .join(AttemptRow, (AttemptRow.run_id == RunRow.id) & (AttemptRow.number == RunRow.attempt))
        .where(RunRow.status.in_(HOLDING))
    ).all()
    waiting = session.execute(
        select(RunRow.id, RunRow.layout)
        .where(RunRow.status == RunStatus.PENDING, RunRow.stop_requested_at.is_(None))
        .order_by(RunRow.created_at, RunRow.id)
    ).all()
    return Queue(
        slots=tuple(slots),
        holders={index: run_id for run_id, indices in held for index in indices},
        waiting=tuple(Waiting(run_id, layout.get("ranks", 1)) for run_id, layout in waiting),
    )


def _wanted(ranks: int, slots: tuple[Slot, ...]) -> str:
    return f"the one {_kind(slots)} slot" if len(slots) == 1 else _count(ranks, slots)


def _count(ranks: int, slots: tuple[Slot, ...]) -> str:
    return f"{ranks} {_kind(slots)} slot{'s' if ranks > 1 else ''}"


def _kind(slots: tuple[Slot, ...]) -> str:
    return "GPU" if _device(slots) == "cuda" else "CPU"


def _device(slots: tuple[Slot, ...]) -> Literal["cpu", "cuda"]:
    return slots[0].kind if slots else "cpu"
