"""What the machine is said to have. The driver's tool is a real program here, only not NVIDIA's."""

import os
from pathlib import Path

import pytest

from burnish.executors.base import Slot
from burnish.executors.devices import environment_for, find_slots

TWO_GPUS = "0, NVIDIA H200, 143771, GPU-aaaa\n1, NVIDIA H200, 143771, GPU-bbbb\n"
H200 = [Slot("cuda", "NVIDIA H200", 143771 * 1024**2, index) for index in (0, 1)]
UNIFIED = "0, NVIDIA GB10, [N/A], GPU-cccc\n"


def _machine_that_says(folder: Path, text: str, *, code: int = 0, **environment: str) -> dict[str, str]:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
    tool.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", **environment}


def test_each_gpu_that_the_driver_lists_is_a_slot(tmp_path: Path) -> None:
    assert find_slots(_machine_that_says(tmp_path, TWO_GPUS)) == H200


@pytest.mark.parametrize(
    ("visible", "left"),
    [("1", H200[1:]), ("0,1", H200), ("GPU-aaaa", H200[:1]), (" 1 , 0", H200)],
)
def test_only_gpus_that_the_server_may_see_are_offered(tmp_path: Path, visible: str, left: list[Slot]) -> None:
    assert find_slots(_machine_that_says(tmp_path, TWO_GPUS, CUDA_VISIBLE_DEVICES=visible)) == left


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_a_server_that_may_see_no_gpu_offers_its_cpu(tmp_path: Path, visible: str) -> None:
    slots = find_slots(_machine_that_says(tmp_path, TWO_GPUS, CUDA_VISIBLE_DEVICES=visible))
    assert [slot.kind for slot in slots] == ["cpu"]


def test_a_driver_that_does_not_answer_leaves_the_cpu(tmp_path: Path) -> None:
    failing = _machine_that_says(tmp_path, "NVIDIA-SMI has failed because it couldn't communicate\n", code=9)
    assert [slot.kind for slot in find_slots(failing)] == ["cpu"]


def test_a_machine_without_gpus_is_one_cpu_slot_and_says_so(tmp_path: Path) -> None:
    (slot,) = find_slots({"PATH": str(tmp_path)})
    cores = len(os.sched_getaffinity(0))
    assert slot.kind == "cpu"
    assert slot.name in (f"CPU, {cores} cores", f"CPU, {cores} core")
    assert 0 < slot.memory_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_gpu_without_memory_of_its_own_has_the_machines(tmp_path: Path) -> None:
    (gpu,) = find_slots(_machine_that_says(tmp_path, UNIFIED))
    (cpu,) = find_slots({"PATH": str(tmp_path / "nothing")})
    assert (gpu.kind, gpu.memory_bytes) == ("cuda", cpu.memory_bytes)


def test_a_program_sees_its_gpus_in_the_drivers_order_and_no_other() -> None:
    assert environment_for((1,), H200) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}
    assert environment_for((0, 1), H200)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert environment_for((), H200)["CUDA_VISIBLE_DEVICES"] == ""


def test_on_a_machine_without_gpus_nothing_is_set() -> None:
    assert environment_for((0,), [Slot("cpu", "CPU, 2 cores", 1, 0)]) == {}
