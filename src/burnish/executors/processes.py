"""What Linux tells of processes, read so that a reused pid cannot fool. Knows no attempt and no executor."""

import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""Fixed by the kernel (PROC_PID_INIT_INO)."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Stat:
    """A process in `/proc/<pid>/stat`."""

    pid: int
    is_zombie: bool
    parent: int
    session: int
    started: int
    """Clock ticks since boot. With the pid and the boot id it names a process for ever."""


def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_stat(pid: int) -> Stat | None:
    """None where no such process is."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # `17 (a name) with ) in it) S 1 ...`: fields are counted from the last bracket.
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(pid, fields[0] in "ZX", int(fields[1]), int(fields[3]), int(fields[19]))


def started(pid: int) -> int | None:
    stat = read_stat(pid)
    return None if stat is None else stat.started


def all_processes() -> Iterator[Stat]:
    for entry in os.listdir(_PROC):  # noqa: PTH208 - only names are wanted
        if entry.isdigit() and (stat := read_stat(int(entry))) is not None:
            yield stat


def carries(pid: int, variable: str) -> bool:
    """Whether the process was started with `NAME=value` in its environment; False where one may not look."""
    try:
        return variable.encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def send(pid: int, number: int, *, started_at: int) -> bool:
    """Signal the process that had `pid` since `started_at`, and no other. False where it is gone.

    The handle is opened first and compared afterwards, so the pid cannot change hands in between.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if started(pid) != started_at:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def adopt_orphans() -> None:
    """From now on, descendants whose parent dies become this process's children, not init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Called in a fresh child: SIGKILL when its parent dies, also when that has happened already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def open_kernel_log() -> int | None:
    """A file descriptor that reads what the kernel says from now on; None where it may not be read."""
    if str((_PROC / "self/ns/pid").readlink()) != _FIRST_PID_NAMESPACE:
        return None  # The log counts pids as the machine does; in a container the same number is someone else.
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    os.lseek(log, 0, os.SEEK_END)
    return log


def was_killed_for_memory(pid: int, log: int | None) -> bool:
    """Whether the kernel said since `log` was opened that it killed this pid for memory."""
    sentence = f"Killed process {pid} (".encode()
    return log is not None and any(sentence in line for line in _kernel_lines(log))


def _kernel_lines(log: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(log, 8192)
        except BrokenPipeError:
            continue  # A line was overwritten before we came to it.
        except BlockingIOError:
            return
