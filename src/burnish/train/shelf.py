"""Which checkpoints a run has, and how one more gets there whole or not at all.

A save is built in a hidden sibling, its marker is written last, then it is renamed into place; so whatever happens in
between costs nothing that was there before. Knows folders and bytes, not what is in them.
"""

import errno
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from burnish.errors import BurnishError, NotFound, RunError, VolumeFull
from burnish.literals import format_size
from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.spec.train import Checkpoints
from burnish.train.console import Say

_STEP = re.compile(r"step_[0-9]+")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True)
class Marker:
    """What `COMPLETE.json` says; names are from the checkpoint's folder."""

    step: int
    files: dict[str, int]
    """Bytes of each."""
    sha256: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    """`val/loss` and the like, as they were at this step."""


def find_start(run: RunDirectory, *, resume_from: Path | None, say: Say) -> CheckpointDirectory | None:
    """Where this attempt begins: the run's own newest whole checkpoint, else the one it was told to resume from."""
    for checkpoint in _by_step(run):
        if not checkpoint.is_whole:
            say("WARNING", f"step_{checkpoint.step} was cut off while it was saved, so it is not resumed from.")
        elif not (broken := _damage(checkpoint)):
            if checkpoint.trainer.is_dir():
                return checkpoint
        else:
            say("WARNING", f"step_{checkpoint.step} is damaged ({broken}), so it is not resumed from.")
    return None if resume_from is None else open_checkpoint(resume_from)


def open_checkpoint(path: Path) -> CheckpointDirectory:
    """The whole checkpoint at `path`, a `step_N` folder or the `trainer` folder in it; refuses any other."""
    root = path.parent if path.name in ("trainer", "model") else path
    if not root.is_dir() or not _STEP.fullmatch(root.name):
        raise NotFound(f"{path} is not a checkpoint.", hint="Name a step_N folder under a run's checkpoints.")
    checkpoint = CheckpointDirectory(root)
    if not checkpoint.is_whole:
        raise RunError(
            f"{root} was cut off while it was saved, so it cannot be resumed from.",
            hint="Name an earlier step, or leave the step out to take the newest whole one.",
        )
    if broken := _damage(checkpoint):
        raise RunError(f"{root} is damaged: {broken}.", hint="Name another step.")
    if not checkpoint.trainer.is_dir():
        raise RunError(
            f"{root} holds a model but no trainer state, so it cannot be resumed from.",
            hint="Runs with [ckpt] save both. To train the model further, name it in [model].",
        )
    return checkpoint


def sweep(run: RunDirectory) -> None:
    """Remove what attempts that died in the middle of a save or a removal have left."""
    for stray in (*run.checkpoints.glob(".step_*.saving"), *run.checkpoints.glob(".step_*.removing")):
        shutil.rmtree(stray)


@contextmanager
def shelving(
    run: RunDirectory, step: int, *, figures: Mapping[str, float] = {}, say: Say
) -> Iterator[CheckpointDirectory]:
    """A folder to fill; it becomes `step_<step>` when the block ends, and is gone if the block fails."""
    building = CheckpointDirectory(run.checkpoints / f".step_{step}.saving")
    try:
        shutil.rmtree(building.root, ignore_errors=True)
        building.root.mkdir(parents=True)
        yield building
        _write_marker(building, step, figures)
        _put_in_place(building.root, run.checkpoint(step), say)
    except BaseException as error:
        shutil.rmtree(building.root, ignore_errors=True)
        if is_no_space(error):
            raise no_room(step) from error
        if isinstance(error, OSError):
            raise RunError(
                f"Step {step} could not be saved: {error.strerror or error}.", hint="Earlier checkpoints are untouched."
            ) from error
        raise


class Room:
    """What the run may still write: the disk's free space, and what the volume had free when the attempt began."""

    def __init__(self, run: RunDirectory, *, volume_bytes_free: int | None) -> None:
        self._run = run
        self._volume_bytes_free = volume_bytes_free
        self._bytes_before = folder_bytes(run.checkpoints)

    def check(self, step: int, *, need_bytes: int) -> None:
        """Refuse a save that cannot fit, before a byte of it is written."""
        self._run.checkpoints.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._run.checkpoints).free
        if self._volume_bytes_free is not None:
            written = folder_bytes(self._run.checkpoints) - self._bytes_before
            free = max(0, min(free, self._volume_bytes_free - written))
        if need_bytes > free:
            raise no_room(step, f" It needs {format_size(need_bytes)}, and {format_size(free)} is free.")


def no_room(step: int, detail: str = "") -> BurnishError:
    return VolumeFull(
        f"There is no space left on the volume to save step {step}.{detail}",
        hint="Earlier checkpoints are untouched. Grow the volume (burnish volumes resize), or set ckpt.keep_last.",
    )


