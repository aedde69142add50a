"""Saves that are cut short, by everything that can cut them short."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.errors import NotFound, RunError, VolumeFull
from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.spec.train import Checkpoints
from burnish.train.shelf import Room, find_start, open_checkpoint, retire, shelving, sweep


class Heard:
    """Log lines, kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, level: str, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "job_0123456789abcdef")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def _save(run: RunDirectory, step: int, say: Callable = print, *, trainer: bool = True, **figures: float) -> None:
    with shelving(run, step, figures={f"val/{name}": figure for name, figure in figures.items()}, say=say) as folder:
        for part in [folder.trainer, folder.model] if trainer else [folder.model]:
            part.mkdir()
            (part / "weights").write_bytes(bytes([step]) * 1000)


def _start(run: RunDirectory, say: Callable = print) -> int | None:
    start = find_start(run, resume_from=None, say=say)
    return start.step if start else None


def _is_intact(checkpoint: CheckpointDirectory) -> bool:
    return checkpoint.is_whole and (checkpoint.trainer / "weights").read_bytes() == bytes([checkpoint.step]) * 1000


def test_a_save_is_found_with_its_marker_and_readable_by_all(run: RunDirectory) -> None:
    _save(run, 3)
    assert [each.step for each in run.whole_checkpoints()] == [3]
    assert _start(run) == 3
    assert {file.stat().st_mode & 0o777 for file in run.checkpoint(3).root.rglob("weights")} == {0o644}
    assert [path.name for path in run.checkpoints.iterdir()] == ["step_3"]


def _killed_at(event: int, work: Callable[[], object]) -> bool:
    """Do the work in a child that SIGKILLs itself at its n-th touch of the file system; False if it came to its end."""
    child = os.fork()
    if child == 0:
        left = [event]

        def count(name: str, arguments: tuple) -> None:
            if name in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "shutil.rmtree"):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("before", ["nothing", "half", "whole"])
def test_a_kill_at_any_moment_of_a_save_costs_nothing_older(tmp_path: Path, before: str) -> None:
    event, killed = 0, True
    while killed:
        event += 1
        run = RunDirectory(tmp_path / str(event) / "job_0123456789abcdef")
        _save(run, 2)
        if before != "nothing":
            _save(run, 4)
        if before == "half":
            run.checkpoint(4).marker.unlink()
        killed = _killed_at(event, lambda run=run: _save(run, 4, Heard()))
        assert _is_intact(run.checkpoint(2))
        sweep(run)
        assert _start(run, Heard()) in (2, 4)
        assert all(_is_intact(each) for each in run.whole_checkpoints())
        _save(run, 4, Heard())
        assert _start(run) == 4
        assert sorted(path.name for path in run.checkpoints.iterdir()) == ["step_2", "step_4"]
    assert event > 8  # the loop really went through a save's many moments


def test_a_kill_at_any_moment_of_retention_leaves_no_half_checkpoint(tmp_path: Path) -> None:
    event, killed = 0, True
    while killed:
        event += 1
        run = RunDirectory(tmp_path / str(event) / "job_0123456789abcdef")
        for step in (1, 2, 3):
            _save(run, step)
        killed = _killed_at(event, lambda run=run: retire(run, Checkpoints(keep_last=1)))
        sweep(run)
        heard = Heard()
        assert _start(run, heard) == 3
        assert not heard.lines
        assert all(_is_intact(each) for each in run.whole_checkpoints())
    assert event > 2


def test_a_half_checkpoint_is_named_passed_over_and_replaced(run: RunDirectory, heard: Heard) -> None:
    _save(run, 10)
    (run.checkpoint(20).trainer).mkdir(parents=True)
    assert _start(run, heard) == 10
    assert "step_20 was cut off" in heard.lines[0]
    _save(run, 20, heard)
    assert "step_20 had been cut off; it is replaced" in heard.lines[1]
    assert _start(run) == 20


def test_a_checkpoint_with_a_short_file_is_named_and_passed_over(run: RunDirectory, heard: Heard) -> None:
    _save(run, 1)
    _save(run, 2)
    (run.checkpoint(2).trainer / "weights").write_bytes(b"short")
    assert _start(run, heard) == 1
    assert "step_2 is damaged (trainer/weights is not the 1000 bytes that were saved)" in heard.lines[0]


def test_a_model_alone_is_no_place_to_resume_from(run: RunDirectory) -> None:
    _save(run, 1)
    _save(run, 2, trainer=False)
    assert _start(run) == 1
    with pytest.raises(RunError, match="no trainer state"):
        open_checkpoint(run.checkpoint(2).root)


