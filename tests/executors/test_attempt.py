"""The attempt directory: what its files mean together, and who may read them."""

import fcntl
import itertools
import json
import os
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from real_programs import Machine, until

from burnish.errors import ExecutorError
from burnish.executors.attempt import Attempt, Evidence, Order, State, sight_of
from burnish.executors.base import ExitRecord, Phase, Sight

RECORD = ExitRecord(0, None, 1.0)
STARTED = State("this boot", 10, 100, "token", None)
WITH_CHILD = State("this boot", 10, 100, "token", None, 11, 101)
OLD = State("an earlier boot", 10, 100, "token", None, 11, 101)


@pytest.mark.parametrize(
    ("is_frozen", "state", "is_locked", "phase"),
    [
        (False, None, False, Phase.ABSENT),
        (False, None, True, Phase.ABSENT),
        (True, None, False, Phase.ABSENT),
        (True, None, True, Phase.STARTING),
        (True, STARTED, True, Phase.STARTING),
        (True, STARTED, False, Phase.LOST),
        (True, WITH_CHILD, True, Phase.RUNNING),
        (True, WITH_CHILD, False, Phase.LOST),
        (True, OLD, True, Phase.LOST),
        (True, OLD, False, Phase.LOST),
    ],
)
def test_the_verdict_without_an_exit_record(
    is_frozen: bool, state: State | None, is_locked: bool, phase: Phase
) -> None:
    sight = sight_of(Evidence(is_frozen, state, is_locked, None, "this boot"))
    assert sight == Sight(phase, pid=11 if phase is Phase.RUNNING else None)


def test_an_exit_record_settles_it_whatever_else_is_there() -> None:
    for is_frozen, state, is_locked in itertools.product((False, True), (None, STARTED, OLD), (False, True)):
        assert sight_of(Evidence(is_frozen, state, is_locked, RECORD, "this boot")) == Sight(Phase.EXITED, RECORD)


records = st.builds(
    ExitRecord,
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    ended_at=st.floats(0, 1e11),
    out_of_memory=st.booleans(),
)


@settings(max_examples=30, deadline=None)
@given(record=records, error=st.text(max_size=2000))
@example(record=RECORD, error="\N{FIRE}" * 2000)
def test_an_exit_record_is_read_as_it_was_written_and_fits_the_room_kept_for_it(
    tmp_path_factory: pytest.TempPathFactory, record: ExitRecord, error: str
) -> None:
    attempt = Attempt(tmp_path_factory.mktemp("attempt"))
    attempt.reserve_exit()
    (reserved,) = attempt.root.iterdir()
    size = reserved.stat().st_size
    attempt.write_exit(record, error=error)
    assert attempt.read_exit() == record
    assert error.startswith(attempt.read_start_error())
    assert attempt.exit.stat().st_size == size


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path)
    for state in (STARTED, WITH_CHILD):
        attempt.write_state(state)
        assert attempt.read_state() == state
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_no_one_else_may_read_what_a_program_was_told(machine: Machine) -> None:
    before = os.umask(0)
    try:
        machine.executor.launch(machine.shell("job", "exec sleep 600", HF_TOKEN="s3cret"))
    finally:
        os.umask(before)
    attempt = machine.attempt("job")
    assert "s3cret" in attempt.spec.read_text()
    assert stat.S_IMODE(attempt.root.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in attempt.root.iterdir()}
    assert set(modes) >= {"spec.json", "state.json", "lock", "supervisor.log"}
    assert set(modes.values()) == {0o600}


