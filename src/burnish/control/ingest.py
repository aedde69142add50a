"""From a run's diary into the tables: every whole line exactly once, however often and by whomever it is called.

The lines and the offset after them go into one transaction, which is void if the offset has moved meanwhile. Reading
the file is outside of it. Knows no process and no status.
"""

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from burnish.control.db import rows_matched
from burnish.control.house import House
from burnish.control.lookup import find_run
from burnish.control.places import is_plain_file, is_run_path, run_directory
from burnish.control.private import hide, read_environment
from burnish.control.tables import AttemptRow, CheckpointRow, ExportRow, RunRow, StepRow, Table
from burnish.control.usage import sum_usage
from burnish.literals import adapter_model_id, full_model_id, split_model_id
from burnish.run.events import (
    AnyEvent,
    Checkpointed,
    CheckpointRemoved,
    Exported,
    Finished,
    Prepared,
    Started,
    Step,
    Validated,
    Verified,
    read_events,
)

_log = logging.getLogger("burnish.control")
_BATCH_BYTES = 1 << 20
_YEAR_3000 = 32_503_680_000
_STREAM_LETTERS = 32


def drain(house: House, run_id: str) -> int:
    """Take in what the diary has that the tables lack. Returns how many events this call stored."""
    stored = 0
    while (taken := _drain_batch(house, run_id)) is not None:
        stored += taken
    return stored


def _drain_batch(house: House, run_id: str) -> int | None:
    """None when there was nothing, or another reader was faster."""
    run = find_run(house, run_id)
    directory = run_directory(house.home, run_id, run.volume)
    if not is_plain_file(directory.diary, directory.root):
        return None
    events, offset = read_events(directory.diary, run.diary_offset, limit_bytes=_BATCH_BYTES)
    if offset == run.diary_offset:
        return None
    environment = read_environment(house, run_id)
    with house.database.session() as session:
        unmoved = update(RunRow).where(RunRow.id == run_id, RunRow.diary_offset == run.diary_offset)
        if not rows_matched(session, unmoved.values(diary_offset=offset)):
            return None
        _Intake(session, run, environment).take(events)
    return len(events)


