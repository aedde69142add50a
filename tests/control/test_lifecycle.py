"""`decide` by a table of what each case must come to, and by rules that hold over every combination of facts."""

from dataclasses import replace
from itertools import product

import pytest

from burnish.control.lifecycle import (
    DiaryState,
    Finish,
    Launch,
    MarkRunning,
    Relaunch,
    RunState,
    SendStop,
    Wait,
    decide,
)
from burnish.executors.base import Phase, Sight
from burnish.executors.scripted import ABSENT, LOST, RUNNING, STARTING, exited
from burnish.run.status import RunStatus

S = RunStatus
KILLED, OOM, TERMINATED = exited(signal=9), exited(signal=9, out_of_memory=True), exited(signal=15)

WAITING = RunState(S.PENDING)
CREATING = RunState(S.CREATING, attempt=1, launched=True)
GOING = RunState(S.RUNNING, attempt=1, launched=True)
STOPPING = RunState(S.STOPPING, attempt=1, launched=True, stop_requested=True)

SILENT = DiaryState()
UP = DiaryState(started=True)
TRAINED = DiaryState(started=True, steps=5, advanced=True)
DONE = DiaryState(started=True, steps=10, advanced=True, saved_model=True, outcome="completed")
FAILED = replace(TRAINED, outcome="failed", message="CUDA is out of memory.", hint="Use fewer rows.")
ENDED = replace(TRAINED, outcome="stopped")