def test_a_secret_is_not_in_the_process_list_and_not_in_any_log(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", "exec sleep 600", HF_TOKEN="s3cret"))
    state = machine.state("job")
    listed = subprocess.check_output(["ps", "-ww", "-o", "args=", "-p", f"{state.supervisor_pid},{state.child_pid}"])
    assert b"supervisor" in listed
    assert b"s3cret" not in listed
    assert "s3cret" not in machine.log("job") + machine.attempt("job").supervisor_log.read_text()


def test_those_who_look_at_a_free_lock_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path)
    lock = attempt.take_lock()
    assert lock is not None
    assert attempt.is_locked()
    os.close(lock)
    looking = os.open(attempt.lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not attempt.is_locked()
    os.close(looking)


def test_who_waited_for_the_lock_of_an_attempt_that_was_forgotten_does_not_get_the_new_ones(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "job")
    attempt.root.mkdir()
    lock = attempt.take_lock()
    assert lock is not None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(attempt.take_lock, patience_seconds=10)
        until(lambda: _open_files(attempt.lock) == 2)
        attempt.set_aside()
        attempt.root.mkdir()
        os.close(lock)
        assert waiting.result() is None
    new = attempt.take_lock()
    assert new is not None
    os.close(new)


def _open_files(path: Path) -> int:
    """How many file descriptors of this process are open on it."""
    return sum(os.path.realpath(link) == str(path) for link in Path("/proc/self/fd").iterdir())


def test_of_two_orders_under_one_key_the_first_is_kept(machine: Machine) -> None:
    attempt = machine.attempt("job")
    attempt.freeze(machine.shell("job", "first"), environment={}, cgroups=True)
    attempt.freeze(machine.shell("job", "second"), environment={}, cgroups=True)
    assert json.loads(attempt.spec.read_text())["argv"] == ["sh", "-c", "first"]
    assert [path.name for path in attempt.root.iterdir()] == ["spec.json"]


def test_of_orders_that_race_all_see_the_same_one_and_see_it_whole(machine: Machine) -> None:
    racers = 4
    gate = threading.Barrier(racers)

    def freeze(number: int) -> Order:
        attempt = machine.attempt(f"job-{number // racers}")
        gate.wait(timeout=10)
        attempt.freeze(machine.shell("job", f"echo {number}"), environment={}, cgroups=True)
        return attempt.read_order()

    with ThreadPoolExecutor(racers) as pool:
        for first in range(0, 20 * racers, racers):
            assert len({order.argv for order in pool.map(freeze, range(first, first + racers))}) == 1


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "../job", ".hidden", "a b", "x" * 129, "a\n"])
def test_a_key_that_is_no_plain_name_is_refused(machine: Machine, key: str) -> None:
    with pytest.raises(ExecutorError, match="cannot name a program"):
        machine.executor.inspect(key)


def test_a_forgotten_program_is_absent_and_leaves_no_file(machine: Machine) -> None:
    machine.run(machine.shell("job", "exit 0"))
    machine.executor.forget("job")
    assert machine.executor.find() == []
    assert machine.executor.inspect("job").phase is Phase.ABSENT
    assert list(machine.attempts.iterdir()) == []


def test_a_running_program_is_not_forgotten(machine: Machine) -> None:
    machine.executor.launch(machine.shell("job", "exec sleep 600"))
    with pytest.raises(ExecutorError, match="still running"):
        machine.executor.forget("job")
    assert machine.executor.inspect("job").phase is Phase.RUNNING


def test_a_removal_cut_short_is_no_program_and_is_finished_by_the_next(machine: Machine) -> None:
    for key in ("one", "two"):
        machine.run(machine.shell(key, "exit 0"))
    machine.attempt("one").set_aside()
    assert machine.executor.find() == ["two"]
    machine.executor.forget("two")
    assert list(machine.attempts.iterdir()) == []


def test_a_supervisor_that_cannot_read_its_order_is_told_of(machine: Machine) -> None:
    attempt = machine.attempt("job")
    attempt.root.mkdir(parents=True)
    attempt.spec.write_text("{")
    with pytest.raises(ExecutorError, match=r"could not start the program: .*JSONDecodeError"):
        machine.executor.launch(machine.shell("job", "exit 0"))
    until(lambda: not attempt.is_locked())
    machine.executor.forget("job")
