"""Keeps what is equal to what should be: looks at every live run, decides by `lifecycle.decide`, does it.

Any number of reconcilers may share a database. Each holds a run by a lease, every write is guarded by that lease and
by the status it was decided on, and the executor starts a key once: so a run is never launched twice. What happens on
the machine happens outside of transactions.
"""

import logging
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Select, Update, func, or_, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from burnish.control.db import DatabaseAway, rows_matched
from burnish.control.house import House
from burnish.control.ingest import drain
from burnish.control.launch import attempt_key, launch_attempt
from burnish.control.lifecycle import (
    Action,
    Finish,
    Launch,
    MarkRunning,
    Relaunch,
    SendStop,
    Wait,
    decide,
    describe_end,
)
from burnish.control.queue import HOLDING, read_queue
from burnish.control.settings import Patience
from burnish.control.state import read_diary_state, read_run_state
from burnish.control.tables import AttemptRow, RunRow
from burnish.errors import BurnishError, ExecutorError, ServerError
from burnish.executors.base import Phase, Sight
from burnish.run.status import RunStatus

_log = logging.getLogger("burnish.control")
_TELL_AFTER = 8
"""Troubles in a row; what passes within two seconds is nobody's business."""
_ALL = "the runs"
_LIVE = [status for status in RunStatus if not status.is_over]


class LeaseLost(Exception):
    """Another reconciler holds the run now, or a request changed it since it was read. Nothing was written."""


