from collections.abc import Iterator
from pathlib import Path

import pytest
from real_programs import Machine

from burnish.executors.cgroup import make_cgroup, remove_cgroup
from burnish.executors.local import LocalExecutor


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, LocalExecutor(tmp_path / "attempts"))
    yield machine
    machine.clear()


@pytest.fixture(params=["cgroup", "no cgroup"])
def each_machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """With the cgroup that this machine offers, and as where there is none."""
    if request.param == "cgroup":
        probe = make_cgroup("burnish-test-probe")
        if probe is None:
            pytest.skip("no cgroup can be made here: not root, and no part of the tree is delegated")
        remove_cgroup(probe)
    machine = Machine(tmp_path, LocalExecutor(tmp_path / "attempts", cgroups=request.param == "cgroup"))
    yield machine
    machine.clear()
