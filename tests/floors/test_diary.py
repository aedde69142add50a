import resource
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.run.directory import RunDirectory
from burnish.run.events import EventWriter, Finished, Started, Step, read_events
from burnish.run.order import RunOrder, read_order, write_order
from burnish.run.plan import plan_layout
from burnish.run.status import RunStatus
from burnish.spec.train import FakeData, TrainSpec


def _step(number: int) -> Step:
    return Step(step=number, values={"loss/mean": 1 / number}, tokens=8, trained_tokens=4, seconds=0.1)


def test_what_is_written_is_read_back_with_the_attempt_and_the_time(tmp_path: Path):
    writer = EventWriter(tmp_path / "events.jsonl", attempt=2, clock=lambda: 12.5)
    writer.append(Started(pid=1, device="CPU", dtype="float32"))
    writer.append(_step(1))
    writer.append(Finished(outcome="completed", step=1))
    events, _ = read_events(tmp_path / "events.jsonl")
    assert [each.kind for each in events] == ["started", "step", "finished"]
    assert {(each.attempt, each.at) for each in events} == {(2, 12.5)}


def test_reading_by_offset_sees_every_event_once_however_the_file_grows(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    for number in range(1, 20):
        writer.append(_step(number))
    whole = path.read_bytes()
    grown, offset, seen = tmp_path / "grown.jsonl", 0, []
    for cut in range(0, len(whole) + 7, 7):
        grown.write_bytes(whole[:cut])
        events, offset = read_events(grown, offset)
        seen += events
    assert [each.step for each in seen] == list(range(1, 20))
    assert offset == len(whole)


def test_a_torn_line_costs_itself_and_not_the_next_one(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    writer.append(_step(1))
    writer.close()
    with path.open("ab") as file:
        file.write(b'{"kind": "step", "st')
    again = EventWriter(path, attempt=2)
    again.append(_step(2))
    events, _ = read_events(path)
    assert [each.step for each in events if isinstance(each, Step)] == [1, 2]


def test_a_line_that_does_not_fit_leaves_no_half_behind(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    writer.append(_step(1))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel takes the bytes up to the limit and refuses the rest, as at the end of a disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(OSError):
            writer.append(_step(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    writer.append(_step(3))
    assert [each.step for each in read_events(path)[0] if isinstance(each, Step)] == [1, 3]


def test_a_disk_that_filled_still_takes_the_last_word(small_disk: Path):
    path = small_disk / "events.jsonl"
    writer = EventWriter(path)
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "fill").write_bytes(bytes(1 << 20))
    with pytest.raises(OSError, match="No space left"):
        for number in range(1, 1000):
            writer.append(_step(number))
    writer.append(Finished(outcome="failed", step=0, message="There is no space left on the volume."))
    writer.close()
    assert [each.kind for each in read_events(path)[0]][-1] == "finished"
    assert {each.name for each in small_disk.iterdir()} == {"events.jsonl", "fill"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("a disk that fills can be mounted by root alone")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_an_event_of_a_newer_trainer_is_skipped(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"kind": "levitated", "at": 1}\n' + _step(3).model_dump_json() + "\n")
    events, offset = read_events(path)
    assert [each.kind for each in events] == ["step"]
    assert offset == path.stat().st_size


def test_writers_that_race_never_mix_their_lines(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writers = [EventWriter(path, attempt=attempt) for attempt in (1, 2)]

    def write(writer: EventWriter) -> None:
        for number in range(1, 200):
            writer.append(_step(number))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_events(path)[0]) == 398


def test_a_diary_that_is_not_there_yet_is_empty(tmp_path: Path):
    assert read_events(tmp_path / "none.jsonl", 0) == ([], 0)


def test_an_order_is_read_as_it_was_written(tmp_path: Path):
    spec = TrainSpec(model="burnish/tiny", data=FakeData(), steps=3)
    order = RunOrder(
        run_id="job_0000000000000001",
        spec=spec,
        layout=plan_layout(spec, device="cpu"),
        model_directory=tmp_path / "model",
        store_directory=tmp_path / "stores",
    )
    directory = RunDirectory.on_volume(tmp_path, order.run_id)
    write_order(order, directory)
    assert read_order(directory) == order
    assert directory.relative(directory.checkpoint(10).trainer) == (
        "/runs/job_0000000000000001/outputs/fft-job_0000000000000001/checkpoints/step_10/trainer"
    )


def test_only_a_marked_checkpoint_counts(tmp_path: Path):
    directory = RunDirectory.on_volume(tmp_path, "job_0000000000000001")
    for step in (9, 10, 20):
        directory.checkpoint(step).trainer.mkdir(parents=True)
    for step in (9, 10):
        directory.checkpoint(step).marker.write_text("{}")
    assert [each.step for each in directory.whole_checkpoints()] == [9, 10]


def test_a_run_that_is_over_goes_nowhere():
    for status in RunStatus:
        followers = [other for other in RunStatus if status.may_become(other)]
        assert status.is_over == (not followers)
        assert status not in followers
    assert {each for each in RunStatus if each.is_over} == {"COMPLETED", "FAILED", "STOPPED"}