class Reconciler:
    def __init__(self, house: House, *, patience: Patience = Patience()) -> None:
        self.house = house
        self.patience = patience
        self.token = secrets.token_hex(16)
        self._swept_at = -float("inf")
        self._told: dict[str, str] = {}
        """Whom the log has told of what trouble, which may last."""

    def run_forever(self, stop: threading.Event) -> None:
        """Tick until `stop` is set; whoever sets it may ring the house's bell to be quick."""
        while not stop.is_set():
            self.house.bell.clear()
            try:
                live = self.tick()
                self._told.pop(_ALL, None)
            except Exception as error:  # a database or a machine that is away for a while comes back
                self._log_trouble(_ALL, error)
                live = 0
            self.house.bell.wait(self.patience.tick if live else self.patience.idle)
        try:
            self.release()
        except (SQLAlchemyError, DatabaseAway) as error:  # they run out by themselves
            _log.warning("the leases could not be released: %s", error)

    def tick(self) -> int:
        """One look at every live run, oldest first; those on the machine before those that wait for it.

        Returns how many there are.
        """
        with self.house.database.session(writes=False) as session:
            on_machine = list(session.scalars(_in_order(select(RunRow.id).where(RunRow.status.in_(HOLDING)))))
        for run_id in on_machine:
            self._tend_safely(run_id)
        with self.house.database.session(writes=False) as session:
            waiting = list(session.scalars(_in_order(select(RunRow).where(RunRow.status == RunStatus.PENDING))))
        for run_id in self._with_news(waiting):
            self._tend_safely(run_id)
        self._sweep()
        return len(on_machine) + len(waiting)

    def _with_news(self, waiting: list[RunRow]) -> list[str]:
        """Those that may start, are asked to stop or have not been told why they wait. A long queue costs little."""
        if not waiting:
            return []
        capacity = self.house.executor.capacity()
        with self.house.database.session(writes=False) as session:
            queue = read_queue(session, capacity)
        known = {each.run_id for each in queue.waiting}
        return [
            run.id
            for run in waiting
            if run.id not in known or queue.slots_for(run.id) or queue.waits_for(run.id) != run.reason
        ]

    def release(self) -> None:
        """Let go of every lease, so that the next reconciler need not wait for them to run out."""
        with self.house.database.session() as session:
            session.execute(
                update(RunRow).where(RunRow.lease_token == self.token).values(lease_token=None, lease_expires_at=None)
            )

    def _tend_safely(self, run_id: str) -> None:
        """One run's trouble is not the others'."""
        try:
            if self._take_lease(run_id):
                self._tend(run_id)
            self._told.pop(run_id, None)
        except LeaseLost as lost:
            _log.info("%s: %s", run_id, lost)
        except Exception as error:  # whatever it is, the other runs go on and this one does not stay stuck
            self._log_trouble(run_id, error)
            self._note_trouble(run_id, error)

    def _log_trouble(self, what: str, error: Exception) -> None:
        """Once while it stays the same: four tracebacks a second would fill the disk, or keep it full."""
        if self._told.get(what) == (said := _sentence(error)):
            return
        self._told[what] = said
        is_known = isinstance(error, DatabaseAway)
        _log.error("%s could not be looked after: %s", what, said, exc_info=None if is_known else error)

    def _take_lease(self, run_id: str) -> bool:
        """Ours for `patience.lease` seconds more. False while another reconciler holds it."""
        now = self.house.now()
        with self.house.database.session(writes=False) as session:
            run = session.get(RunRow, run_id)
        if run is None:
            return False
        left = (run.lease_expires_at - now).total_seconds() if run.lease_expires_at else 0.0
        if run.lease_token == self.token and left > self.patience.lease / 2:
            return True
        with self.house.database.session() as session:
            free = or_(
                RunRow.lease_token.is_(None),
                RunRow.lease_token == self.token,
                RunRow.lease_expires_at < now,
                # Longer than anyone takes one for: the clock was set back, perhaps by hours.
                RunRow.lease_expires_at > now + timedelta(seconds=2 * self.patience.lease),
            )
            claim = update(RunRow).where(RunRow.id == run_id, RunRow.status.in_(_LIVE), free)
            expires = now + timedelta(seconds=self.patience.lease)
            return rows_matched(session, claim.values(lease_token=self.token, lease_expires_at=expires)) == 1

    def _tend(self, run_id: str) -> None:
        run, attempt = self._read(run_id)
        sight = None
        if attempt is not None and run.status in HOLDING:
            # First the look, then the diary: what a dead program wrote is then all there.
            sight = self.house.executor.inspect(attempt_key(run_id, attempt.number))
            drain(self.house, run_id)
            run, attempt = self._read(run_id)
        waits_for = self._waits_for(run) if run.status == RunStatus.PENDING else ""
        now = self.house.now()
        with self.house.database.session(writes=False) as session:
            state = read_run_state(session, run, attempt, waits_for=waits_for, now=now)
            diary = read_diary_state(session, run, attempt, now=now)
        self._do(decide(state, sight, diary, self.patience), run, attempt, sight)
        if run.troubles and not RunStatus(run.status).is_over:
            self._write(run, troubles=0)

    def _do(self, action: Action, run: RunRow, attempt: AttemptRow | None, sight: Sight | None) -> None:
        match action:
            case Wait(reason=reason):
                if reason and reason != run.reason:
                    self._write(run, reason=reason)
            case Launch():
                self._launch(run, attempt)
            case MarkRunning():
                self._write(run, status=RunStatus.RUNNING, reason="")
                _log.info("%s: running, attempt %d", run.id, run.attempt)
            case SendStop(reason=reason):
                self._send_stop(run, reason)
            case Relaunch(reason=reason):
                self._requeue(run, sight, reason)
            case Finish():
                self._finish(run, sight, action)

    # -- the deeds ----------------------------------------------------------

    def _launch(self, run: RunRow, attempt: AttemptRow | None) -> None:
        if run.status == RunStatus.PENDING:
            attempt = self._claim(run)
        assert attempt is not None
        try:
            launch_attempt(self.house, run, attempt)
        except BurnishError as error:
            if isinstance(error, ExecutorError | ServerError):
                raise  # the machine's trouble, which may pass
            self._finish(run, None, Finish(RunStatus.FAILED, error.message, error.hint))
            return
        now = self.house.now()
        with self._guarded(run) as session:
            session.execute(_of_attempt(run).values(launched_at=now))
            session.execute(
                update(RunRow).where(RunRow.id == run.id, RunRow.started_at.is_(None)).values(started_at=now)
            )
        _log.info("%s: attempt %d launched on slots %s", run.id, attempt.number, attempt.slots)

    def _claim(self, run: RunRow) -> AttemptRow:
        """Take the slots and write the attempt down, before anything starts. `LeaseLost` if others took them."""
        capacity = self.house.executor.capacity()
        with self._guarded(run) as session:
            self.house.database.serialise(session)
            slots = read_queue(session, capacity).slots_for(run.id)
            if slots is None:
                raise LeaseLost("its slots were taken meanwhile")
            best = session.scalar(select(func.max(AttemptRow.last_step)).where(AttemptRow.run_id == run.id))
            attempt = AttemptRow(
                run_id=run.id,
                number=run.attempt + 1,
                slots=slots,
                best_before=best or 0,
                created_at=self.house.now(),
            )
            session.add(attempt)
            _change(session, run, status=RunStatus.CREATING, attempt=attempt.number, reason="")
        return attempt

    def _send_stop(self, run: RunRow, reason: str) -> None:
        self.house.executor.stop(attempt_key(run.id, run.attempt), grace_seconds=self.patience.stop_grace)
        with self._guarded(run) as session:
            session.execute(_of_attempt(run).values(stop_sent_at=self.house.now()))
        _log.info("%s: attempt %d %s; stop sent", run.id, run.attempt, reason)

    def _requeue(self, run: RunRow, sight: Sight | None, reason: str) -> None:
        with self._guarded(run) as session:
            self._end_attempt(session, run, sight, reason)
            _change(session, run, status=RunStatus.PENDING, reason=reason)
        _log.warning("%s: %s", run.id, reason)

    def _finish(self, run: RunRow, sight: Sight | None, finish: Finish) -> None:
        with self._guarded(run) as session:
            if run.status in HOLDING:
                self._end_attempt(session, run, sight, finish.reason)
            _change(
                session,
                run,
                status=finish.status,
                reason=finish.reason,
                hint=finish.hint,
                finished_at=self.house.now(),
                lease_token=None,
                lease_expires_at=None,
            )
        _log.info("%s: %s %s", run.id, finish.status, finish.reason)

    def _end_attempt(self, session: Session, run: RunRow, sight: Sight | None, reason: str) -> None:
        end = sight.exit if sight else None
        session.execute(
            _of_attempt(run).values(
                exit_code=end.exit_code if end else None,
                signal=end.signal if end else None,
                ended_at=datetime.fromtimestamp(end.ended_at, UTC) if end else self.house.now(),
                reason=f"It {describe_end(end)}." if end else reason,
            )
        )

    def _note_trouble(self, run_id: str, error: Exception) -> None:
        """Count it; tell the user once it lasts; give the run up before it stays stuck for ever."""
        if isinstance(error, DatabaseAway):
            return  # the database was away or busy, which says nothing about the run
        what = _sentence(error)
        try:
            run, _ = self._read(run_id)
            count = run.troubles + 1
            if count >= self.patience.troubles:
                finish = Finish(RunStatus.FAILED, f"The server could not look after this run: {what}")
                self._finish(run, None, finish)
            else:
                told = {"reason": f"The server has trouble with this run: {what}"} if count >= _TELL_AFTER else {}
                self._write(run, troubles=count, **told)
        except (LeaseLost, SQLAlchemyError, DatabaseAway) as again:
            _log.warning("%s: its trouble could not be noted: %s", run_id, type(again).__name__)

    def _sweep(self) -> None:
        """Now and then: end programs that no run wants any more, such as one whose record was given up."""
        now = self.house.clock()
        if now - self._swept_at < self.patience.sweep:
            return
        self._swept_at = now
        try:
            for key in self.house.executor.find():
                if self._is_unwanted(key):
                    _log.warning("%s: no run wants this program any more; stopping it", key)
                    self.house.executor.stop(key, grace_seconds=self.patience.stop_grace)
        except BurnishError:  # the machine is away; the next sweep is soon enough
            _log.exception("the executor's programs could not be swept")

    def _is_unwanted(self, key: str) -> bool:
        run_id, _, number = key.rpartition("-")
        if not number.isdigit() or self.house.executor.inspect(key).phase not in (Phase.STARTING, Phase.RUNNING):
            return False
        with self.house.database.session(writes=False) as session:
            run = session.get(RunRow, run_id)
        # A run that this database does not know may be another's: leave it alone.
        return run is not None and (RunStatus(run.status).is_over or int(number) < run.attempt)

    # -- reading and guarded writing ----------------------------------------

    def _read(self, run_id: str) -> tuple[RunRow, AttemptRow | None]:
        with self.house.database.session(writes=False) as session:
            run = session.get(RunRow, run_id)
            if run is None:
                raise LeaseLost("it was deleted meanwhile")
            return run, session.get(AttemptRow, (run_id, run.attempt))

    def _waits_for(self, run: RunRow) -> str:
        """Empty if its slots are free now."""
        capacity = self.house.executor.capacity()
        with self.house.database.session(writes=False) as session:
            queue = read_queue(session, capacity)
        return "" if queue.slots_for(run.id) else queue.waits_for(run.id)

    def _write(self, run: RunRow, **values: Any) -> None:
        with self._guarded(run) as session:
            _change(session, run, **values)

    @contextmanager
    def _guarded(self, run: RunRow) -> Iterator[Session]:
        """A transaction in which the lease is ours and the status is the one that was read; else `LeaseLost`."""
        with self.house.database.session() as session:
            held = update(RunRow).where(
                RunRow.id == run.id, RunRow.lease_token == self.token, RunRow.status == run.status
            )
            if not rows_matched(session, held.values(lease_token=self.token)):
                raise LeaseLost("the lease or the status is another now; nothing was written")
            yield session


def _sentence(error: Exception) -> str:
    if isinstance(error, BurnishError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})." if error.filename else f"{error.strerror}."
    return f"{type(error).__name__}, see the server's log."


def _change(session: Session, run: RunRow, **values: Any) -> None:
    became = values.get("status", run.status)
    assert became == run.status or RunStatus(run.status).may_become(became), f"{run.status} to {became}"
    session.execute(update(RunRow).where(RunRow.id == run.id).values(**values))
    for name, value in values.items():  # the row in hand is detached, and goes with what was written
        setattr(run, name, value)


def _in_order(statement: Select[Any]) -> Select[Any]:
    return statement.order_by(RunRow.created_at, RunRow.id)


def _of_attempt(run: RunRow) -> Update:
    return update(AttemptRow).where(AttemptRow.run_id == run.id, AttemptRow.number == run.attempt)
