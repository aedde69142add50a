"""The verbs about runs: submit, look, stop, delete, and read what they wrote. Starts nothing; the reconciler does."""

import hashlib
import shutil
from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from burnish.control.db import rows_matched
from burnish.control.house import House
from burnish.control.launch import attempt_key
from burnish.control.logs import read_log
from burnish.control.lookup import find_run, unknown_run
from burnish.control.places import run_directory
from burnish.control.private import drop_environment, keep_environment
from burnish.control.submission import Accepted, check_request, check_resumption
from burnish.control.tables import AttemptRow, CheckpointRow, ReportRow, RunRow, StepRow, VolumeRow
from burnish.control.views import view_checkpoint, view_detail, view_run
from burnish.dialects import mask_secrets
from burnish.errors import Conflict, NotFound, RunError
from burnish.literals import new_run_id
from burnish.run.directory import RunDirectory
from burnish.run.events import room_beside
from burnish.run.report import CheckReport
from burnish.run.status import RunStatus
from burnish.wire import CheckpointList, MetricsView, ResumeRequest, RunDetail, RunList, RunView, SubmitRequest

__all__ = [
    "delete_run",
    "get_run",
    "list_checkpoints",
    "list_runs",
    "read_log",
    "read_metrics",
    "resume_run",
    "stop_run",
    "submit",
]

_STOPPABLE = (RunStatus.CREATING, RunStatus.RUNNING)


def submit(house: House, request: SubmitRequest, *, idempotency_key: str | None = None) -> RunDetail:
    """Accept a run, or refuse it before anything is written.

    The same key with the same request answers with the run that it made the first time, whatever has changed since;
    with another request it is a `Conflict`.
    """
    digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
    if earlier := _find_by_key(house, idempotency_key, digest):
        return earlier
    return _add(house, request.config, check_request(house, request), idempotency_key, digest)


def resume_run(house: House, run_id: str, request: ResumeRequest, *, idempotency_key: str | None = None) -> RunDetail:
    """A new run that goes on from a checkpoint of one that has ended, with its config; its notes say from where."""
    digest = hashlib.sha256(f"{run_id} {request.model_dump_json()}".encode()).hexdigest()
    if earlier := _find_by_key(house, idempotency_key, digest):
        return earlier
    run = find_run(house, run_id)
    return _add(house, run.config, check_resumption(house, run, request), idempotency_key, digest)


def _add(house: House, config: str, accepted: Accepted, idempotency_key: str | None, digest: str) -> RunDetail:
    run = _new_row(house, config, accepted, idempotency_key, digest)
    keep_environment(house, run.id, accepted.reading.spec.environment)
    try:
        _insert(house, run, accepted.report)
    except IntegrityError:
        # The same key came twice at once, and the other one was first.
        drop_environment(house, run.id)
        if earlier := _find_by_key(house, idempotency_key, digest):
            return earlier
        raise
    except NotFound:
        drop_environment(house, run.id)
        raise
    house.bell.set()
    return view_detail(run)


def get_run(house: House, run_id: str) -> RunDetail:
    return view_detail(find_run(house, run_id))


def list_runs(house: House) -> RunList:
    """Newest first."""
    with house.database.session(writes=False) as session:
        rows = session.scalars(select(RunRow).order_by(RunRow.created_at.desc(), RunRow.id)).all()
    return RunList(runs=[view_run(row) for row in rows])


def stop_run(house: House, run_id: str) -> RunView:
    """Ask a run to end. One that waits ends at once; asking twice is asking once.

    `RunError` if it has ended by itself: its status stays.
    """
    now = house.now()
    at_once = update(RunRow).where(RunRow.id == run_id, RunRow.status == RunStatus.PENDING)
    later = update(RunRow).where(RunRow.id == run_id, RunRow.status.in_(_STOPPABLE))
    stopped = {"status": RunStatus.STOPPED, "reason": "It was stopped on request.", "finished_at": now}
    with house.database.session() as session:
        # In this order a run that starts between the two is still asked.
        if not rows_matched(session, at_once.values(stop_requested_at=now, **stopped)):
            rows_matched(session, later.values(stop_requested_at=now, status=RunStatus.STOPPING))
    house.bell.set()
    row = find_run(house, run_id)
    if row.status in (RunStatus.COMPLETED, RunStatus.FAILED):
        raise RunError(
            f"{run_id} has {'completed' if row.status == RunStatus.COMPLETED else 'failed'} already, "
            "so there is nothing to stop."
        )
    return view_run(row)