def retire(run: RunDirectory, wish: Checkpoints | None) -> list[int]:
    """Remove the whole checkpoints that no rule keeps; the steps that went."""
    whole = run.whole_checkpoints()
    if wish is None or not whole:
        return []
    kept = steps_to_keep({each.step: _figure(each, wish.metric) for each in whole}, wish)
    gone = [checkpoint for checkpoint in whole if checkpoint.step not in kept]
    for checkpoint in gone:
        # Out of sight in one move, so that a removal cut short leaves no half checkpoint behind.
        hidden = checkpoint.root.with_name(f".{checkpoint.root.name}.removing")
        checkpoint.root.rename(hidden)
        shutil.rmtree(hidden)
    return [checkpoint.step for checkpoint in gone]


def steps_to_keep(figures: Mapping[int, float | None], wish: Checkpoints) -> set[int]:
    """Of the saved steps, given with the figure of each that has one. What any rule keeps is kept, and the newest.

    Of two that are equally good the earlier one is the better, for it took less.
    """
    if wish.keep_last is wish.keep_interval is wish.keep_best is None:
        return set(figures)
    steps = sorted(figures)
    kept = set(steps[-(wish.keep_last or 1) :])
    if wish.keep_interval is not None:
        kept |= {step for step in steps if step % wish.keep_interval == 0}
    judged = sorted((figure, step) for step, figure in figures.items() if figure is not None)
    return kept | {step for _, step in judged[: wish.keep_best or 0]}


def best_checkpoint(run: RunDirectory, metric: str) -> tuple[int, float] | None:
    """Step and figure of the lowest among those that are there."""
    judged = [(figure, each.step) for each in run.whole_checkpoints() if (figure := _figure(each, metric)) is not None]
    if not judged:
        return None
    figure, step = min(judged)
    return step, figure


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _by_step(run: RunDirectory) -> list[CheckpointDirectory]:
    """Every `step_N` folder, newest first, whole or not."""
    if not run.checkpoints.is_dir():
        return []
    found = [CheckpointDirectory(path) for path in run.checkpoints.iterdir() if _STEP.fullmatch(path.name)]
    return sorted(found, key=lambda checkpoint: checkpoint.step, reverse=True)


def _damage(checkpoint: CheckpointDirectory) -> str:
    """What is wrong with a folder that has its marker; empty if nothing is. Sizes of all, hashes of what is loaded."""
    try:
        marker = _read_marker(checkpoint)
    except (OSError, ValueError, TypeError) as error:
        return f"its marker cannot be read: {error}"
    for name, size in marker.files.items():
        file = checkpoint.root / name
        if not file.is_file() or file.stat().st_size != size:
            return f"{name} is not the {size} bytes that were saved"
    for name, digest in marker.sha256.items():
        file = checkpoint.root / name
        if file.is_relative_to(checkpoint.trainer) and _sha256(file) != digest:
            return f"{name} is not what was saved: its SHA-256 is another"
    return ""


def _read_marker(checkpoint: CheckpointDirectory) -> Marker:
    return Marker(**json.loads(checkpoint.marker.read_text()))


def _write_marker(checkpoint: CheckpointDirectory, step: int, figures: Mapping[str, float]) -> None:
    files = {
        file.relative_to(checkpoint.root).as_posix(): file
        for file in sorted(checkpoint.root.rglob("*"))
        if file.is_file()
    }
    digests = {name: _sha256(file) for name, file in files.items()}
    for file in files.values():
        file.chmod(0o644)  # safetensors leaves its files to their owner alone
        _flush(file)
    sizes = {name: file.stat().st_size for name, file in files.items()}
    finite = {name: value for name, value in figures.items() if math.isfinite(value)}
    checkpoint.marker.write_text(json.dumps(asdict(Marker(step, sizes, digests, finite)), indent=2))
    _flush(checkpoint.marker)


def _figure(checkpoint: CheckpointDirectory, metric: str) -> float | None:
    try:
        return _read_marker(checkpoint).figures.get(metric)
    except (OSError, ValueError, TypeError):
        return None


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _put_in_place(built: Path, place: CheckpointDirectory, say: Say) -> None:
    old = place.root.with_name(f".{place.root.name}.removing")
    if place.root.exists():
        why = "was saved before" if place.is_whole else "had been cut off"
        say("INFO", f"{place.root.name} {why}; it is replaced.")
        shutil.rmtree(old, ignore_errors=True)
        place.root.rename(old)
    built.rename(place.root)
    _flush(place.root.parent)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_no_space(error: BaseException) -> bool:
    """Whether a full disk, volume or quota is at the root of an error; writers wrap it in errors of their own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _NO_SPACE:
            return True
        # safetensors (Rust) and DCP put the words of the system into a message.
        if any(os.strerror(number) in str(seen) for number in _NO_SPACE):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
