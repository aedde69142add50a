"""Real programs under real supervisors, each ended by its own pid."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from burnish.executors.attempt import Attempt, State
from burnish.executors.base import ExitRecord, Phase, Program
from burnish.executors.local import LocalExecutor
from burnish.executors.processes import read_stat

T = TypeVar("T")
PATIENCE_SECONDS = 15.0
ROOT = Path(__file__).parents[2]


def until(look: Callable[[], T], *, what: str = "it") -> T:
    """What `look` answers, once that is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := look()):
        assert time.monotonic() < deadline, f"{what} did not come true in {PATIENCE_SECONDS:g} s"
        time.sleep(0.005)
    return answer


def is_alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.is_zombie


def read_pid(path: Path) -> int:
    """The pid that a program writes to `path`, once it is there."""
    return int(until(lambda: path.exists() and path.read_text().strip(), what=f"a pid in {path.name}"))


@dataclass
class Machine:
    """One attempts root, and the executor that looks after it."""

    folder: Path
    executor: LocalExecutor

    @property
    def attempts(self) -> Path:
        return self.folder / "attempts"

    def shell(self, key: str, script: str, **environment: str) -> Program:
        return Program(key, ("sh", "-c", script), self.folder, environment, self.folder / f"{key}.log")

    def python(self, key: str, script: str) -> Program:
        return Program(key, (sys.executable, "-I", "-S", "-c", script), self.folder, {}, self.folder / f"{key}.log")

    def ending(self, key: str) -> ExitRecord:
        record = until(lambda: self.executor.inspect(key).exit, what=f"the end of {key}")
        assert record is not None
        return record

    def run(self, program: Program) -> ExitRecord:
        self.executor.launch(program)
        return self.ending(program.key)

    def log(self, key: str) -> str:
        return (self.folder / f"{key}.log").read_text()

    def attempt(self, key: str) -> Attempt:
        return Attempt(self.attempts / key)

    def state(self, key: str) -> State:
        state = self.attempt(key).read_state()
        assert state is not None
        return state

    def clear(self) -> None:
        for key in self.executor.find():
            self.executor.stop(key, grace_seconds=0)
        for key in self.executor.find():
            until(lambda key=key: self.executor.inspect(key).phase not in (Phase.STARTING, Phase.RUNNING))
            state = self.attempt(key).read_state()
            self.executor.forget(key)
            assert state is None or state.cgroup is None or not Path(state.cgroup).exists()
