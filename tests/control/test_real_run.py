"""The vertical path without a server: submit, reconcile, the local executor, the real trainer, its diary, the views."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.control.catalog import get_model
from burnish.control.db import Database, sqlite_url
from burnish.control.house import House
from burnish.control.launch import attempt_key
from burnish.control.reconciler import Reconciler
from burnish.control.runs import get_run, list_checkpoints, read_log, read_metrics, stop_run, submit
from burnish.executors.local import LocalExecutor
from burnish.home import Home
from burnish.models.cache import ModelCache
from burnish.run.status import RunStatus
from burnish.wire import RunDetail, SubmitRequest

CONFIG = """
max_steps = {steps}
[ckpt]
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 64
batch_size = 2
[optim]
lr = 2e-5
"""


@pytest.fixture
def house(tmp_path: Path, sqlite_template: Path) -> Iterator[House]:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.database.write_bytes(sqlite_template.read_bytes())
    house = House(home, Database(sqlite_url(home.database)), LocalExecutor(home.attempts), ModelCache(home.models))
    yield house
    for key in house.executor.find():
        house.executor.stop(key, grace_seconds=0)
    house.database.close()


def _follow(house: House, run_id: str, *, until_step: int | None = None, seconds: float = 150) -> RunDetail:
    """Reconcile until the run is over, or at that step."""
    reconciler = Reconciler(house)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reconciler.tick()
        run = get_run(house, run_id)
        if run.status.is_over or (until_step is not None and run.step >= until_step):
            break
        time.sleep(0.05)
    reconciler.release()
    return get_run(house, run_id)


@pytest.mark.slow
def test_one_run_is_stopped_in_the_middle_and_the_next_one_completes(house: House) -> None:
    stopped = submit(house, SubmitRequest(config=CONFIG.format(steps=100_000)))
    completed = submit(house, SubmitRequest(config=CONFIG.format(steps=10)))
    assert _follow(house, stopped.id, until_step=2).status == RunStatus.RUNNING
    assert stopped.id in _waiting_reason(house, completed.id)
    pid = house.executor.inspect(attempt_key(stopped.id, 1)).pid
    assert pid is not None
    stop_run(house, stopped.id)
    begun = time.monotonic()
    run = _follow(house, stopped.id)
    assert (run.status, run.reason) == (RunStatus.STOPPED, "It was stopped on request.")
    assert time.monotonic() - begun < 60
    assert not Path(f"/proc/{pid}").exists()
    assert [each.step for each in list_checkpoints(house, stopped.id).checkpoints] == [run.step]

    run = _follow(house, completed.id)
    assert (run.status, run.reason, run.step) == (RunStatus.COMPLETED, "", 10)
    assert read_metrics(house, run.id).steps == list(range(1, 11))
    assert run.usage.tokens == 10 * 2 * 64
    log = read_log(house, run.id)
    assert log.over and "[SUCCESS] Step 10 |" in log.text
    assert get_model(house, f"ft:burnish/tiny:{run.id}").step == 10


def _waiting_reason(house: House, run_id: str) -> str:
    reconciler = Reconciler(house)
    reconciler.tick()
    reconciler.release()
    return get_run(house, run_id).reason
