"""A cgroup (version 2) around one program: the only thing that nothing the program starts can leave.

Controllers are not needed; naming, counting and killing all members work without any. Where no cgroup can be
made, `make_cgroup` says so and the caller has to do with sessions.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path


def make_cgroup(name: str) -> Path | None:
    """A new, empty cgroup; None where there is none to be had.

    It proves little: a threaded parent or a half-delegated tree still refuses members, which `join_cgroup` tells.
    """
    for parent in _places():
        cgroup = parent / name
        with contextlib.suppress(OSError):
            cgroup.mkdir()
            return cgroup
    return None


def join_cgroup(cgroup: Path) -> None:
    """Move this process in; `OSError` where that is refused."""
    _tell(cgroup / "cgroup.procs", "0")


def kill_cgroup(cgroup: Path) -> None:
    """SIGKILL to every member, at once. A cgroup that is gone is fine."""
    try:
        _tell(cgroup / "cgroup.kill", "1")
    except FileNotFoundError:
        # Linux before 5.14 has no cgroup.kill. A member may fork meanwhile, so the caller repeats until it is empty.
        for pid in _members(cgroup):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def remove_cgroup(cgroup: Path, *, patience_seconds: float = 1.0) -> bool:
    """Kill what is in it and take it away. False where a member would not die in time."""
    deadline = time.monotonic() + patience_seconds
    while True:
        kill_cgroup(cgroup)
        try:
            cgroup.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        else:
            return True


def out_of_memory_kills(cgroup: Path) -> int:
    """How many members the kernel killed for memory; 0 where the memory controller is not there to say."""
    try:
        text = (cgroup / "memory.events").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


def _places() -> Iterator[Path]:
    """Where this process may hope to make one: in its own cgroup, or at the top of what it is shown."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    own = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    for mount in (Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"):
        yield from dict.fromkeys([*(mount / path.lstrip("/") for path in own), mount])


def _tell(file: Path, text: str) -> None:
    # Without O_CREAT, so that a file the kernel does not have is missing and not forbidden.
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _members(cgroup: Path) -> list[int]:
    try:
        return [int(line) for line in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:
        return []
