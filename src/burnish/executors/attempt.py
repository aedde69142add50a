"""The attempt directory: all that is known of one program, on disk, so that any process can take over.

    <attempts>/<key>/spec.json        what to run, frozen before anything starts (0600: may hold secrets)
                     lock             held by the supervisor for life: a pid can be reused, a lock cannot
                     state.json       who supervises whom; there before the program starts, so its absence
                                      proves that the program never ran
                     stop             how many seconds of grace, once someone asked for an end
                     exit.json        how it ended, written last
                     supervisor.log

The verdict is `sight_of`, a pure function of these files. Nothing here starts or kills anything.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from burnish.executors.base import ExitRecord, Phase, Program, Sight

_DEFAULT_GRACE_SECONDS = 30.0
_LONGEST_GRACE_SECONDS = 365 * 86_400.0
_EXIT_BYTES = 4096
_ERROR_LETTERS = 256


@dataclass(frozen=True)
class Order:
    """`spec.json`: a program with nothing left to look up."""

    argv: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]
    """All of it, not only what the caller added."""
    log: str
    cgroups: bool
    """False: do without, as where none can be made."""


@dataclass(frozen=True)
class State:
    """`state.json`."""

    boot_id: str
    supervisor_pid: int
    supervisor_started: int
    token: str
    """In the environment of everything that the program starts, as `MARK=token`."""
    cgroup: str | None
    child_pid: int | None = None
    child_started: int | None = None


MARK = "BURNISH_ATTEMPT"
FORGOTTEN = ".forgotten-"


@dataclass(frozen=True)
class Evidence:
    is_frozen: bool
    state: State | None
    is_locked: bool
    exit: ExitRecord | None
    boot_id: str
    """Of the machine as it runs now."""


def sight_of(evidence: Evidence) -> Sight:
    """The verdict. LOST here means that no supervisor is left; what the program left behind may still run."""
    state = evidence.state
    if evidence.exit is not None:
        return Sight(Phase.EXITED, evidence.exit)
    if state is None:
        return Sight(Phase.STARTING if evidence.is_locked and evidence.is_frozen else Phase.ABSENT)
    if state.boot_id != evidence.boot_id or not evidence.is_locked:
        return Sight(Phase.LOST)
    if state.child_pid is None:
        return Sight(Phase.STARTING)
    return Sight(Phase.RUNNING, pid=state.child_pid)


@dataclass(frozen=True)
class Attempt:
    """The directory of one attempt, which need not be there yet."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "spec.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def stop(self) -> Path:
        return self.root / "stop"

    @property
    def exit(self) -> Path:
        return self.root / "exit.json"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    def look(self, boot_id: str) -> Evidence:
        """Everything `sight_of` asks for.

        The order closes a race. State, then lock: a state seen with the lock free means a supervisor that ended,
        never one that is starting. Lock, then exit: one that ended before we tried the lock had written its record.
        """
        is_frozen = self.spec.exists()
        state = self.read_state()
        is_locked = self.is_locked()
        return Evidence(is_frozen, state, is_locked, self.read_exit(), boot_id)

    def freeze(self, program: Program, *, environment: Mapping[str, str], cgroups: bool) -> None:
        """Write `spec.json`, unless it is there: of two that race, the first is obeyed."""
        directory, log = str(program.directory.absolute()), str(program.log.absolute())
        order = Order(program.argv, directory, dict(environment), log, cgroups)
        self.root.parent.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)
        if self.spec.exists():
            return
        temporary = self._temporary(self.spec)
        try:
            _write_synced(temporary, json.dumps(asdict(order)).encode())
            # A link, not a rename: it refuses where a rename would replace.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self.spec)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(self.root)

    def read_order(self) -> Order:
        values = json.loads(self.spec.read_text())
        return Order(**values | {"argv": tuple(values["argv"])})

    def is_locked(self) -> bool:
        """Whether a supervisor lives. Looks with a shared lock, so that two who look do not see each other."""
        try:
            file = os.open(self.lock, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(file)

    def take_lock(self, *, patience_seconds: float = 2.0, begun_too: bool = False) -> int | None:
        """The lock's file descriptor, to be kept open; None where it is another's, or the directory is gone.

        `begun_too=False` is for who means to start the program: an attempt with a state has been started, and its
        lock is not even waited for. Patience is for those who merely look, and hold it for microseconds.
        """
        deadline = time.monotonic() + patience_seconds
        try:
            file = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return None
        while not _try_lock(file):
            if time.monotonic() > deadline or (not begun_too and self.state.exists()):
                os.close(file)
                return None
            time.sleep(0.005)
        if self._is_lock(file) and (begun_too or not (self.state.exists() or self.exit.exists())):
            return file
        os.close(file)
        return None

    def read_state(self) -> State | None:
        try:
            return State(**json.loads(self.state.read_text()))
        except FileNotFoundError:
            return None

    def write_state(self, state: State) -> None:
        self._write_whole(self.state, asdict(state))

    def ask_to_stop(self, grace_seconds: float) -> None:
        self._write_whole(self.stop, {"grace_seconds": grace_seconds})

    def read_grace(self) -> float | None:
        """Seconds of grace as last asked for; None where no one has asked."""
        try:
            return float(json.loads(self.stop.read_text())["grace_seconds"])
        except FileNotFoundError:
            return None

    def grace_seconds(self) -> float:
        grace = self.read_grace()
        return _DEFAULT_GRACE_SECONDS if grace is None else min(max(0.0, grace), _LONGEST_GRACE_SECONDS)

    def reserve_exit(self) -> None:
        """Take the room for the exit record while there is some, so that a disk the program filled can hold it."""
        _write_synced(self._reserved_exit, b" " * _EXIT_BYTES)

    def write_exit(self, record: ExitRecord, *, error: str = "") -> None:
        """The verdict, over the room that was reserved. `error` says why the program could not be started."""
        text = json.dumps(asdict(record) | {"error": error[:_ERROR_LETTERS]}).encode()
        file = os.open(self._reserved_exit, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, text.ljust(_EXIT_BYTES), 0)
            os.fsync(file)
        finally:
            os.close(file)
        self._reserved_exit.replace(self.exit)
        _sync_directory(self.root)

    def read_exit(self) -> ExitRecord | None:
        values = self._read_exit_values()
        if values is None:
            return None
        return ExitRecord(values["exit_code"], values["signal"], values["ended_at"], values["out_of_memory"])

    def read_start_error(self) -> str:
        values = self._read_exit_values()
        return "" if values is None else str(values["error"])

    def set_aside(self) -> Path:
        """Give it a name that is no key's, to be removed under: a removal cut short must not look like an attempt
        that was not started yet.
        """
        return self.root.rename(self.root.with_name(f"{FORGOTTEN}{self.root.name}-{os.urandom(4).hex()}"))

    @property
    def _reserved_exit(self) -> Path:
        return self.exit.with_name("exit.json.reserved")

    def _read_exit_values(self) -> dict[str, Any] | None:
        try:
            return json.loads(self.exit.read_text())
        except FileNotFoundError:
            return None

    def _is_lock(self, file: int) -> bool:
        # An attempt may be forgotten, and even made anew, while we waited for the lock of the old one.
        try:
            return os.path.samestat(os.fstat(file), self.lock.stat())
        except FileNotFoundError:
            return False

    def _write_whole(self, path: Path, values: Mapping[str, object]) -> None:
        temporary = self._temporary(path)
        try:
            _write_synced(temporary, json.dumps(values).encode())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(self.root)

    def _temporary(self, path: Path) -> Path:
        return path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_synced(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
