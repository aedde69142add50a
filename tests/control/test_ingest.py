import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from control_bench import Bench, finished, started, step
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.cli.text import verified_text
from burnish.control.db import Database
from burnish.control.house import House
from burnish.control.ingest import drain
from burnish.control.private import keep_environment
from burnish.control.runs import get_run, list_checkpoints, read_metrics
from burnish.control.tables import CheckpointRow, ExportRow
from burnish.control.usage import sum_usage
from burnish.errors import NotFound
from burnish.run.events import Checkpointed, CheckpointRemoved, Exported, Prepared, Validated, Verified
from burnish.run.status import RunStatus


def _running(bench: Bench, *, attempt: int = 1, **values) -> str:
    return bench.add_run(status=RunStatus.RUNNING, attempt=attempt, **values)


def _numbers(bench: Bench, run_id: str) -> list[int]:
    return [row.step for row in bench.steps(run_id)]


def test_every_step_is_there_once_and_the_last_loss_is_the_last_steps_own(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(run_id, started(), *(step(n, loss=11.0 - n) for n in range(1, 11)), finished())
    assert drain(bench.house, run_id) == 12
    assert drain(bench.house, run_id) == 0
    metrics = read_metrics(bench.house, run_id)
    assert metrics.steps == list(range(1, 11))
    assert metrics.series["loss/mean"] == [11.0 - n for n in range(1, 11)]
    run = bench.run(run_id)
    assert (run.step, run.loss, run.tokens, run.trained_tokens, run.train_seconds) == (10, 1.0, 1000, 500, 2.5)
    assert bench.attempt(run_id).outcome == "completed"


def _validated(number: int, loss: float) -> Validated:
    return Validated(step=number, values={"val/loss": loss}, trained_tokens=9, seconds=0.1)


def test_validation_stands_beside_its_step_and_before_the_first_alone(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(run_id, started(), _validated(0, 5.0), step(1, loss=3.0), step(2, loss=2.0), _validated(2, 4.0))
    drain(bench.house, run_id)
    metrics = read_metrics(bench.house, run_id)
    assert metrics.steps == [0, 1, 2]
    assert metrics.series["val/loss"] == [5.0, None, 4.0]
    assert metrics.series["loss/mean"] == [None, 3.0, 2.0]
    run = bench.run(run_id)
    assert (run.step, run.loss) == (2, 2.0)


def test_a_half_written_line_waits_for_its_end(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(run_id, step(1), step(2))
    diary = bench.directory(run_id).diary
    whole = diary.read_bytes()
    diary.write_bytes(whole[:-20])
    drain(bench.house, run_id)
    assert _numbers(bench, run_id) == [1]
    diary.write_bytes(whole)
    drain(bench.house, run_id)
    assert _numbers(bench, run_id) == [1, 2]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_it_does_not_matter_at_which_byte_the_diary_was_read(bench: Bench, cuts: list[int]) -> None:
    at_once, in_pieces = _running(bench), _running(bench)
    events = [started(), *(step(n) for n in range(1, 9)), finished()]
    bench.write(at_once, *events)
    drain(bench.house, at_once)
    whole = bench.directory(at_once).diary.read_bytes()
    diary = bench.directory(in_pieces).diary
    diary.parent.mkdir(parents=True)
    for cut in [*sorted(cuts), len(whole)]:
        diary.write_bytes(whole[:cut])
        drain(bench.house, in_pieces)
    assert read_metrics(bench.house, in_pieces) == read_metrics(bench.house, at_once)
    one, other = bench.run(at_once), bench.run(in_pieces)
    assert (one.tokens, one.step, one.diary_offset) == (other.tokens, other.step, other.diary_offset)


def test_a_later_attempt_replaces_what_it_does_again(bench: Bench) -> None:
    run_id = _running(bench, attempt=2)
    bench.write(run_id, started(), *(step(n, loss=1.0) for n in range(1, 8)))
    drain(bench.house, run_id)
    bench.write(run_id, started(resumed_from_step=5), *(step(n, loss=2.0) for n in range(6, 11)), attempt=2)
    drain(bench.house, run_id)
    metrics = read_metrics(bench.house, run_id)
    assert metrics.steps == list(range(1, 11))
    assert metrics.series["loss/mean"] == [1.0] * 5 + [2.0] * 5
    run = bench.run(run_id)
    assert (run.tokens, run.step) == (1000, 10)
    assert (bench.attempt(run_id, 1).last_step, bench.attempt(run_id, 2).last_step) == (7, 10)


def test_steps_after_the_checkpoint_that_a_later_attempt_starts_from_are_gone(bench: Bench) -> None:
    run_id = _running(bench, attempt=2)
    bench.write(run_id, started(), *(step(n) for n in range(1, 8)))
    bench.write(run_id, started(resumed_from_step=5), attempt=2)
    drain(bench.house, run_id)
    assert _numbers(bench, run_id) == [1, 2, 3, 4, 5]
    assert (bench.run(run_id).step, bench.run(run_id).tokens) == (5, 500)


def test_what_an_earlier_attempt_says_late_changes_nothing(bench: Bench) -> None:
    run_id = _running(bench, attempt=2)
    bench.write(run_id, started(), step(1, loss=2.0), attempt=2)
    drain(bench.house, run_id)
    bench.write(run_id, step(1, loss=9.0), attempt=1)
    drain(bench.house, run_id)
    assert read_metrics(bench.house, run_id).series["loss/mean"] == [2.0]


def test_two_readers_at_once_store_every_line_once(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(run_id, *(step(n) for n in range(1, 401)))
    with ThreadPoolExecutor(4) as pool:
        stored = sum(pool.map(lambda _: drain(bench.house, run_id), range(4)))
    assert stored == 400
    assert _numbers(bench, run_id) == list(range(1, 401))


def test_a_diary_longer_than_a_batch_comes_whole(bench: Bench) -> None:
    run_id = _running(bench)
    values = {"loss/" + "x" * 1000: 1.0}
    bench.write(run_id, *(step(number).model_copy(update={"values": values}) for number in range(1, 1201)))
    assert bench.directory(run_id).diary.stat().st_size > 1 << 20
    assert drain(bench.house, run_id) == 1200
    assert bench.run(run_id).tokens == 120_000


def test_the_kept_sums_are_the_sums_of_the_steps(bench: Bench) -> None:
    run_id = _running(bench, attempt=2)
    for attempt, numbers in ((1, range(1, 6)), (2, range(3, 9))):
        for number in numbers:
            bench.write(run_id, step(number, tokens=10 * number), attempt=attempt)
            drain(bench.house, run_id)
    run = bench.run(run_id)
    with bench.house.database.session(writes=False) as session:
        usage = sum_usage(session, run_id)
    assert usage.tokens == run.tokens == sum(10 * number for number in range(1, 9))
    assert (usage.trained_tokens, usage.train_seconds) == (run.trained_tokens, run.train_seconds)


def test_a_loss_that_is_no_number_is_kept_as_a_step_without_one(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(run_id, step(1), step(2, loss=float("nan")))
    drain(bench.house, run_id)
    assert read_metrics(bench.house, run_id).series["loss/mean"] == [1.5, None]
    assert bench.run(run_id).loss is None


def test_checkpoints_and_the_newest_export_are_entered(bench: Bench) -> None:
    run_id = _running(bench)
    folder = f"/runs/{run_id}/outputs/fft-{run_id}/checkpoints"
    for number in (5, 10):
        bench.write(run_id, Checkpointed(step=number, path=f"{folder}/step_{number}", size_bytes=7, seconds=0.1))
        bench.write(run_id, Exported(step=number, path=f"{folder}/step_{number}/model", size_bytes=3))
        marker = bench.directory(run_id).checkpoint(number).marker
        marker.parent.mkdir(parents=True)
        marker.write_text("{}")
    bench.write(run_id, CheckpointRemoved(step=5))
    drain(bench.house, run_id)
    assert [each.step for each in list_checkpoints(bench.house, run_id).checkpoints] == [10]
    with bench.house.database.session(writes=False) as session:
        export = session.get_one(ExportRow, f"ft:burnish/tiny:{run_id}")
    assert (export.step, export.path) == (10, f"{folder}/step_10/model")


def test_an_adapter_and_its_merged_model_are_two_models(bench: Bench) -> None:
    run_id = _running(bench)
    folder = f"/runs/{run_id}/outputs/fft-{run_id}/checkpoints/step_1"
    bench.write(run_id, Exported(step=1, form="merged", path=f"{folder}/merged", size_bytes=900))
    bench.write(run_id, Exported(step=1, form="adapter", path=f"{folder}/model", size_bytes=3))
    drain(bench.house, run_id)
    with bench.house.database.session(writes=False) as session:
        adapter = session.get_one(ExportRow, f"peft:burnish/tiny:{run_id}")
        merged = session.get_one(ExportRow, f"ft:burnish/tiny:{run_id}")
    assert (adapter.path, adapter.base) == (f"{folder}/model", "burnish/tiny")
    assert merged.path == f"{folder}/merged"


def test_what_was_verified_is_told_of_the_run(bench: Bench) -> None:
    run_id = _running(bench)
    assert get_run(bench.house, run_id).verified == []
    bad = Verified(step=4, artefact="merged", largest_difference=float("nan"), tolerance=0.04)
    bench.write(run_id, Verified(step=4, artefact="adapter", largest_difference=2e-7, tolerance=1e-4), bad)
    drain(bench.house, run_id)
    bench.write(run_id, Verified(step=8, artefact="merged", largest_difference=None, tolerance=0.04, note="No room."))
    drain(bench.house, run_id)
    assert (
        verified_text(get_run(bench.house, run_id).verified) == "adapter, to 2.0e-07 (1e-04 allowed); merged: No room."
    )


def test_a_checkpoint_whose_marker_is_not_there_is_not_listed(bench: Bench) -> None:
    run_id = _running(bench)
    path = f"/runs/{run_id}/outputs/fft-{run_id}/checkpoints/step_1"
    bench.write(run_id, Checkpointed(step=1, path=path, size_bytes=7, seconds=0.1))
    drain(bench.house, run_id)
    assert list_checkpoints(bench.house, run_id).checkpoints == []


@pytest.mark.parametrize(
    "path", ["/etc", "/runs/job_0000000000000000/x", "/runs/{id}/../../etc", "runs/{id}/x", "/x\0"]
)
def test_a_path_outside_the_runs_folder_is_not_believed(bench: Bench, path: str) -> None:
    run_id = _running(bench)
    path = path.replace("{id}", run_id)
    bench.write(run_id, Checkpointed(step=1, path=path, size_bytes=7, seconds=0.1))
    bench.write(run_id, Exported(step=1, path=path, size_bytes=7), step(1))
    drain(bench.house, run_id)
    with bench.house.database.session(writes=False) as session:
        assert session.query(CheckpointRow).all() == session.query(ExportRow).all() == []
    assert _numbers(bench, run_id) == [1]


def test_a_diary_that_is_a_link_to_elsewhere_or_a_pipe_is_not_read(bench: Bench, tmp_path: Path) -> None:
    run_id, piped = _running(bench), _running(bench)
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(step(1).model_dump_json() + "\n")
    for each in (run_id, piped):
        bench.directory(each).root.mkdir(parents=True)
    bench.directory(run_id).diary.symlink_to(elsewhere)
    os.mkfifo(bench.directory(piped).diary)
    assert drain(bench.house, run_id) == drain(bench.house, piped) == 0


def test_lines_that_nobody_understands_are_passed_over(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(run_id, step(1))
    with bench.directory(run_id).diary.open("ab") as file:
        file.write(b'{"kind": "news"}\n\xff\xfe\n{"kind": "step", "ste\n[]\n\n')
    bench.write(run_id, step(2).model_copy(update={"at": 1e300}), step(2))
    drain(bench.house, run_id)
    assert _numbers(bench, run_id) == [1, 2]


def test_what_the_rows_came_to_tells_how_long_the_run_is(bench: Bench) -> None:
    run_id = _running(bench)
    bench.write(
        run_id,
        Prepared(
            conversations_read=9,
            conversations_used=8,
            conversations_dropped={"too long": 1},
            tokens=900,
            trained_tokens=300,
            rows=4,
            pad_share=0.1,
            steps=7,
            steps_per_epoch=2,
        ),
    )
    drain(bench.house, run_id)
    run = bench.run(run_id)
    assert run.max_steps == 7
    assert run.prepared is not None and run.prepared["conversations_dropped"] == {"too long": 1}


def test_a_secret_in_the_trainers_last_words_is_not_stored(bench: Bench) -> None:
    run_id = _running(bench)
    keep_environment(bench.house, run_id, {"HF_TOKEN": "hf_FAKEfakeFAKE0001", "MODE": "careful"})
    bench.write(run_id, finished("failed", message="no access with hf_FAKEfakeFAKE0001, be careful"))
    drain(bench.house, run_id)
    assert bench.attempt(run_id).message == "no access with ***, be careful"


def test_a_run_that_is_not_there_is_said_not_to_be(bench: Bench) -> None:
    with pytest.raises(NotFound, match="There is no run job_none"):
        drain(bench.house, "job_none")


def _drain_for_ever(house: House, run_id: str) -> None:
    database = Database(house.database.url.render_as_string(hide_password=False))
    while True:
        drain(replace(house, database=database), run_id)


def test_killing_the_reader_at_any_moment_loses_and_doubles_nothing(bench: Bench) -> None:
    run_id = _running(bench)
    written = 0
    for _ in range(4):
        reader = multiprocessing.get_context("fork").Process(target=_drain_for_ever, args=(bench.house, run_id))
        reader.start()
        seen = bench.run(run_id).step
        deadline = time.monotonic() + 20
        # Killed as soon as it has stored something new, while more keeps coming.
        while bench.run(run_id).step == seen and time.monotonic() < deadline:
            bench.write(run_id, *(step(n) for n in range(written + 1, written + 21)))
            written += 20
        reader.kill()
        reader.join(10)
        assert bench.run(run_id).step > seen
    drain(bench.house, run_id)
    assert _numbers(bench, run_id) == list(range(1, written + 1))
    run = bench.run(run_id)
    assert (run.tokens, run.step) == (100 * written, written)
    assert run.diary_offset == bench.directory(run_id).diary.stat().st_size
