"""When a run saves, and what is said of it. Folders are `shelf`'s affair, content `checkpoint`'s and `export`'s."""

import time
from pathlib import Path
from typing import Literal

from burnish.literals import format_size
from burnish.run.directory import CheckpointDirectory
from burnish.run.events import Checkpointed, CheckpointRemoved, Exported, read_events
from burnish.train.checkpoint import Progress, save_trainer, trainer_bytes
from burnish.train.export import export_bytes, export_model
from burnish.train.job import Job
from burnish.train.meter import format_seconds
from burnish.train.model import Decoder
from burnish.train.optim import Optimizer
from burnish.train.shelf import Room, folder_bytes, retire, shelving


class Keeper:
    def __init__(self, job: Job, decoder: Decoder, optimizer: Optimizer) -> None:
        self._job = job
        self._decoder = decoder
        self._optimizer = optimizer
        self._wish = job.order.spec.checkpoints
        self._room = Room(job.run, volume_bytes_free=job.order.volume_bytes_free)
        own = job.start is not None and job.start.root.parent == job.run.checkpoints
        self._saved_step = job.start.step if own and job.start else 0

    def is_due(self, step: int) -> bool:
        """After a step that is not the last."""
        return self._wish is not None and self._wish.every_steps is not None and step % self._wish.every_steps == 0

    def save_interrupted(self, progress: Progress) -> None:
        """A run that was stopped keeps where it was, if it keeps checkpoints at all."""
        if self._wish is not None and progress.step:
            self.save(progress)

    def save(self, progress: Progress) -> None:
        """`step_N/model`, and `step_N/trainer` where checkpoints are asked for. A step is saved once."""
        step, with_trainer = progress.step, self._wish is not None
        if step == self._saved_step:
            return
        started = time.perf_counter()
        need = self._export_bytes() + (
            trainer_bytes(self._decoder, self._job.order.spec.optimizer) if with_trainer else 0
        )
        self._room.check(step, need_bytes=need)
        with shelving(self._job.run, step, say=self._job.say) as folder:
            if with_trainer:
                save_trainer(folder.trainer, self._decoder.model, self._optimizer, progress)
            self._export(folder)
        self._saved_step = step
        self._announce(self._job.run.checkpoint(step), time.perf_counter() - started)
        self._retire()

    def _export(self, folder: CheckpointDirectory) -> None:
        base, adapter = self._job.order.model_directory, self._decoder.adapter
        if adapter is None:
            export_model(folder.model, self._decoder, base=base)
            return
        adapter.export(folder.model, base=base, base_name=self._job.base_name)
        if self._job.order.spec.export.merged:
            adapter.export_merged(folder.merged, base=base)

    def _export_bytes(self) -> int:
        base, adapter = self._job.order.model_directory, self._decoder.adapter
        if adapter is None:
            return export_bytes(self._decoder, base=base)
        return adapter.export_bytes(base=base, merged=self._job.order.spec.export.merged)

    def announce_found(self) -> None:
        """Tell the diary of a checkpoint that an attempt saved but did not live to tell of."""
        if self._saved_step:
            told = {event.step for event in read_events(self._job.run.diary)[0] if isinstance(event, Exported)}
            if self._saved_step not in told:
                self._announce(self._job.run.checkpoint(self._saved_step), 0.0)

    def _announce(self, checkpoint: CheckpointDirectory, seconds: float) -> None:
        run, step = self._job.run, checkpoint.step
        size = folder_bytes(checkpoint.root)
        if checkpoint.trainer.is_dir():
            path = run.relative(checkpoint.trainer)
            self._job.diary.append(
                Checkpointed(step=step, path=path, size_bytes=folder_bytes(checkpoint.trainer), seconds=seconds)
            )
        if checkpoint.merged.is_dir():
            self._tell_export(checkpoint, checkpoint.merged, "merged")
        self._tell_export(checkpoint, checkpoint.model, "adapter" if self._decoder.adapter else "full")
        what = "Checkpoint" if checkpoint.trainer.is_dir() else "Model"
        place = run.relative(checkpoint.root)
        self._job.say("INFO", f"{what} of step {step}: {place}, {format_size(size)} in {format_seconds(seconds)}")

    def _tell_export(
        self, checkpoint: CheckpointDirectory, folder: Path, form: Literal["full", "adapter", "merged"]
    ) -> None:
        path = self._job.run.relative(folder)
        self._job.diary.append(Exported(step=checkpoint.step, form=form, path=path, size_bytes=folder_bytes(folder)))

    def _retire(self) -> None:
        for step in retire(self._job.run, keep_last=self._wish.keep_last if self._wish else None):
            self._job.diary.append(CheckpointRemoved(step=step))
            self._job.say("INFO", f"Removed step_{step}; ckpt.keep_last keeps the newest.")
