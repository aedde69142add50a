"""The machine under the trainer: cores, memory, names, and the settings that must be made before torch loads.

Knows nothing of torch, so it can be asked first.
"""

import ctypes
import ctypes.util
import logging
import os
import resource
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def settle_process(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make waiting and memory cheap. Has to come before torch is imported: libgomp reads its variables once.

    Measured on two cores: spinning OpenMP threads halve the speed as soon as a neighbour wants a core, and an
    allocator that gives memory back pays a page fault for every activation of every layer, 12 to 18 %.
    """
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    environment.setdefault("OMP_NUM_THREADS", str(cores()))
    environment.setdefault("HF_HUB_OFFLINE", "1")
    environment.setdefault("TOKENIZERS_PARALLELISM", "true")
    # bitsandbytes warns of a CPU kernel that only generation would use.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    _keep_memory()


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(environment: MutableMapping[str, str] = os.environ) -> int:
    """Threads to compute with: all cores, unless `OMP_NUM_THREADS` says otherwise."""
    named = environment.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(named) if named.isdigit() and int(named) else cores()


def device_name(device: Literal["cpu", "cuda"]) -> str:
    """`CPU, 2 threads`, or the first GPU's name as its driver tells it."""
    if device == "cpu":
        count = threads()
        return f"CPU, {count} thread{'s' if count > 1 else ''}"
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in information.read_text().splitlines():
            if line.startswith("Model:"):
                return f"{line.partition(':')[2].strip()} x 1"
    return "CUDA GPU x 1"


def memory_bytes() -> int:
    """Main memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory_bytes() -> int:
    """Main memory that may still be taken: what the kernel calls available, or what the cgroup leaves of its limit."""
    free = memory_bytes()
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    with suppress(OSError, ValueError, StopIteration):  # no cgroup of version 2, or no limit: "max"
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        group = Path("/sys/fs/cgroup") / next(line for line in lines if line.startswith("0::")).split("::/")[1]
        limit, used = ((group / name).read_text() for name in ("memory.max", "memory.current"))
        free = min(free, int(limit) - int(used))
    return max(0, free)


def peak_memory_bytes() -> int:
    """The most main memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _keep_memory() -> None:
    """Tell glibc never to return memory; other C libraries have no such switch and are left alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_TOP_PAD, 64 * 2**20)
