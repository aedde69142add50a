"""What every executor promises, kept by the real one and by the fake."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_programs import until

from burnish.errors import ExecutorError
from burnish.executors.base import Executor, Phase, Program
from burnish.executors.local import LocalExecutor
from burnish.executors.scripted import ABSENT, LOST, RUNNING, STARTING, Scripted, exited

ENDS = ("sh", "-c", "exit 3")
STAYS = ("sleep", "600")
Launch = Callable[[str, tuple[str, ...]], None]


@pytest.fixture(params=["local", "scripted"])
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Executor]:
    if request.param == "scripted":
        yield Scripted({"ends": [STARTING, RUNNING, exited(3)]}, after_stop=[RUNNING, exited(signal=15)])
        return
    local = LocalExecutor(tmp_path / "attempts")
    yield local
    for key in local.find():
        local.stop(key, grace_seconds=0)
        until(lambda key=key: local.inspect(key).phase not in (Phase.STARTING, Phase.RUNNING))


@pytest.fixture
def launch(executor: Executor, tmp_path: Path) -> Launch:
    return lambda key, argv: executor.launch(Program(key, argv, tmp_path, {}, tmp_path / "log"))


def test_an_unknown_key_is_absent_and_may_be_stopped_and_forgotten(executor: Executor) -> None:
    assert executor.inspect("job") == ABSENT
    executor.stop("job")
    executor.forget("job")
    assert executor.inspect("job") == ABSENT
    assert executor.find() == []


def test_a_program_ends_with_its_own_exit_code(executor: Executor, launch: Launch) -> None:
    launch("ends", ENDS)
    record = until(lambda: executor.inspect("ends").exit)
    assert record is not None
    assert (record.exit_code, record.signal) == (3, None)
    assert executor.inspect("ends").exit == record


def test_a_running_program_has_a_pid_and_no_record(executor: Executor, launch: Launch) -> None:
    launch("stays", STAYS)
    sight = executor.inspect("stays")
    assert (sight.phase, sight.exit) == (Phase.RUNNING, None)
    assert sight.pid is not None


def test_a_stopped_program_ends_once(executor: Executor, launch: Launch) -> None:
    launch("stays", STAYS)
    executor.stop("stays")
    record = until(lambda: executor.inspect("stays").exit)
    assert record is not None
    assert record.signal == 15
    executor.stop("stays")
    assert executor.inspect("stays").exit == record


def test_known_keys_are_listed_until_forgotten(executor: Executor, launch: Launch) -> None:
    launch("stays", STAYS)
    launch("ends", ENDS)
    until(lambda: executor.inspect("ends").exit)
    assert executor.find() == ["ends", "stays"]
    with pytest.raises(ExecutorError, match="still running"):
        executor.forget("stays")
    executor.forget("ends")
    assert executor.find() == ["stays"]


def test_there_is_a_slot(executor: Executor) -> None:
    assert executor.capacity() == executor.capacity() != []


def _program(key: str) -> Program:
    return Program(key, ("true",), Path("/"), {}, Path("/dev/null"))


def test_the_fake_starts_a_key_once_and_remembers_what_it_was_asked() -> None:
    fake = Scripted()
    for key in ("a", "a", "b"):
        fake.launch(_program(key))
    fake.stop("a", grace_seconds=5)
    fake.stop("unknown")
    assert [program.key for program in fake.launched] == ["a", "b"]
    assert fake.stopped == [("a", 5)]


def test_the_fake_can_be_told_later_what_becomes_of_a_key() -> None:
    fake = Scripted()
    fake.tell("later", STARTING, exited(1))
    for key in ("now", "later"):
        fake.launch(_program(key))
    assert fake.inspect("now") == RUNNING
    fake.tell("now", LOST)
    assert [fake.inspect("now"), fake.inspect("now")] == [LOST, LOST]
    assert [fake.inspect("later"), fake.inspect("later"), fake.inspect("later")] == [STARTING, exited(1), exited(1)]


def test_the_fake_refuses_to_launch_while_told_so() -> None:
    fake = Scripted()
    fake.refusal = "The machine is on fire."
    with pytest.raises(ExecutorError, match="on fire"):
        fake.launch(_program("a"))
    assert fake.inspect("a") == ABSENT
    fake.refusal = None
    fake.launch(_program("a"))
    assert fake.find() == ["a"]
