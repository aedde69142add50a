"""The cgroup around a program, on the real file system of cgroups."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from burnish.executors.cgroup import kill_cgroup, make_cgroup, out_of_memory_kills, remove_cgroup


@pytest.fixture
def cgroup() -> Path:
    cgroup = make_cgroup(f"burnish-test-{os.getpid()}")
    if cgroup is None:
        pytest.skip("no cgroup can be made here")
    return cgroup


def test_removing_a_cgroup_kills_its_members_and_may_be_repeated(cgroup: Path) -> None:
    member = subprocess.Popen(["sh", "-c", f"echo 0 > {cgroup}/cgroup.procs; echo in; exec sleep 600"], stdout=-1)
    assert member.stdout is not None
    assert member.stdout.readline() == b"in\n"
    assert remove_cgroup(cgroup)
    assert member.wait() == -signal.SIGKILL
    member.stdout.close()
    assert not cgroup.exists()
    assert remove_cgroup(cgroup)
    kill_cgroup(cgroup)
    assert out_of_memory_kills(cgroup) == 0


def test_a_kernel_without_cgroup_kill_has_its_members_killed_one_by_one(tmp_path: Path) -> None:
    # A plain folder shows what such a kernel shows: the list of members, and no file to kill them by.
    members = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    (tmp_path / "cgroup.procs").write_text("".join(f"{member.pid}\n" for member in members))
    kill_cgroup(tmp_path)
    assert [member.wait() for member in members] == [-signal.SIGKILL] * 2
    assert not (tmp_path / "cgroup.kill").exists()


def test_kills_for_memory_are_counted_where_the_controller_tells(tmp_path: Path) -> None:
    events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
    (tmp_path / "memory.events").write_text(events)
    assert out_of_memory_kills(tmp_path) == 2