def test_the_runs_own_checkpoint_goes_before_the_one_it_was_told(run: RunDirectory, tmp_path: Path) -> None:
    other = RunDirectory(tmp_path / "job_fedcba9876543210")
    _save(other, 7)
    for told in (other.checkpoint(7).root, other.checkpoint(7).trainer):
        start = find_start(run, resume_from=told, say=print)
        assert start is not None and start.root == other.checkpoint(7).root
    _save(run, 1)
    assert find_start(run, resume_from=other.checkpoint(7).root, say=print) == run.checkpoint(1)


def test_a_named_checkpoint_that_is_half_or_absent_is_refused(run: RunDirectory) -> None:
    with pytest.raises(NotFound, match="step_9"):
        open_checkpoint(run.checkpoint(9).root)
    run.checkpoint(9).trainer.mkdir(parents=True)
    with pytest.raises(RunError, match="cut off"):
        open_checkpoint(run.checkpoint(9).root)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("unexpected pos 64 vs 0: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_told_as_such_and_leaves_nothing_behind(run: RunDirectory, error: Exception) -> None:
    _save(run, 1)
    with pytest.raises(VolumeFull, match="no space left on the volume to save step 2"), shelving(run, 2, say=print):
        raise error
    with pytest.raises(VolumeFull), shelving(run, 2, say=print):
        try:
            raise error
        except Exception as cause:
            raise ValueError("a writer's own error") from cause
    assert [path.name for path in run.checkpoints.iterdir()] == ["step_1"]
    assert _is_intact(run.checkpoint(1))


def test_other_errors_pass_unchanged_and_leave_nothing_behind(run: RunDirectory) -> None:
    with pytest.raises(ZeroDivisionError), shelving(run, 2, say=print):
        raise ZeroDivisionError
    assert not list(run.checkpoints.iterdir())


def test_room_is_what_the_volume_had_less_what_was_saved_since(run: RunDirectory) -> None:
    _save(run, 1)
    room = Room(run, volume_bytes_free=5000)
    room.check(2, need_bytes=4900)
    _save(run, 2)
    with pytest.raises(VolumeFull, match="needs 3Ki, and 2"):
        room.check(3, need_bytes=3 * 1024)
    Room(run, volume_bytes_free=None).check(3, need_bytes=3 * 1024)


def test_a_need_beyond_the_disk_itself_is_refused(run: RunDirectory) -> None:
    with pytest.raises(VolumeFull, match="no space"):
        Room(run, volume_bytes_free=None).check(1, need_bytes=2**60)


@pytest.mark.parametrize(
    ("wish", "left"),
    [
        ({}, [1, 2, 4, 6, 10]),
        ({"keep_last": 9}, [1, 2, 4, 6, 10]),
        ({"keep_last": 2}, [6, 10]),
        ({"keep_last": 1}, [10]),
        ({"keep_interval": 4}, [4, 10]),
        ({"keep_interval": 4, "keep_last": 2}, [4, 6, 10]),
        ({"keep_best": 1}, [2, 10]),
        ({"keep_best": 2}, [2, 4, 10]),
        ({"keep_best": 2, "metric": "loss/mean"}, [10]),
        ({"keep_best": 1, "keep_interval": 4, "keep_last": 2}, [2, 4, 6, 10]),
    ],
)
def test_what_any_rule_keeps_is_kept_and_the_newest(run: RunDirectory, wish: dict, left: list[int]) -> None:
    losses = {1: 0.9, 10: 0.5, 2: 0.2, 4: 0.2, 6: float("nan")}
    for step, loss in losses.items():
        _save(run, step, loss=loss)
    gone = retire(run, Checkpoints(**wish))
    assert [each.step for each in run.whole_checkpoints()] == left
    assert sorted(gone + left) == sorted(losses)


def test_a_run_without_ckpt_keeps_its_model(run: RunDirectory) -> None:
    _save(run, 3, trainer=False)
    assert retire(run, None) == []


def test_a_changed_byte_in_what_is_loaded_is_found_and_the_checkpoint_passed_over(
    run: RunDirectory, heard: Heard
) -> None:
    _save(run, 1)
    _save(run, 2)
    (run.checkpoint(2).trainer / "weights").write_bytes(bytes([2]) * 999 + b"x")
    assert _start(run, heard) == 1
    assert "step_2 is damaged (trainer/weights is not what was saved: its SHA-256 is another)" in heard.lines[0]
    with pytest.raises(RunError, match="SHA-256"):
        open_checkpoint(run.checkpoint(2).root)


def test_an_error_of_the_disk_is_a_sentence_and_leaves_nothing_behind(run: RunDirectory) -> None:
    with pytest.raises(RunError, match="Step 2 could not be saved: Input/output error"), shelving(run, 2, say=print):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert not list(run.checkpoints.iterdir())
