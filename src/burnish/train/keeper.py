"""When a run saves, and what is said of it. Folders are `shelf`'s affair, content `checkpoint`'s and `export`'s."""

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from burnish.literals import format_size
from burnish.run.directory import CheckpointDirectory
from burnish.run.events import Checkpointed, CheckpointRemoved, Exported, read_events
from burnish.run.forecast import gguf_bytes
from burnish.train.card import CardWriter
from burnish.train.checkpoint import Progress, save_trainer, trainer_bytes
from burnish.train.export import export_bytes, export_model
from burnish.train.job import Job
from burnish.train.machine import free_memory_bytes
from burnish.train.meter import format_seconds
from burnish.train.model import Decoder
from burnish.train.optim import Optimizer
from burnish.train.shelf import Room, folder_bytes, retire, shelving
from burnish.train.snapshot import Snapshot, Staging, look_at

_SPARE_MEMORY = 1.25
"""A copy is made only where so many times its size is free."""


@dataclass(frozen=True)
class Written:
    """A save that is on the disk, whole."""

    step: int
    seconds: float
    blocked_seconds: float
    """Of these, how long training stood still."""
    retired: list[int]


class Keeper:
    """Saves, beside the training where there is memory for a copy; use it as a context, and nothing is left behind.

    One write at a time: the next save waits for it. A write that failed is told by the next call of `look`.
    """

    def __init__(self, job: Job, decoder: Decoder, optimizer: Optimizer) -> None:
        self._job = job
        self._decoder = decoder
        self._optimizer = optimizer
        self._wish = job.order.spec.checkpoints
        self._card = CardWriter.open(job)
        self._room = Room(job.run, volume_bytes_free=job.order.volume_bytes_free)
        own = job.start is not None and job.start.root.parent == job.run.checkpoints
        self._saved_step = job.start.step if own and job.start else 0
        self._staging = Staging()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="save")
        self._writing: Future[Written] | None = None

    def __enter__(self) -> "Keeper":
        self.announce_found()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is being written is waited for, whatever else went wrong."""
        try:
            self.settle()
        except Exception as failed:
            if error is None:
                raise
            self._job.say("WARNING", f"{failed}")
        finally:
            self._writer.shutdown()
            self._staging = Staging()  # its memory is wanted for what comes after the last save

    def is_due(self, step: int) -> bool:
        """After a step that is not the last."""
        return self._wish is not None and self._wish.every_steps is not None and step % self._wish.every_steps == 0

    def save(self, progress: Progress, figures: Mapping[str, float]) -> None:
        """`step_N/model`, and `step_N/trainer` where checkpoints are asked for, written while training goes on."""
        if progress.step == self._saved_step:
            return
        started = time.perf_counter()
        self.settle()
        state = look_at(self._decoder.model, self._optimizer)
        self._check_room(progress.step)
        if not self._can_stage(state):
            self._write_now(state, progress, figures, started)
            return
        copied = self._staging.copy(state)
        self._saved_step = progress.step
        blocked = time.perf_counter() - started
        self._writing = self._writer.submit(self._write, copied, progress, figures, started, blocked)

    def save_last(self, progress: Progress, figures: Mapping[str, float]) -> None:
        """The same, and returns when it is there: no step comes that could go on beside it."""
        started = time.perf_counter()
        self.settle()
        if progress.step == self._saved_step:
            return
        self._check_room(progress.step)
        self._write_now(look_at(self._decoder.model, self._optimizer), progress, figures, started)

    def save_interrupted(self, progress: Progress) -> None:
        """A run that was stopped keeps where it was, if it keeps checkpoints at all."""
        if self._wish is not None and progress.step:
            self.save_last(progress, {})

    def look(self) -> None:
        """Tell of a write that has ended; raise what went wrong with it."""
        if self._writing is not None and self._writing.done():
            self.settle()

    def settle(self) -> None:
        """Wait for the write that is under way, if one is."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self._tell(writing.result())

    def _check_room(self, step: int) -> None:
        trainer = trainer_bytes(self._decoder, self._job.order.spec.optimizer) if self._wish is not None else 0
        self._room.check(step, need_bytes=self._export_bytes() + trainer)

    def _can_stage(self, state: Snapshot) -> bool:
        """A merged model is made from the layers themselves, so they may not change meanwhile."""
        if self._job.order.spec.export.merged:
            return False
        return self._staging.is_ready or free_memory_bytes() > _SPARE_MEMORY * state.size_bytes

    def _write_now(self, state: Snapshot, progress: Progress, figures: Mapping[str, float], started: float) -> None:
        written = self._write(state, progress, figures, started, None)
        self._saved_step = progress.step
        self._tell(written)

    def _write(
        self,
        state: Snapshot,
        progress: Progress,
        figures: Mapping[str, float],
        started: float,
        blocked_seconds: float | None,
    ) -> Written:
        """Retention comes when the new save is whole. None is blocked for as long as it takes."""
        with shelving(self._job.run, progress.step, figures=figures, say=self._job.say) as folder:
            if self._wish is not None:
                save_trainer(folder.trainer, state, progress)
            self._export(folder, state, progress.step)
        seconds = time.perf_counter() - started
        retired = retire(self._job.run, self._wish)
        return Written(progress.step, seconds, seconds if blocked_seconds is None else blocked_seconds, retired)

    def _export(self, folder: CheckpointDirectory, state: Snapshot, step: int) -> None:
        base, adapter = self._job.order.model_directory, self._decoder.adapter
        if adapter is None:
            export_model(folder.model, self._decoder, state, base=base)
            self._card.write(folder.model, form="full", step=step)
            self._export_gguf(folder.model, folder.gguf)
            return
        adapter.export(folder.model, state, base=base, base_name=self._job.base_name)
        self._card.write(folder.model, form="adapter", step=step)
        if self._job.order.spec.export.merged:
            adapter.export_merged(folder.merged, base=base)
            self._card.write(folder.merged, form="merged", step=step)
            self._export_gguf(folder.merged, folder.gguf)

    def _export_gguf(self, whole: Path, file: Path) -> None:
        if kind := self._job.order.spec.export.gguf:
            # Most runs want none, and gguf takes a while to import.
            from burnish.train.write_gguf import write_gguf

            write_gguf(whole, file, kind)

    def _export_bytes(self) -> int:
        base, adapter = self._job.order.model_directory, self._decoder.adapter
        wish = self._job.order.spec.export
        parameters = adapter.told.parameters if adapter else sum(each.numel() for each in self._decoder.parameters())
        gguf = gguf_bytes(wish.gguf, parameters)
        if adapter is None:
            return gguf + export_bytes(self._decoder, base=base)
        return gguf + adapter.export_bytes(base=base, merged=wish.merged)

    def announce_found(self) -> None:
        """Tell the diary of a checkpoint that an attempt saved but did not live to tell of."""
        if self._saved_step:
            told = {event.step for event in read_events(self._job.run.diary)[0] if isinstance(event, Exported)}
            if self._saved_step not in told:
                self._announce(self._job.run.checkpoint(self._saved_step), 0.0, 0.0)

    def _tell(self, written: Written) -> None:
        self._announce(self._job.run.checkpoint(written.step), written.seconds, written.blocked_seconds)
        for step in written.retired:
            self._job.diary.append(CheckpointRemoved(step=step))
            self._job.say("INFO", f"Removed step_{step}: no ckpt.keep_ key keeps it.")

    def _announce(self, checkpoint: CheckpointDirectory, seconds: float, blocked_seconds: float) -> None:
        run, step = self._job.run, checkpoint.step
        size = folder_bytes(checkpoint.root)
        if checkpoint.trainer.is_dir():
            path = run.relative(checkpoint.trainer)
            self._job.diary.append(
                Checkpointed(
                    step=step,
                    path=path,
                    size_bytes=folder_bytes(checkpoint.trainer),
                    seconds=seconds,
                    blocked_seconds=blocked_seconds,
                )
            )
        if checkpoint.merged.is_dir():
            self._tell_export(checkpoint, checkpoint.merged, "merged")
        if checkpoint.gguf.is_file():
            self._tell_export(checkpoint, checkpoint.gguf, "gguf")
        self._tell_export(checkpoint, checkpoint.model, "adapter" if self._decoder.adapter else "full")
        what = "Checkpoint" if checkpoint.trainer.is_dir() else "Model"
        place = run.relative(checkpoint.root)
        took = f"{format_seconds(seconds)}, training waited {format_seconds(blocked_seconds)}"
        self._job.say("INFO", f"{what} of step {step}: {place}, {format_size(size)} in {took}")

    def _tell_export(
        self, checkpoint: CheckpointDirectory, place: Path, form: Literal["full", "adapter", "merged", "gguf"]
    ) -> None:
        path = self._job.run.relative(place)
        size = place.stat().st_size if place.is_file() else folder_bytes(place)
        self._job.diary.append(Exported(step=checkpoint.step, form=form, path=path, size_bytes=size))
