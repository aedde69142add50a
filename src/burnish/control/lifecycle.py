"""What to do with a run next, decided from three facts: what should be, what the machine shows, what the diary says.

Pure: no clock, no database, no process. The reconciler does what is decided here.

The diary outranks the exit record, and the exit record outranks silence. Only silence (a lost supervisor, a signal
that nobody here sent) is tried again; a trainer that failed by itself would fail again.
"""

from dataclasses import dataclass
from signal import Signals
from typing import Literal

from burnish.control.settings import Patience
from burnish.executors.base import ExitRecord, Phase, Sight
from burnish.run.status import RunStatus

Outcome = Literal["completed", "stopped", "failed"]


@dataclass(frozen=True)
class RunState:
    """What the database says should be."""

    status: RunStatus
    attempt: int = 0
    """The newest; 0 before the first launch."""
    launched: bool = False
    """The executor is known to have taken the newest attempt."""
    stop_requested: bool = False
    waits_for: str = ""
    """What a pending run waits for; empty when its slots are free."""
    seconds_since_created: float = 0.0
    """Of the newest attempt."""
    seconds_since_stop_sent: float | None = None
    earlier_stalled: bool = False
    """The attempt before the newest ended without a step that was new."""
    wants_model: bool = False
    """The config asks for checkpoints."""


@dataclass(frozen=True)
class DiaryState:
    """What the newest attempt wrote about itself."""

    started: bool = False
    outcome: Outcome | None = None
    message: str = ""
    hint: str = ""
    seconds_since_outcome: float = 0.0
    advanced: bool = False
    """It reached a step that no earlier attempt had reached."""
    steps: int = 0
    """Of the run, over all attempts."""
    loss_is_number: bool = True
    saved_model: bool = False


@dataclass(frozen=True)
class Wait:
    reason: str = ""


@dataclass(frozen=True)
class Launch:
    attempt: int


@dataclass(frozen=True)
class MarkRunning:
    pass


@dataclass(frozen=True)
class SendStop:
    reason: str = ""


@dataclass(frozen=True)
class Finish:
    status: RunStatus
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Relaunch:
    """Back into the queue; the next launch is `attempt`."""

    attempt: int
    reason: str


Action = Wait | Launch | MarkRunning | SendStop | Finish | Relaunch

_LOST = "was lost: its supervisor is gone and left no exit record"


def decide(run: RunState, sight: Sight | None, diary: DiaryState, patience: Patience = Patience()) -> Action:
    """The one next thing to do. `sight` is of the newest attempt, taken before the diary was read; None without one.

    In that order nothing is missed: a diary read after the program was seen dead is whole.
    """
    if run.status.is_over:
        return Wait()
    if run.status is RunStatus.PENDING:
        return _decide_waiting(run)
    assert sight is not None
    match sight.phase:
        case Phase.EXITED:
            return _verdict(run, sight.exit, diary, patience)
        case Phase.LOST:
            return _verdict(run, None, diary, patience)
        case Phase.ABSENT if run.launched:
            return _verdict(run, None, diary, patience)
        case Phase.ABSENT:
            return _stopped() if run.stop_requested else Launch(run.attempt)
        case Phase.STARTING | Phase.RUNNING:
            return _decide_alive(run, diary, patience)


def _decide_waiting(run: RunState) -> Action:
    if run.stop_requested:
        return _stopped()
    return Wait(run.waits_for) if run.waits_for else Launch(run.attempt + 1)


def _decide_alive(run: RunState, diary: DiaryState, patience: Patience) -> Action:
    if why := _why_end_it(run, diary, patience):
        sent = run.seconds_since_stop_sent
        # A stop that did nothing within its grace and a bit was perhaps never delivered.
        return SendStop(why) if sent is None or sent > patience.stop_grace + 15 else Wait()
    return MarkRunning() if diary.started and run.status is RunStatus.CREATING else Wait()


def _why_end_it(run: RunState, diary: DiaryState, patience: Patience) -> str:
    if run.stop_requested:
        return "was asked to stop"
    if diary.outcome is not None and diary.seconds_since_outcome > patience.teardown:
        return f"did not end within {patience.teardown:g} seconds of its last word"
    if not diary.started and run.seconds_since_created > patience.start:
        return f"was not up within {patience.start:g} seconds"
    return ""


