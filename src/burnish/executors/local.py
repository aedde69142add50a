"""Programs on this machine, each under a supervisor of its own that outlives whoever launched it.

All that is known is in the attempt directories, so a new `LocalExecutor` on the same root goes on where the last
one was cut off, and two at once do not disturb each other. Linux only: it needs /proc, pidfd and flock. Where
systemd runs the server, its unit needs `KillMode=process`, or systemd ends the programs with it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from burnish.errors import ExecutorError
from burnish.executors.attempt import FORGOTTEN, MARK, Attempt, State, sight_of
from burnish.executors.base import Phase, Program, Sight, Slot
from burnish.executors.cgroup import remove_cgroup
from burnish.executors.devices import environment_for, find_slots
from burnish.executors.processes import Stat, all_processes, boot_id, carries, read_stat, send

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_START_SECONDS = 5.0
_KILL_SECONDS = 2.0


class LocalExecutor:
    """`environment` is what programs inherit. `cgroups=False` does without them, as where none can be made."""

    name = "local"

    def __init__(
        self, attempts_root: Path, environment: Mapping[str, str] | None = None, *, cgroups: bool = True
    ) -> None:
        self._root = attempts_root.absolute()
        self._environment = dict(os.environ if environment is None else environment)
        self._cgroups = cgroups
        self._boot_id = boot_id()
        self._slots: list[Slot] | None = None

    def capacity(self) -> list[Slot]:
        """The driver is asked once: it takes seconds where GPUs are asleep."""
        if self._slots is None:
            self._slots = find_slots(self._environment)
        return list(self._slots)

    def launch(self, program: Program) -> None:
        attempt = self._attempt(program.key)
        environment = {**self._environment, **program.environment, **environment_for(program.slots, self.capacity())}
        try:
            attempt.freeze(program, environment=environment, cgroups=self._cgroups)
        except OSError as problem:
            raise ExecutorError(
                f"{program.key} could not be written down in {self._root}: {problem.strerror}.",
                hint="Make room there, or see that the server may write to it.",
            ) from problem
        # Frozen but never started is a launch that was cut off in between: starting it now repairs that.
        phase = sight_of(attempt.look(self._boot_id)).phase
        self._wait_for_start(attempt, _start_supervisor(attempt) if phase is Phase.ABSENT else None)
        if error := attempt.read_start_error():
            raise ExecutorError(error, hint="Look at the command and at the folder that it starts in.")

    def find(self) -> list[str]:
        try:
            entries = list(self._root.iterdir())
        except FileNotFoundError:
            return []
        return sorted(entry.name for entry in entries if _KEY.fullmatch(entry.name) and Attempt(entry).spec.exists())

    def inspect(self, key: str) -> Sight:
        """LOST is said only when nothing of the program is left: its leftovers are killed here, and until the last
        one is dead the answer is RUNNING without a pid.
        """
        evidence = self._attempt(key).look(self._boot_id)
        sight = sight_of(evidence)
        if sight.phase is Phase.LOST and evidence.state is not None and evidence.state.boot_id == self._boot_id:
            return sight if _end_leftovers(evidence.state) else Sight(Phase.RUNNING)
        return sight

    def stop(self, key: str, *, grace_seconds: float = 30) -> None:
        attempt = self._attempt(key)
        evidence = attempt.look(self._boot_id)
        if not evidence.is_frozen or sight_of(evidence).phase in (Phase.EXITED, Phase.LOST):
            return
        problem = _write_request(attempt, grace_seconds)
        # Written before the state is read, as the supervisor writes its state before it looks for a request: one of
        # the two sees the other.
        state = attempt.read_state()
        if state is not None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # one that was paused hears it too
                send(state.supervisor_pid, number, started_at=state.supervisor_started)
        elif problem is not None:
            raise ExecutorError(f"{key} cannot be stopped: {problem.strerror}.", hint="Make room on the disk.")

    def forget(self, key: str) -> None:
        attempt = self._attempt(key)
        if not attempt.root.exists():
            return
        if self.inspect(key).phase in (Phase.STARTING, Phase.RUNNING):
            raise ExecutorError(f"{key} is still running.", hint="Stop it first.")
        # With the lock in hand, no supervisor can begin, and the one that wrote the exit record is gone.
        lock = attempt.take_lock(begun_too=True)
        if lock is None:
            raise ExecutorError(f"{key} is just being started.", hint="Stop it first.")
        try:
            attempt.set_aside()
        finally:
            os.close(lock)
        # With those whose removal was cut short before.
        for aside in self._root.glob(f"{FORGOTTEN}*"):
            shutil.rmtree(aside, ignore_errors=True)

    def _attempt(self, key: str) -> Attempt:
        if _KEY.fullmatch(key) is None:
            raise ExecutorError(f"{key!r} cannot name a program.", hint="Use letters, digits, '.', '_' and '-'.")
        return Attempt(self._root / key)

    def _wait_for_start(self, attempt: Attempt, supervisor: subprocess.Popen[bytes] | None) -> None:
        """Until the program runs, under this supervisor or under one that was quicker."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            # Asked first: what it has written by then is looked at afterwards.
            has_ended = supervisor is not None and supervisor.poll() is not None
            phase = sight_of(attempt.look(self._boot_id)).phase
            if phase not in (Phase.ABSENT, Phase.STARTING):
                return
            if phase is Phase.ABSENT and has_ended:
                raise ExecutorError(f"The supervisor could not start the program: {_last_line(attempt)}")
            if time.monotonic() > deadline:
                break
            time.sleep(0.005)
        if phase is Phase.ABSENT and supervisor is not None:
            supervisor.kill()
            raise ExecutorError(
                f"The supervisor did not start within {_START_SECONDS:g} seconds.",
                hint="The machine may be overloaded; launching again is safe.",
            )