TABLE = [
    # name, run, sight, diary, action, its status where it is Finish, words of its reason
    ("slots are free", WAITING, None, SILENT, Launch, None, ""),
    ("slots are held", replace(WAITING, waits_for="Waits."), None, SILENT, Wait, None, "Waits."),
    ("stopped while it waits", replace(WAITING, stop_requested=True), None, SILENT, Finish, S.STOPPED, "on request"),
    ("claimed, not launched", replace(CREATING, launched=False), ABSENT, SILENT, Launch, None, ""),
    ("stopped before the launch", replace(STOPPING, launched=False), ABSENT, SILENT, Finish, S.STOPPED, "on request"),
    ("being started", CREATING, STARTING, SILENT, Wait, None, ""),
    ("process up, trainer not", CREATING, RUNNING, SILENT, Wait, None, ""),
    ("trainer up", CREATING, RUNNING, UP, MarkRunning, None, ""),
    ("training", GOING, RUNNING, TRAINED, Wait, None, ""),
    ("stop asked", STOPPING, RUNNING, TRAINED, SendStop, None, "asked to stop"),
    ("stop asked while it starts", STOPPING, STARTING, SILENT, SendStop, None, "asked to stop"),
    ("stop sent", replace(STOPPING, seconds_since_stop_sent=3.0), RUNNING, TRAINED, Wait, None, ""),
    ("stop without effect", replace(STOPPING, seconds_since_stop_sent=99.0), RUNNING, TRAINED, SendStop, None, ""),
    ("never up", replace(CREATING, seconds_since_created=301), RUNNING, SILENT, SendStop, None, "300 seconds"),
    (
        "never up, ended by us",
        replace(CREATING, seconds_since_stop_sent=9.0),
        KILLED,
        SILENT,
        Finish,
        S.FAILED,
        "not up",
    ),
    ("hangs in teardown", GOING, RUNNING, replace(DONE, seconds_since_outcome=61), SendStop, None, "last word"),
    ("done, ends in time", GOING, RUNNING, replace(DONE, seconds_since_outcome=9), Wait, None, ""),
    (
        "teardown ended by us",
        replace(GOING, seconds_since_stop_sent=50.0),
        KILLED,
        DONE,
        Finish,
        S.COMPLETED,
        "signal 9",
    ),
    ("completed", GOING, exited(0), DONE, Finish, S.COMPLETED, ""),
    ("completed before it was seen running", CREATING, exited(0), DONE, Finish, S.COMPLETED, ""),
    ("completed, crash in teardown", GOING, exited(1), DONE, Finish, S.COMPLETED, "exit code 1"),
    ("completed, supervisor lost", GOING, LOST, DONE, Finish, S.COMPLETED, "lost"),
    ("completed, stop came too late", STOPPING, exited(0), DONE, Finish, S.COMPLETED, "after the last step"),
    ("completed without a step", GOING, exited(0), replace(DONE, steps=0), Finish, S.FAILED, "without one step"),
    (
        "completed with no loss",
        GOING,
        exited(0),
        replace(DONE, loss_is_number=False),
        Finish,
        S.FAILED,
        "no longer a number",
    ),
    (
        "completed, nothing saved",
        replace(GOING, wants_model=True),
        exited(0),
        replace(DONE, saved_model=False),
        Finish,
        S.FAILED,
        "without saving",
    ),
    ("completed, nothing asked for", GOING, exited(0), replace(DONE, saved_model=False), Finish, S.COMPLETED, ""),
    ("exit 0 without a last line", GOING, exited(0), TRAINED, Finish, S.FAILED, "exit code 0"),
    ("exit 1 without a last line", GOING, exited(1), TRAINED, Finish, S.FAILED, "ended with exit code 1"),
    ("exit 137 through a shell", GOING, exited(137), TRAINED, Finish, S.FAILED, "out of memory"),
    ("killed for memory", GOING, OOM, TRAINED, Finish, S.FAILED, "out of memory"),
    ("killed by a stranger", GOING, KILLED, TRAINED, Relaunch, None, "signal 9 (SIGKILL; out of memory?)"),
    (
        "killed by a stranger, last attempt",
        replace(GOING, attempt=3),
        KILLED,
        TRAINED,
        Finish,
        S.FAILED,
        "out of memory?",
    ),
    ("failed by itself", GOING, exited(1), FAILED, Finish, S.FAILED, "CUDA is out of memory."),
    ("failed by itself, then lost", GOING, LOST, FAILED, Finish, S.FAILED, "CUDA is out of memory."),
    ("failed by itself and mute", GOING, exited(1), replace(FAILED, message=""), Finish, S.FAILED, "did not say why"),
    ("failed while it was to stop", STOPPING, exited(1), FAILED, Finish, S.STOPPED, "on request"),
    ("stopped", STOPPING, exited(0), ENDED, Finish, S.STOPPED, "on request"),
    ("stopped, killed after the grace", STOPPING, KILLED, TRAINED, Finish, S.STOPPED, "on request"),
    ("stopped, then lost", STOPPING, LOST, TRAINED, Finish, S.STOPPED, "on request"),
    ("stopped before it said a word", STOPPING, TERMINATED, SILENT, Finish, S.STOPPED, "on request"),
    ("stopped by somebody else", GOING, exited(0), ENDED, Relaunch, None, "stopped from outside"),
    ("lost", GOING, LOST, TRAINED, Relaunch, None, "supervisor is gone"),
    ("lost before the trainer was up", CREATING, LOST, SILENT, Relaunch, None, "supervisor is gone"),
    ("forgotten by the executor", GOING, ABSENT, TRAINED, Relaunch, None, "supervisor is gone"),
    ("lost at the last attempt", replace(GOING, attempt=3), LOST, TRAINED, Finish, S.FAILED, "last of 3 attempts"),
    ("crash loop", replace(GOING, attempt=2, earlier_stalled=True), LOST, UP, Finish, S.FAILED, "without a new step"),
    ("stalled, but not before", replace(GOING, attempt=2), LOST, UP, Relaunch, None, "goes on"),
    ("over", RunState(S.COMPLETED, attempt=1), exited(1), FAILED, Wait, None, ""),
]