def _verdict(run: RunState, end: ExitRecord | None, diary: DiaryState, patience: Patience) -> Action:
    """The program is gone. `end` is None where nobody saw how."""
    if diary.outcome == "completed":
        return _completed(run, end, diary)
    if run.stop_requested:
        return _stopped()
    if diary.outcome == "failed":
        return Finish(RunStatus.FAILED, diary.message or "The trainer failed and did not say why.", diary.hint)
    if diary.outcome == "stopped":
        return _again(run, diary, patience, "was stopped from outside")
    if end is None or (end.exit_code is None and end.signal is None):
        return _again(run, diary, patience, _LOST)
    if run.seconds_since_stop_sent is not None:
        return Finish(
            RunStatus.FAILED,
            f"The trainer was not up within {patience.start:g} seconds and was ended.",
            "The log tells how far it came.",
        )
    if end.out_of_memory:
        return _out_of_memory(end)
    if end.signal is not None:
        return _again(run, diary, patience, describe_end(end))
    return _exited(end)


def _completed(run: RunState, end: ExitRecord | None, diary: DiaryState) -> Finish:
    """The trainer says that all is done; believed only with steps, a number for a loss and the model asked for."""
    if fault := _completion_fault(run, diary):
        return _stopped() if run.stop_requested else fault
    if run.stop_requested:
        return Finish(RunStatus.COMPLETED, "The request to stop came after the last step.")
    if end is not None and end.exit_code == 0:
        return Finish(RunStatus.COMPLETED, diary.message)  # it has one where it ended early
    how = describe_end(end) if end is not None else _LOST
    return Finish(RunStatus.COMPLETED, f"All steps are done; after that the trainer {how}.")


def _completion_fault(run: RunState, diary: DiaryState) -> Finish | None:
    if diary.steps == 0:
        return Finish(RunStatus.FAILED, "The trainer ended without one step.", "The log tells why.")
    if not diary.loss_is_number:
        return Finish(
            RunStatus.FAILED,
            "The loss is no longer a number, so the weights are of no use.",
            "Lower optim.lr, or look at the data of the step where it began.",
        )
    if run.wants_model and not diary.saved_model:
        return Finish(RunStatus.FAILED, "The trainer ended without saving a checkpoint.", "The log tells why.")
    return None


def _again(run: RunState, diary: DiaryState, patience: Patience, how: str) -> Action:
    if not diary.advanced and run.earlier_stalled:
        return Finish(
            RunStatus.FAILED,
            f"Two attempts in a row ended without a new step; the last one {how}.",
            "The log tells how far they came.",
        )
    if run.attempt >= patience.attempts:
        return Finish(
            RunStatus.FAILED,
            f"The last of {patience.attempts} attempts {how}.",
            "The log tells what happened.",
        )
    return Relaunch(run.attempt + 1, f"Attempt {run.attempt} {how}; the run goes on from its newest checkpoint.")


def _exited(end: ExitRecord) -> Finish:
    if end.exit_code == 0:
        return Finish(
            RunStatus.FAILED,
            "The trainer ended with exit code 0 but did not say that it had completed.",
            "The log tells how far it came.",
        )
    if end.exit_code == 137:  # what a shell in between makes of signal 9
        return _out_of_memory(end)
    return Finish(RunStatus.FAILED, f"The trainer {describe_end(end)}.", "The end of the log tells why.")


def _out_of_memory(end: ExitRecord) -> Finish:
    return Finish(
        RunStatus.FAILED,
        f"The trainer {describe_end(end)}: out of memory.",
        "Use a smaller model, fewer rows per device or a shorter data.seq_len.",
    )


def describe_end(end: ExitRecord) -> str:
    """`ended with exit code 1`, `was killed by signal 9 (SIGKILL; out of memory?)`."""
    if end.signal is None:
        return f"ended with exit code {end.exit_code}"
    name = Signals(end.signal).name if end.signal in {each.value for each in Signals} else "unknown"
    guess = "; out of memory?" if end.signal == Signals.SIGKILL and not end.out_of_memory else ""
    return f"was killed by signal {end.signal} ({name}{guess})"


def _stopped() -> Finish:
    return Finish(RunStatus.STOPPED, "It was stopped on request.")