def delete_run(house: House, run_id: str) -> None:
    """Remove the record of a run that is over, with its log, diary and settings.

    What it saved stays, on the volume and in the catalogue: those files are the user's.
    """
    with house.database.session() as session:
        run = session.get(RunRow, run_id, with_for_update=True)
        if run is None:
            raise unknown_run(run_id)
        if not RunStatus(run.status).is_over:
            raise RunError(f"{run_id} is {run.status} and has not ended.", hint=f"burnish train stop {run_id}")
        attempts = session.scalars(select(AttemptRow.number).where(AttemptRow.run_id == run_id)).all()
        session.execute(delete(RunRow).where(RunRow.id == run_id))
    drop_environment(house, run_id)
    _delete_records(run_directory(house.home, run_id, run.volume))
    for number in attempts:
        house.executor.forget(attempt_key(run_id, number))


def read_metrics(house: House, run_id: str, after_step: int = -1) -> MetricsView:
    """Every step after `after_step` once, in order. Sums of what has been used are in the run's view."""
    find_run(house, run_id)
    with house.database.session(writes=False) as session:
        steps = session.execute(
            select(StepRow.step, StepRow.values)
            .where(StepRow.run_id == run_id, StepRow.step > after_step)
            .order_by(StepRow.step)
        ).all()
    names = dict.fromkeys(name for _, values in steps for name in values)  # in the order in which they first came
    return MetricsView(
        steps=[step for step, _ in steps],
        series={name: [values.get(name) for _, values in steps] for name in names},
    )


def list_checkpoints(house: House, run_id: str) -> CheckpointList:
    """Whole checkpoints that are still there, oldest first."""
    run = find_run(house, run_id)
    directory = run_directory(house.home, run_id, run.volume)
    with house.database.session(writes=False) as session:
        rows: Sequence[CheckpointRow] = session.scalars(
            select(CheckpointRow).where(CheckpointRow.run_id == run_id).order_by(CheckpointRow.step)
        ).all()
    return CheckpointList(checkpoints=[view_checkpoint(row) for row in rows if directory.checkpoint(row.step).is_whole])


def _find_by_key(house: House, idempotency_key: str | None, digest: str) -> RunDetail | None:
    if idempotency_key is None:
        return None
    with house.database.session(writes=False) as session:
        row = session.scalars(select(RunRow).where(RunRow.idempotency_key == idempotency_key)).first()
    if row is not None and row.request_digest != digest:
        raise Conflict(
            f"The idempotency key {idempotency_key} belongs to {row.id}, which asked for something else.",
            hint="Send a new key with a new request.",
        )
    return None if row is None else view_detail(row)


def _new_row(house: House, config: str, accepted: Accepted, idempotency_key: str | None, digest: str) -> RunRow:
    spec = accepted.reading.spec
    return RunRow(
        id=new_run_id(),
        name=accepted.name,
        status=RunStatus.PENDING,
        model=spec.model,
        volume=accepted.volume,
        dialect=accepted.reading.dialect,
        config=mask_secrets(config),
        spec=spec.model_copy(update={"environment": {}}).model_dump(mode="json"),
        layout=accepted.layout.model_dump(mode="json"),
        notes=list(accepted.reading.notes),
        max_steps=spec.steps if spec.epochs is None else None,
        idempotency_key=idempotency_key,
        request_digest=digest,
        created_at=house.now(),
    )


def _insert(house: House, run: RunRow, report: CheckReport) -> None:
    with house.database.session() as session:
        if run.volume is not None and session.get(VolumeRow, run.volume, with_for_update=True) is None:
            raise NotFound(f"The volume {run.volume} was deleted a moment ago.", hint="burnish volumes list")
        session.add(run)
        session.flush()
        session.add(ReportRow(run_id=run.id, report=report.shortened().model_dump(mode="json")))


def _delete_records(directory: RunDirectory) -> None:
    directory.order.unlink(missing_ok=True)
    directory.diary.unlink(missing_ok=True)
    room_beside(directory.diary).unlink(missing_ok=True)
    for folder in (directory.log.parent, directory.config.parent):
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if directory.root.is_dir() and not any(directory.root.iterdir()):
        directory.root.rmdir()
