"""`python -m burnish.executors.supervisor ATTEMPT_DIR`: stays with one program until nothing of it is left.

One per attempt. It outlives the server that started it, holds the attempt's lock for life, passes a stop on to the
program, and writes how it ended, last. Knows no executor: what to do is in `spec.json` and in `stop`.
"""

import contextlib
import errno
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from burnish.executors.attempt import MARK, Attempt, Order, State
from burnish.executors.base import ExitRecord
from burnish.executors.cgroup import join_cgroup, kill_cgroup, make_cgroup, out_of_memory_kills, remove_cgroup
from burnish.executors.processes import (
    adopt_orphans,
    all_processes,
    boot_id,
    die_with,
    open_kernel_log,
    started,
    was_killed_for_memory,
)

# Blocked and fetched one by one, so none can arrive between a look and a wait. A terminal's signals are fetched
# to be dropped: ignoring them instead would be inherited by the program.
_SIGNALS = {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
# What a program finds at its default, whatever its launcher or Python had ignored.
_RESET = _SIGNALS | {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2}
_LEFTOVERS_SECONDS = 30.0


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    attempt = Attempt(Path(arguments[0]))
    lock = attempt.take_lock()
    if lock is not None:
        supervise(attempt)
    # The lock is let go by the end of the process and by nothing else.
    return 0


def supervise(attempt: Attempt) -> None:
    """Start the program, wait for its end, end what it left behind, write the record. In that order."""
    order = attempt.read_order()
    attempt.reserve_exit()
    adopt_orphans()
    state = _introduce(order)
    attempt.write_state(state)
    if attempt.read_grace() is not None:
        # A stop that overtook the start: the program is not run at all.
        record, error = ExitRecord(None, signal.SIGTERM, time.time()), ""
    else:
        record, error = _run(attempt, order, state)
    _end_leftovers(_cgroup_of(state))
    _write_exit(attempt, record, error)


def _run(attempt: Attempt, order: Order, state: State) -> tuple[ExitRecord, str]:
    kernel_log = open_kernel_log()
    try:
        child = _start(order, state)
    except OSError as problem:
        return _never_started(order, problem)
    with contextlib.suppress(OSError):  # A full disk costs the reader the pid, not the program its life.
        attempt.write_state(replace(state, child_pid=child, child_started=started(child)))
    return _watch(attempt, child, _cgroup_of(state), kernel_log), ""


def _introduce(order: Order) -> State:
    token = os.urandom(8).hex()
    cgroup = make_cgroup(f"burnish-{token}") if order.cgroups else None
    me = os.getpid()
    begun = started(me)
    assert begun is not None
    return State(boot_id(), me, begun, token, None if cgroup is None else str(cgroup))


def _cgroup_of(state: State) -> Path | None:
    return None if state.cgroup is None else Path(state.cgroup)


def _start(order: Order, state: State) -> int:
    """The pid of the program, once it is more than a copy of us; `OSError` with what could not be had.

    Forked by hand: `subprocess` would reap behind our back, and takes 13 ms to import.
    """
    log = _open_log(order)
    answer, question = os.pipe()
    child = os.fork()
    if child == 0:
        _become(order, state, log, question)
    os.close(question)
    with os.fdopen(answer, "rb") as file:
        problem = file.read()  # Empty when exec closed the other end.
    os.close(log)
    if not problem:
        return child
    os.waitpid(child, 0)
    number, what = problem.decode().split(" ", 1)
    raise OSError(int(number), os.strerror(int(number)), what)


def _become(order: Order, state: State, log: int, question: int) -> NoReturn:
    """In the child: turn into the program. Every file but the standard three closes by itself."""
    what = order.directory
    try:
        os.setsid()
        if state.cgroup is not None:
            # Before anything can be started outside it. Who is not let in does without.
            with contextlib.suppress(OSError):
                join_cgroup(Path(state.cgroup))
        die_with(state.supervisor_pid)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(order.directory)
        what = order.argv[0]
        os.execvpe(order.argv[0], order.argv, {**order.environment, MARK: state.token})
    except OSError as problem:
        os.write(question, f"{problem.errno} {what}".encode())
    except ValueError:  # A NUL in an argument, a `=` in a variable's name.
        os.write(question, f"{errno.EINVAL} {what}".encode())
    finally:
        os._exit(127)


def _open_log(order: Order) -> int:
    log = Path(order.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _never_started(order: Order, problem: OSError) -> tuple[ExitRecord, str]:
    """127 and 126 as a shell has them: not found, and found but not to be run."""
    what = problem.filename or order.argv[0]
    error = f"The program could not be started: {what}: {problem.strerror}."
    with contextlib.suppress(OSError):
        os.write(_open_log(order), f"burnish: {error}\n".encode())
    return ExitRecord(127 if isinstance(problem, FileNotFoundError) else 126, None, time.time()), error


def _watch(attempt: Attempt, child: int, cgroup: Path | None, kernel_log: int | None) -> ExitRecord:
    """Reap until the child itself is among the reaped. SIGTERM starts the grace; a further one can only shorten it."""
    deadline: float | None = None
    asked = killed = False
    while (status := _reap(child)) is None:
        got = _wait_for_signal(deadline)
        if got is None:
            killed, deadline = True, None
            _kill_all(cgroup)
        elif got == signal.SIGTERM and not killed:
            if not asked:
                _signal_group(child, signal.SIGTERM)
                _signal_group(child, signal.SIGCONT)  # one that was paused hears it too
            asked = True
            wished = time.monotonic() + attempt.grace_seconds()
            deadline = wished if deadline is None else min(deadline, wished)
    code = os.waitstatus_to_exitcode(status)
    members_killed = 0 if cgroup is None else out_of_memory_kills(cgroup)
    itself_killed = code == -signal.SIGKILL and not killed and was_killed_for_memory(child, kernel_log)
    return ExitRecord(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        ended_at=time.time(),
        out_of_memory=code != 0 and (members_killed > 0 or itself_killed),
    )


def _reap(child: int) -> int | None:
    """Take in every process that has ended; the wait status of `child` if it is one of them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == child:
                found = ended[1]
    return found


def _wait_for_signal(deadline: float | None) -> int | None:
    if deadline is None:
        return signal.sigwaitinfo(_SIGNALS).si_signo
    got = signal.sigtimedwait(_SIGNALS, max(0.0, deadline - time.monotonic()))
    return None if got is None else got.si_signo


def _signal_group(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)


def _kill_all(cgroup: Path | None) -> None:
    """Kill the cgroup, and every child. Grandchildren come to us as their parents die, and get the next round."""
    if cgroup is not None:
        kill_cgroup(cgroup)
    me = os.getpid()
    for process in list(all_processes()):
        if process.parent == me:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def _end_leftovers(cgroup: Path | None) -> None:
    """Until there is no child left. One that the kernel cannot kill (a hung device) is given up on, and told."""
    deadline = time.monotonic() + _LEFTOVERS_SECONDS
    while _has_children():
        _kill_all(cgroup)
        if time.monotonic() > deadline:
            print("burnish: a process of this program cannot be killed", file=sys.stderr)
            break
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
    if cgroup is not None and not remove_cgroup(cgroup):
        print(f"burnish: {cgroup} cannot be removed", file=sys.stderr)


def _has_children() -> bool:
    """Reaps on the way."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return False
    return True


def _write_exit(attempt: Attempt, record: ExitRecord, error: str) -> None:
    """Without a record the verdict is LOST, which costs the program a repetition: worth a few tries."""
    for pause in (0.1, 0.5, 2.0, 5.0, 0.0):
        try:
            attempt.write_exit(record, error=error)
        except OSError as problem:
            print(f"burnish: the exit record cannot be written: {problem}", file=sys.stderr)
            time.sleep(pause)
        else:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
