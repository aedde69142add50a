"""Starts programs on machines and tells what became of them. Knows nothing of training."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True)
class Slot:
    """One device that one program may have to itself."""

    kind: Literal["cpu", "cuda"]
    name: str
    """As a person would say it: `NVIDIA H200`, `CPU, 2 cores`."""
    memory_bytes: int
    index: int
    """What `Program.slots` says to have it."""


@dataclass(frozen=True)
class Program:
    """What to run. The key is the caller's name for it, and names one start for ever."""

    key: str
    argv: tuple[str, ...]
    directory: Path
    """Where it starts."""
    environment: Mapping[str, str]
    """Laid over the executor's own. Values may be secrets: they are neither logged nor put on a command line."""
    log: Path
    """Everything it prints is appended here."""
    slots: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExitRecord:
    """How a program ended: by itself with `exit_code`, or by `signal`; the other one is None."""

    exit_code: int | None
    signal: int | None
    ended_at: float
    """Seconds since 1970."""
    out_of_memory: bool = False
    """The kernel killed it for memory, and the kernel said so. False where nobody knows."""


class Phase(StrEnum):
    ABSENT = "ABSENT"
    """Never started under this key, or forgotten. Launching it is safe."""
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    """It ended, nothing of it is left, and its exit record is there."""
    LOST = "LOST"
    """It was started, nothing of it is left, and nobody can say how it ended."""


@dataclass(frozen=True)
class Sight:
    """What was seen of one program."""

    phase: Phase
    exit: ExitRecord | None = None
    pid: int | None = None
    """The program's own process, while it runs."""


class Executor(Protocol):
    """The seam to machines. Every verb may be repeated, and every one works after the caller was restarted."""

    name: str

    def capacity(self) -> list[Slot]:
        """Which devices are there, busy or not?"""
        ...

    def launch(self, program: Program) -> None:
        """Is it started? Yes on return; a key that was started before, by anybody, is left alone.

        `ExecutorError` where it cannot be started; the sentence is fit for the user.
        """
        ...

    def find(self) -> list[str]:
        """Which keys are known, running or ended, and not forgotten?"""
        ...

    def inspect(self, key: str) -> Sight:
        """What is it doing, or how did it end?"""
        ...

    def stop(self, key: str, *, grace_seconds: float = 30) -> None:
        """Will it end? Asked politely now (SIGTERM), killed with all it started after the grace, also when the
        caller is gone by then. Returns at once; a later call may shorten the grace. An ended or unknown key is fine.
        """
        ...

    def forget(self, key: str) -> None:
        """May its records go? `ExecutorError` while it runs; an unknown key is fine."""
        ...