@pytest.mark.parametrize(
    ("run", "sight", "diary", "kind", "status", "words"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_each_case_comes_to_its_action(run, sight, diary, kind, status, words) -> None:
    action = decide(run, sight, diary)
    assert type(action) is kind
    assert getattr(action, "status", None) is status
    assert words in getattr(action, "reason", "")


def test_a_launch_names_the_next_attempt_of_a_waiting_run_and_the_same_of_a_claimed_one() -> None:
    assert decide(replace(WAITING, attempt=1), None, SILENT) == Launch(2)
    assert decide(replace(CREATING, attempt=2, launched=False), ABSENT, SILENT) == Launch(2)


def test_the_trainers_own_hint_reaches_the_user() -> None:
    assert decide(GOING, exited(1), FAILED) == Finish(S.FAILED, "CUDA is out of memory.", "Use fewer rows.")


SIGHTS = [ABSENT, STARTING, RUNNING, LOST, exited(0), exited(1), exited(137), exited(None), KILLED, OOM, TERMINATED]
RUNS = [
    RunState(
        status,
        attempt=attempt,
        launched=launched,
        stop_requested=status is S.STOPPING,
        seconds_since_created=created,
        seconds_since_stop_sent=sent,
        earlier_stalled=stalled,
        wants_model=wants,
    )
    for status, attempt, launched, created, sent, stalled, wants in product(
        (S.CREATING, S.RUNNING, S.STOPPING),
        (1, 3),
        (True, False),
        (0.0, 1e4),
        (None, 1.0, 1e4),
        (True, False),
        (True, False),
    )
]
DIARIES = [
    DiaryState(
        started=started,
        outcome=outcome,
        seconds_since_outcome=since,
        advanced=steps > 0,
        steps=steps,
        loss_is_number=number,
        saved_model=saved,
    )
    for started, outcome, since, steps, number, saved in product(
        (True, False), (None, "completed", "stopped", "failed"), (0.0, 1e4), (0, 9), (True, False), (True, False)
    )
]


def test_rules_hold_over_every_combination() -> None:
    for run, sight in product(RUNS, SIGHTS):
        for diary in DIARIES:
            action = decide(run, sight, diary)
            _check_rules(run, sight, diary, action)


def _check_rules(run: RunState, sight: Sight, diary: DiaryState, action: object) -> None:
    facts = (run, sight, diary, action)
    is_gone = sight.phase in (Phase.EXITED, Phase.LOST) or (sight.phase is Phase.ABSENT and run.launched)
    if sight.phase in (Phase.STARTING, Phase.RUNNING):
        assert isinstance(action, Wait | SendStop | MarkRunning), facts  # a living program is never given up
    if is_gone:
        assert isinstance(action, Finish | Relaunch), facts  # nothing is waited for that cannot come
    if is_gone and run.stop_requested:
        assert isinstance(action, Finish), facts
        assert action.status is S.STOPPED or (action.status is S.COMPLETED and diary.outcome == "completed"), facts
    if isinstance(action, Finish):
        assert run.status.may_become(action.status), facts
        assert action.reason or action.status is S.COMPLETED, facts
        if action.status is S.COMPLETED:
            assert diary.outcome == "completed" and diary.steps and diary.loss_is_number, facts
            assert diary.saved_model or not run.wants_model, facts
        if action.status is S.STOPPED:
            assert run.stop_requested, facts
    if isinstance(action, Relaunch):
        assert run.status.may_become(S.PENDING), facts
        assert action.attempt == run.attempt + 1 <= 3, facts
        assert diary.outcome not in ("completed", "failed"), facts
        assert diary.advanced or not run.earlier_stalled, facts
    if isinstance(action, MarkRunning):
        assert run.status is S.CREATING and diary.started, facts
    if isinstance(action, Launch):
        assert not run.launched and sight.phase is Phase.ABSENT and not run.stop_requested, facts


def test_what_is_over_is_left_alone_whatever_is_seen() -> None:
    for status, sight, diary in product((S.COMPLETED, S.FAILED, S.STOPPED), SIGHTS, DIARIES):
        assert decide(RunState(status, attempt=1, stop_requested=True), sight, diary) == Wait()