def _start_supervisor(attempt: Attempt) -> subprocess.Popen[bytes]:
    """In a session of its own, with no file of ours, so that neither Ctrl-C nor our end reaches it."""
    log = os.open(attempt.supervisor_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        supervisor = subprocess.Popen(
            # -P: the folder it starts in must not be able to bring a `burnish` of its own.
            [sys.executable, "-P", "-m", "burnish.executors.supervisor", str(attempt.root)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    # While we live we are its parent, and no one else can take it in when it ends.
    threading.Thread(target=supervisor.wait, name=f"reap {attempt.root.name}", daemon=True).start()
    return supervisor


def _write_request(attempt: Attempt, grace_seconds: float) -> OSError | None:
    """On a full disk the request cannot be kept; the signal alone then means the default grace."""
    try:
        attempt.ask_to_stop(grace_seconds)
    except OSError as problem:
        return problem
    return None


def _end_leftovers(state: State) -> bool:
    """Kill what a dead supervisor left behind; whether all of it is gone."""
    deadline = time.monotonic() + _KILL_SECONDS
    if state.cgroup is not None and not remove_cgroup(Path(state.cgroup), patience_seconds=_KILL_SECONDS):
        return False
    while left := _leftovers(state):
        for process in left:
            send(process.pid, signal.SIGKILL, started_at=process.started)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _leftovers(state: State) -> list[Stat]:
    """Live processes that carry the attempt's mark, or sit in the session that its program led."""
    session = state.child_pid if _owns_session(state) else None
    mark = f"{MARK}={state.token}"
    return [
        process
        for process in all_processes()
        if not process.is_zombie
        and process.started >= state.supervisor_started
        and (process.session == session or carries(process.pid, mark))
    ]


def _owns_session(state: State) -> bool:
    """False where the session's number went to someone else after the program's session had died out."""
    if state.child_pid is None:
        return False
    leader = read_stat(state.child_pid)
    return leader is None or leader.started == state.child_started


def _last_line(attempt: Attempt) -> str:
    lines = attempt.supervisor_log.read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")