@dataclass
class _Intake:
    """One batch of one run, within one transaction."""

    session: Session
    run: RunRow
    environment: dict[str, str]
    changes: dict[str, Any] = field(default_factory=dict)
    """Of the run's row."""

    def take(self, events: Sequence[AnyEvent]) -> None:
        steps: dict[int, Step] = {}
        for event in events:
            if isinstance(event, Step):
                if event.step not in steps or event.attempt >= steps[event.step].attempt:
                    steps[event.step] = event
                continue
            self._store_steps(steps)
            steps = {}
            self._take_one(event)
        self._store_steps(steps)
        if self.changes:
            self.session.execute(update(RunRow).where(RunRow.id == self.run.id).values(**self.changes))

    def _take_one(self, event: AnyEvent) -> None:
        match event:
            case Started():
                self._start(event)
            case Prepared():
                self.changes |= {"prepared": _plain(event), "max_steps": event.steps}
            case Validated():
                self._validate(event)
            case Checkpointed() if self._is_ours(event.path):
                row = {"path": event.path, "size_bytes": event.size_bytes, "created_at": _moment(event.at)}
                self._put(CheckpointRow, {"run_id": self.run.id, "step": event.step}, row)
            case CheckpointRemoved():
                self.session.execute(
                    delete(CheckpointRow).where(CheckpointRow.run_id == self.run.id, CheckpointRow.step == event.step)
                )
            case Exported(form="gguf"):
                pass  # the same model once more, for other programs
            case Exported() if self._is_ours(event.path):
                self._export(event)
            case Verified():
                self._verify(event)
            case Finished():
                self._finish(event)
            case _:
                pass

    def _start(self, event: Started) -> None:
        self._change_attempt(event.attempt, started_at=_moment(event.at), device=event.device)
        # What an earlier attempt did after the checkpoint that this one starts from is no part of the run any more.
        self.session.execute(
            delete(StepRow).where(
                StepRow.run_id == self.run.id,
                StepRow.step > event.resumed_from_step,
                StepRow.attempt < event.attempt,
            )
        )
        self._refresh_run()

    def _store_steps(self, steps: dict[int, Step]) -> None:
        if not steps:
            return
        insert = self._insert(StepRow)
        self.session.execute(
            insert.on_conflict_do_update(
                index_elements=["run_id", "step"],
                set_={
                    name: insert.excluded[name]
                    for name in ("attempt", "at", "values", "tokens", "trained_tokens", "seconds", "stream")
                },
                where=insert.excluded["attempt"] >= StepRow.attempt,
            ),
            [_step_row(self.run.id, step) for step in steps.values()],
        )
        for attempt in {step.attempt for step in steps.values()}:
            furthest = max(step.step for step in steps.values() if step.attempt == attempt)
            self.session.execute(
                update(AttemptRow)
                .where(AttemptRow.run_id == self.run.id, AttemptRow.number == attempt, AttemptRow.last_step < furthest)
                .values(last_step=furthest)
            )
        self._refresh_run()

    def _validate(self, event: Validated) -> None:
        """Its figures stand beside those of its step; before the first step there is a row for them alone."""
        row = self.session.get(StepRow, (self.run.id, event.step))
        values = _finite(event.values)
        if row is None:
            key = {"run_id": self.run.id, "step": event.step}
            bare = {"attempt": event.attempt, "at": _moment(event.at), "tokens": 0, "trained_tokens": 0, "seconds": 0.0}
            self._put(StepRow, key, {**bare, "values": values})
        elif event.attempt >= row.attempt:
            row.values = row.values | values

    def _refresh_run(self) -> None:
        usage = sum_usage(self.session, self.run.id)
        newest = self.session.scalars(
            select(StepRow).where(StepRow.run_id == self.run.id).order_by(StepRow.step.desc()).limit(1)
        ).first()
        self.changes |= usage.model_dump()
        self.changes["step"] = newest.step if newest else 0
        self.changes["loss"] = newest.values.get("loss/mean") if newest else None
        self.changes["stream"] = newest.stream if newest else ""

    def _export(self, event: Exported) -> None:
        split = split_model_id(self.run.model)
        root = split[1] if split else self.run.model
        is_adapter = event.form == "adapter"
        self._put(
            ExportRow,
            {"id": adapter_model_id(root, self.run.id) if is_adapter else full_model_id(root, self.run.id)},
            {
                # An adapter is nothing without the very model that it was trained on.
                "base": self.run.model if is_adapter else root,
                "run_id": self.run.id,
                "step": event.step,
                "path": event.path,
                "volume": self.run.volume,
                "size_bytes": event.size_bytes,
                "created_at": _moment(event.at),
            },
        )

    def _verify(self, event: Verified) -> None:
        """The newest word on each artefact."""
        known = self.changes.get("verified", self.session.get_one(RunRow, self.run.id).verified)
        others = [each for each in known if each["artefact"] != event.artefact]
        self.changes["verified"] = [*others, _plain(event)]

    def _finish(self, event: Finished) -> None:
        self._change_attempt(
            event.attempt,
            outcome=event.outcome,
            message=hide(event.message, self.environment),
            hint=hide(event.hint, self.environment),
            outcome_at=_moment(event.at),
        )

    def _is_ours(self, path: str) -> bool:
        if is_run_path(self.run.id, path):
            return True
        _log.warning("%s: its diary names %r, which is not under the run's folder; ignored", self.run.id, path)
        return False

    def _change_attempt(self, number: int, **values: Any) -> None:
        self.session.execute(
            update(AttemptRow).where(AttemptRow.run_id == self.run.id, AttemptRow.number == number).values(**values)
        )

    def _put(self, table: type[Table], key: dict[str, Any], values: dict[str, Any]) -> None:
        insert = self._insert(table).values(**key, **values)
        self.session.execute(insert.on_conflict_do_update(index_elements=list(key), set_=values))

    def _insert(self, table: type[Table]) -> sqlite.Insert | postgresql.Insert:
        is_sqlite = self.session.get_bind().dialect.name == "sqlite"
        return sqlite.insert(table) if is_sqlite else postgresql.insert(table)


def _step_row(run_id: str, event: Step) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "step": event.step,
        "attempt": event.attempt,
        "at": _moment(event.at),
        "values": _finite(event.values),
        "tokens": event.tokens,
        "trained_tokens": event.trained_tokens,
        "seconds": event.seconds,
        "stream": event.stream[:_STREAM_LETTERS],
    }


def _plain(event: AnyEvent) -> dict[str, Any]:
    """As JSON has it, where what is no number is a string; a database may refuse the bare word."""
    return json.loads(event.model_dump_json())


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _moment(seconds: float) -> datetime:
    # The diary lies on the user's volume, so the number may be any.
    return datetime.fromtimestamp(seconds if 0 <= seconds < _YEAR_3000 else 0, tz=UTC)
