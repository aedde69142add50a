"""What a submission refuses and in which words, what it writes, and that one request makes one run."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from control_bench import Bench
from sqlalchemy import func, select

from burnish.control.launch import attempt_key
from burnish.control.reconciler import Reconciler
from burnish.control.runs import delete_run, get_run, list_runs, stop_run, submit
from burnish.control.tables import RunRow, Table
from burnish.errors import (
    BurnishError,
    ConfigError,
    Conflict,
    DataError,
    ModelError,
    NotFound,
    PlanError,
    VolumeError,
    VolumeFull,
)
from burnish.executors.scripted import exited
from burnish.run.order import read_order
from burnish.run.status import RunStatus
from burnish.wire import SubmitRequest

FAKE = """
max_steps = 10
[ckpt]
[model]
name = "burnish/tiny"
[data]
type = "fake"
seq_len = 64
batch_size = 8
[optim]
lr = 2e-5
"""

SFT = FAKE.replace('type = "fake"', 'name = "datasets/reverse-text"\ntype = "sft"')
ROWS = [
    {"messages": [{"role": "user", "content": f"say {n}"}, {"role": "assistant", "content": str(n)}]} for n in range(20)
]


def _fake(**values) -> SubmitRequest:
    return SubmitRequest(config=FAKE, **values)


@pytest.fixture
def volume(bench: Bench) -> Path:
    root = bench.add_volume()
    (root / "datasets" / "reverse-text").mkdir()
    (root / "datasets" / "reverse-text" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return root


def _rows(bench: Bench) -> int:
    with bench.house.database.session(writes=False) as session:
        return session.scalar(select(func.count()).select_from(RunRow)) or 0


def _refused(bench: Bench, request: SubmitRequest, error: type[BurnishError]) -> BurnishError:
    """The refusal, after which nothing is there that was not there before."""
    with pytest.raises(error) as caught:
        submit(bench.house, request, idempotency_key="k")
    assert _rows(bench) == 0
    assert not bench.house.home.secrets.exists()
    assert not bench.house.bell.is_set()
    return caught.value


def test_an_accepted_run_waits_and_is_shown_as_it_was_written(bench: Bench, volume: Path) -> None:
    run = submit(bench.house, SubmitRequest(config=SFT, volume="research"))
    assert (run.status, run.model, run.volume, run.max_steps, run.config) == (
        RunStatus.PENDING,
        "burnish/tiny",
        "research",
        10,
        SFT,
    )
    assert run.output_path == f"/runs/{run.id}/outputs/fft-{run.id}"
    assert bench.house.bell.is_set()
    assert not (volume / "runs").exists()
    assert get_run(bench.house, run.id) == run
    assert [each.id for each in list_runs(bench.house).runs] == [run.id]


def test_the_newest_run_is_listed_first(bench: Bench) -> None:
    ids = []
    for name in "abc":
        ids.append(submit(bench.house, _fake(name=name)).id)
        bench.clock.seconds += 1
    assert [run.id for run in list_runs(bench.house).runs] == ids[::-1]
    assert [run.name for run in list_runs(bench.house).runs] == ["c", "b", "a"]


def test_what_was_accepted_is_launched_with_its_data(bench: Bench, volume: Path) -> None:
    run = submit(bench.house, SubmitRequest(config=SFT, volume="research"))
    Reconciler(bench.house).tick()
    order = read_order(bench.directory(run.id))
    assert order.data_path == volume / "datasets" / "reverse-text"
    assert order.volume_bytes_free is not None and 0 < order.volume_bytes_free < 10 << 30
    assert (bench.directory(run.id).config).read_text() == SFT


def test_a_data_set_without_a_volume_is_refused_in_primes_words(bench: Bench) -> None:
    error = _refused(bench, SubmitRequest(config=SFT), VolumeError)
    assert error.message == (
        "data.name requires `--volume <name>`. Create a volume with `burnish volumes create <name>`, "
        "then rerun `burnish train <config> --volume <name>`."
    )


def test_a_model_that_is_not_in_the_cache_is_refused_with_the_command_that_adds_it(bench: Bench) -> None:
    request = SubmitRequest(config=FAKE.replace("burnish/tiny", "acme/nothing"))
    error = _refused(bench, request, ModelError)
    assert "acme/nothing is not in the model cache" in error.message
    assert "burnish models add" in error.hint


def test_a_volume_that_is_not_there_is_refused(bench: Bench) -> None:
    assert "no volume nowhere" in _refused(bench, SubmitRequest(config=SFT, volume="nowhere"), NotFound).message


def test_a_data_set_that_is_not_on_the_volume_is_refused_and_what_is_there_is_named(bench: Bench, volume: Path) -> None:
    request = SubmitRequest(config=SFT.replace("reverse-text", "reversed"), volume="research")
    error = _refused(bench, request, DataError)
    assert "datasets/reversed" in error.message
    assert "reverse-text" in error.message + error.hint


def test_a_data_set_that_links_out_of_the_volume_is_refused(bench: Bench, volume: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (volume / "datasets" / "linked").symlink_to(tmp_path / "private")
    request = SubmitRequest(config=SFT.replace("reverse-text", "linked"), volume="research")
    assert "leaves the volume" in _refused(bench, request, VolumeError).message


def test_more_devices_than_there_are_is_refused(bench: Bench) -> None:
    deployment = '[deployment]\ntype = "single_node"\nnum_train_gpus = 2\ngpus_per_node = 2\n'
    error = _refused(bench, SubmitRequest(config=FAKE + deployment), PlanError)
    assert error.message == "The config asks for 2 devices; this machine offers one CPU slot."


def test_an_unknown_key_is_refused(bench: Bench) -> None:
    _refused(bench, SubmitRequest(config=FAKE.replace("seq_len", "seqlen")), ConfigError)


def test_checkpoints_that_would_not_fit_are_refused_with_the_size_that_would_do(bench: Bench, volume: Path) -> None:
    house = bench.house
    parameters = house.models.find("burnish/tiny").parameters
    with house.database.session() as session:
        session.execute(Table.metadata.tables["volumes"].update().values(size_bytes=parameters * 16 + (1 << 20)))
    request = SubmitRequest(config=SFT, volume="research")  # with the data there already, that is a little too small
    error = _refused(bench, request, VolumeFull)
    assert error.hint.startswith("burnish volumes resize research --size ")
    without = SubmitRequest(config=SFT.replace("[ckpt]", ""), volume="research")
    assert submit(house, without).status == RunStatus.PENDING


# -- one request, one run ---------------------------------------------------


def test_the_same_key_and_request_is_one_run_and_another_request_a_conflict(bench: Bench) -> None:
    first = submit(bench.house, _fake(), idempotency_key="k-1")
    assert submit(bench.house, _fake(), idempotency_key="k-1").id == first.id
    other = SubmitRequest(config=FAKE.replace("max_steps = 10", "max_steps = 2"))
    with pytest.raises(Conflict, match="belongs to job_"):
        submit(bench.house, other, idempotency_key="k-1")
    assert submit(bench.house, _fake(), idempotency_key="k-2").id != first.id
    assert _rows(bench) == 2


def test_without_a_key_every_request_is_a_run(bench: Bench) -> None:
    assert submit(bench.house, _fake()).id != submit(bench.house, _fake()).id


def test_the_same_key_many_times_at_once_is_one_run_and_one_trainer(bench: Bench) -> None:
    bench.house.models.find("burnish/tiny")
    config = FAKE + '[env_vars]\nHF_TOKEN = "hf_FAKEfakeFAKE0001"\n'
    with ThreadPoolExecutor(6) as pool:
        request = SubmitRequest(config=config)
        ids = set(pool.map(lambda _: submit(bench.house, request, idempotency_key="k").id, range(6)))
    assert len(ids) == _rows(bench) == 1
    assert [path.stem for path in bench.house.home.secrets.iterdir()] == list(ids)
    reconciler = Reconciler(bench.house)
    reconciler.tick()
    reconciler.tick()
    assert len(bench.executor.launched) == 1


def test_a_retry_after_a_lost_reply_is_answered_even_when_it_would_be_refused_now(bench: Bench, volume: Path) -> None:
    request = SubmitRequest(config=SFT, volume="research")
    first = submit(bench.house, request, idempotency_key="k")
    (volume / "datasets" / "reverse-text" / "train.jsonl").unlink()
    assert submit(bench.house, request, idempotency_key="k").id == first.id


# -- secrets ----------------------------------------------------------------

SECRETS = ["hf_FAKEfakeFAKE0001", "fakepass99", "fake-reg-pw"]
WITH_SECRETS = FAKE + (
    '[env_vars]\nHF_TOKEN = "hf_FAKEfakeFAKE0001"\nDB_URL = "postgres://u:fakepass99@host/db"\n'
    'REGISTRY_PASSWORD = "fake-reg-pw"\nMODE = "careful"\n'
)


def test_secrets_reach_the_trainer_and_no_row_no_volume_and_no_answer(bench: Bench) -> None:
    bench.add_volume()
    run = submit(bench.house, SubmitRequest(config=WITH_SECRETS, volume="research"))
    Reconciler(bench.house).tick()
    environment = bench.executor.launched[0].environment
    assert [environment[name] for name in ("HF_TOKEN", "DB_URL", "REGISTRY_PASSWORD", "MODE")] == [
        "hf_FAKEfakeFAKE0001",
        "postgres://u:fakepass99@host/db",
        "fake-reg-pw",
        "careful",
    ]
    told = [get_run(bench.house, run.id).model_dump_json(), *_every_cell(bench)]
    told += [path.read_text() for path in bench.directory(run.id).root.rglob("*") if path.is_file()]
    told += bench.executor.launched[0].argv
    assert not [secret for secret in SECRETS for text in told if secret in text]
    assert "***" in get_run(bench.house, run.id).config
    [kept] = bench.house.home.secrets.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


def _every_cell(bench: Bench) -> list[str]:
    with bench.house.database.session(writes=False) as session:
        return [repr(row) for table in Table.metadata.sorted_tables for row in session.execute(table.select())]


# -- deleting ---------------------------------------------------------------


def test_a_live_run_is_not_deleted(bench: Bench) -> None:
    run = submit(bench.house, _fake())
    with pytest.raises(BurnishError, match="has not ended") as caught:
        delete_run(bench.house, run.id)
    assert caught.value.hint == f"burnish train stop {run.id}"


def test_deleting_a_run_keeps_what_it_saved_and_removes_its_record(bench: Bench) -> None:
    bench.add_volume()
    run = submit(bench.house, SubmitRequest(config=WITH_SECRETS, volume="research"))
    reconciler = Reconciler(bench.house)
    reconciler.tick()
    directory = bench.directory(run.id)
    directory.log.write_text("hello\n")
    saved = directory.checkpoint(10).model / "config.json"
    saved.parent.mkdir(parents=True)
    saved.write_text("{}")
    bench.executor.tell(attempt_key(run.id, 1), exited(1))
    reconciler.tick()
    delete_run(bench.house, run.id)
    with pytest.raises(NotFound):
        get_run(bench.house, run.id)
    assert [path for path in directory.root.rglob("*") if path.is_file()] == [saved]
    assert bench.executor.find() == []
    assert list(bench.house.home.secrets.iterdir()) == []


def test_nothing_is_left_of_a_run_that_saved_nothing(bench: Bench) -> None:
    bench.add_volume()
    run = submit(bench.house, _fake(volume="research"))
    directory = bench.directory(run.id)
    stop_run(bench.house, run.id)
    directory.config.parent.mkdir(parents=True)
    delete_run(bench.house, run.id)
    assert not directory.root.exists()
    with pytest.raises(NotFound):
        delete_run(bench.house, run.id)


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31mred", "x" * 201])
def test_a_name_that_no_line_can_hold_names_no_run(bench: Bench, name: str):
    with pytest.raises(ConfigError, match="cannot name a run"):
        submit(bench.house, _fake(name=name))
    assert not list_runs(bench.house).runs


@pytest.mark.parametrize("path", ["a" * 300, "/".join("a" * 200)])
def test_a_data_path_that_no_disk_can_hold_is_the_configs_fault(bench: Bench, volume: Path, path: str):
    with pytest.raises(VolumeError, match=r"is 300 bytes long|folders deep"):
        submit(bench.house, SubmitRequest(config=SFT.replace("datasets/reverse-text", path), volume="research"))
