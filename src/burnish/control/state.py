"""The facts that `lifecycle.decide` asks for, read from the tables."""

from datetime import datetime
from typing import cast

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from burnish.control.lifecycle import DiaryState, Outcome, RunState
from burnish.control.tables import AttemptRow, CheckpointRow, ExportRow, RunRow, StepRow
from burnish.run.status import RunStatus


def read_run_state(
    session: Session, run: RunRow, attempt: AttemptRow | None, *, waits_for: str, now: datetime
) -> RunState:
    earlier = session.get(AttemptRow, (run.id, run.attempt - 1))
    sent_at = attempt.stop_sent_at if attempt else None
    return RunState(
        status=RunStatus(run.status),
        attempt=run.attempt,
        launched=attempt is not None and attempt.launched_at is not None,
        stop_requested=run.stop_requested_at is not None,
        waits_for=waits_for,
        seconds_since_created=(now - attempt.created_at).total_seconds() if attempt else 0.0,
        seconds_since_stop_sent=(now - sent_at).total_seconds() if sent_at else None,
        earlier_stalled=earlier is not None and earlier.last_step <= earlier.best_before,
        wants_model=run.spec.get("checkpoints") is not None,
    )


def read_diary_state(session: Session, run: RunRow, attempt: AttemptRow | None, *, now: datetime) -> DiaryState:
    if attempt is None:
        return DiaryState()
    newest = session.get(StepRow, (run.id, run.step))
    saved = exists().where(CheckpointRow.run_id == run.id) | exists().where(ExportRow.run_id == run.id)
    return DiaryState(
        started=attempt.started_at is not None,
        outcome=cast(Outcome | None, attempt.outcome),
        message=attempt.message,
        hint=attempt.hint,
        seconds_since_outcome=(now - attempt.outcome_at).total_seconds() if attempt.outcome_at else 0.0,
        advanced=attempt.last_step > attempt.best_before,
        steps=run.step,
        loss_is_number=newest is None or newest.values.get("loss/mean", 0.0) is not None,
        saved_model=bool(session.scalar(select(saved))),
    )
