"""A new run that goes on from a checkpoint of one that has ended."""

import pytest
from control_bench import Bench

from burnish.control.lookup import find_run
from burnish.control.private import read_environment
from burnish.control.runs import resume_run, submit
from burnish.control.tables import RunRow
from burnish.control.views import read_spec
from burnish.errors import BurnishError, NotFound, PlanError, RunError
from burnish.run.status import RunStatus
from burnish.wire import ResumeRequest, SubmitRequest

CONFIG = """
max_steps = 10
[ckpt]
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 64
batch_size = 2
[env_vars]
HF_TOKEN = "hf_abcdefghijklmnopqrstuvwxyz012345"
"""


@pytest.fixture
def ended(bench: Bench) -> str:
    """A stopped run with whole checkpoints of steps 2 and 4, and half of one of step 6."""
    bench.house.models.add("burnish/tiny")
    run = submit(bench.house, SubmitRequest(config=CONFIG, name="first"))
    _end(bench, run.id)
    for step in (2, 4, 6):
        bench.directory(run.id).checkpoint(step).trainer.mkdir(parents=True)
        if step != 6:
            bench.directory(run.id).checkpoint(step).marker.write_text("{}")
    return run.id


def _end(bench: Bench, run_id: str, status: RunStatus = RunStatus.STOPPED) -> None:
    with bench.house.database.session() as session:
        row = session.get(RunRow, run_id)
        assert row is not None
        row.status = status


@pytest.mark.parametrize(("asked", "begins"), [(None, 4), (2, 2)])
def test_it_goes_on_with_the_same_config_and_secrets_and_says_where(
    bench: Bench, ended: str, asked: int | None, begins: int
) -> None:
    run = resume_run(bench.house, ended, ResumeRequest(step=asked))
    assert run.id != ended and run.name == "first"
    assert any(f"It goes on from step {begins} of {ended}: /runs/{ended}/" in note for note in run.notes)
    before, after = (read_spec(find_run(bench.house, each), {}) for each in (ended, run.id))
    assert after.resume is not None and after.model_copy(update={"resume": None}) == before
    assert read_environment(bench.house, run.id) == read_environment(bench.house, ended) != {}


def test_a_half_checkpoint_is_refused_by_its_step_and_others_are_named(bench: Bench, ended: str) -> None:
    with pytest.raises(NotFound, match="no whole checkpoint of step 6") as refused:
        resume_run(bench.house, ended, ResumeRequest(step=6))
    assert refused.value.hint == "It has 2, 4."


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.CREATING, RunStatus.RUNNING, RunStatus.STOPPING])
def test_a_run_that_has_not_ended_is_not_gone_on_from(bench: Bench, ended: str, status: RunStatus) -> None:
    _end(bench, ended, status)
    with pytest.raises(RunError, match="has not ended"):
        resume_run(bench.house, ended, ResumeRequest())


def test_a_run_without_a_checkpoint_is_not_gone_on_from(bench: Bench) -> None:
    bench.house.models.add("burnish/tiny")
    run = submit(bench.house, SubmitRequest(config=CONFIG))
    _end(bench, run.id)
    with pytest.raises(RunError, match="left no checkpoint"):
        resume_run(bench.house, run.id, ResumeRequest())


def test_a_run_with_all_steps_behind_it_has_nothing_to_go_on_with(bench: Bench, ended: str) -> None:
    last = bench.directory(ended).checkpoint(10)
    last.trainer.mkdir(parents=True)
    last.marker.write_text("{}")
    with pytest.raises(RunError, match="all its 10 steps behind it"):
        resume_run(bench.house, ended, ResumeRequest())
    config = CONFIG + f'[resume]\ndir = "{bench.directory(ended).relative(last.root)}"\n'
    with pytest.raises(PlanError, match="nothing is left to train"):
        submit(bench.house, SubmitRequest(config=config))


def test_a_volume_that_is_gone_is_named(bench: Bench, ended: str) -> None:
    with bench.house.database.session() as session:
        session.get_one(RunRow, ended).volume = "research"
    with pytest.raises(BurnishError, match="research"):
        resume_run(bench.house, ended, ResumeRequest())


def test_the_same_key_is_one_run(bench: Bench, ended: str) -> None:
    runs = {resume_run(bench.house, ended, ResumeRequest(), idempotency_key="k").id for _ in range(2)}
    assert len(runs) == 1
