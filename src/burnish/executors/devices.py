"""Which devices this machine has: its CUDA GPUs where the driver answers, else its CPU as one slot."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from burnish.executors.base import Slot

_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index,name,memory.total,uuid", "--format=csv,noheader,nounits")
_PATIENCE_SECONDS = 20
_MIB = 1024**2


def find_slots(environment: Mapping[str, str]) -> list[Slot]:
    """What programs may use. `CUDA_VISIBLE_DEVICES` in `environment` narrows it, as it does for every CUDA program."""
    return _find_gpus(environment) or [_cpu()]


def environment_for(slots: tuple[int, ...], offered: list[Slot]) -> dict[str, str]:
    """What makes a program see the slots it was given and no other. On a machine without GPUs, nothing."""
    if all(slot.kind == "cpu" for slot in offered):
        return {}
    return {
        # CUDA counts the fastest device first unless told; the driver's own tool counts by bus.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(str(slot) for slot in slots),
    }


def _find_gpus(environment: Mapping[str, str]) -> list[Slot]:
    try:
        # PATH is looked up in what is passed, so an executor told of another PATH asks that one.
        told = subprocess.run(
            _NVIDIA_SMI, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True, env=dict(environment)
        )
    except (OSError, subprocess.SubprocessError):
        return []
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    wanted = None if visible is None else {name.strip() for name in visible.split(",")}
    found = [_read_gpu(line) for line in told.stdout.splitlines() if line.count(",") >= 3]
    return [slot for slot, uuid in found if wanted is None or {str(slot.index), uuid} & wanted]


def _read_gpu(line: str) -> tuple[Slot, str]:
    """`0, NVIDIA H200, 143771, GPU-5f3c...`"""
    index, name, memory, uuid = (field.strip() for field in line.split(",", maxsplit=3))
    # A device that shares the machine's memory has no number of its own: `[N/A]`.
    memory_bytes = int(memory) * _MIB if memory.isdigit() else _memory_bytes()
    return Slot("cuda", name, memory_bytes, int(index)), uuid


def _cpu() -> Slot:
    cores = len(os.sched_getaffinity(0))
    return Slot("cpu", f"CPU, {cores} core{'s' if cores > 1 else ''}", _memory_bytes(), 0)


def _memory_bytes() -> int:
    """The machine's memory, or the share of it that a container's limit leaves."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (_read_limit(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory/memory.limit_in_bytes"))
    return min([machine, *(limit for limit in limits if limit)])


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
