"""The training loop: a step is a list of micro-batches, one sum, one division, one update, one line in the diary.

Knows the order and the data's rows. Where ranks meet it asks `World`; how to save it leaves to `Keeper`.
"""

import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from burnish.data import stream
from burnish.data.loader import Batch, RowLoader
from burnish.data.prepare import row_loader
from burnish.errors import ModelError, PlanError, RunError
from burnish.run.events import Adapted, Finished, Step, Validated
from burnish.run.plan import learning_rate_at
from burnish.spec.model_facts import ModelFacts, read_model_facts
from burnish.train import optim
from burnish.train.checkpoint import Progress, load_trainer
from burnish.train.job import Job, compute_dtype
from burnish.train.keeper import Keeper
from burnish.train.machine import memory_bytes, peak_memory_bytes
from burnish.train.meter import Meter, StepReport, peak_flops_of
from burnish.train.model import Decoder, load_decoder
from burnish.train.parallel import World, open_world
from burnish.train.shelf import best_checkpoint
from burnish.train.validate import Outcome, open_rows, validate
from burnish.train.verify import verify_exports

_MOST_SKIPPED_IN_A_ROW = 3


def train(job: Job) -> None:
    """Train to the horizon, or to the step in which the run is asked to stop; ends with `Finished` in the diary."""
    try:
        _train(job)
    except torch.OutOfMemoryError as error:
        raise PlanError(
            f"The GPU ran out of memory: {str(error).splitlines()[0]}",
            hint="Lower data.micro_batch_size or data.seq_len.",
        ) from error


def _train(job: Job) -> None:
    spec = job.order.spec
    with job.stop.interrupting():
        world = open_world(job.order.layout, compute_dtype(job.order))
        decoder = open_decoder(job, world)
        optimizer = optim.build_optimizer(decoder.model, spec.optimizer)
        progress = load_trainer(job.start.trainer, decoder.model, optimizer) if job.start else Progress()
        loader = open_loader(job, world)
        meter = open_meter(job, world, decoder)
    examiner = Examiner(job, world, decoder)
    figures: dict[str, float] = {}
    skipped_in_a_row = 0
    with Keeper(job, decoder, optimizer) as keeper:
        if examiner.is_due_at_start and not progress.step:
            progress = examiner.judge(progress, examiner.examine(0))
        while progress.step < job.horizon.steps and not examiner.has_seen_enough(progress):
            if world.agree(job.stop.asked):
                keeper.save_interrupted(progress)
                finish(job, progress, "stopped", f"Stopped after step {progress.step} of {job.horizon.steps}.")
                return
            keeper.look()
            step = progress.step + 1
            torch.manual_seed(spec.seed + step)  # dropout is the only chance in a step, and it resumes like the rest
            started = time.perf_counter()
            batches = loader.step(step)
            rate = learning_rate_at(
                step, peak=spec.optimizer.learning_rate, schedule=spec.schedule, steps=job.horizon.steps
            )
            result = take_step(world, decoder, optimizer, batches, learning_rate=rate, clip_norm=spec.clip_norm)
            progress = replace(
                progress,
                step=step,
                tokens=progress.tokens + result.tokens,
                trained_tokens=progress.trained_tokens + result.trained_tokens,
                skipped=progress.skipped + result.is_skipped,
                stream=stream.to_text(stream.to_sum(progress.stream) + result.stream),
            )
            record(job, world, meter, progress, result, rate, seconds=time.perf_counter() - started)
            skipped_in_a_row = skipped_in_a_row + 1 if result.is_skipped else 0
            if skipped_in_a_row == _MOST_SKIPPED_IN_A_ROW:
                raise diverged(step)
            if step == job.cut_after:
                keeper.settle()
                os.kill(os.getpid(), signal.SIGKILL)
            figures = {"loss/mean": result.loss}
            saves = keeper.is_due(step) and step < job.horizon.steps
            if examiner.is_due(step, saves=saves):
                found = examiner.examine(step)
                progress, figures = examiner.judge(progress, found), figures | found.values
            if saves:
                keeper.save(progress, figures)
        keeper.save_last(progress, figures)
    tell_best(job)
    verify_exports(job, world, decoder, optimizer, step=progress.step)
    finish(job, progress, "completed", examiner.why_enough(progress))


class Examiner:
    """When a run is validated, what is said of it, and when it has been enough."""

    def __init__(self, job: Job, world: World, decoder: Decoder) -> None:
        self._job, self._world, self._decoder = job, world, decoder
        self._wish = job.order.spec.validation
        self._rows = open_rows(job.order.spec, job.validation, world) if job.validation else None

    @property
    def is_due_at_start(self) -> bool:
        return self._wish is not None and self._wish.at_start

    def is_due(self, step: int, *, saves: bool) -> bool:
        """A checkpoint that is kept for being good has to be looked at first."""
        if self._wish is None:
            return False
        kept = self._job.order.spec.checkpoints
        judges_saves = kept is not None and kept.keep_best is not None and kept.metric == "val/loss"
        last = step == self._job.horizon.steps
        return last or step % self._wish.every_steps == 0 or (saves and judges_saves)

    def examine(self, step: int) -> Outcome:
        assert self._rows is not None
        found = validate(self._world, self._decoder, self._rows)
        self._job.diary.append(
            Validated(step=step, values=found.values, trained_tokens=found.trained_tokens, seconds=found.seconds)
        )
        self._job.say("SUCCESS", f"Validation | Step {step} | Loss {found.loss:.4f} | {found.trained_tokens} tokens")
        return found

    def judge(self, progress: Progress, found: Outcome) -> Progress:
        """`progress` with the lowest loss so far, and how many validations it has stood."""
        assert self._wish is not None
        if progress.best_loss is None or found.loss < progress.best_loss - self._wish.min_delta:
            best_loss = found.loss if math.isfinite(found.loss) else None
            return replace(progress, best_loss=best_loss, validations_since_best=0)
        return replace(progress, validations_since_best=progress.validations_since_best + 1)

    def has_seen_enough(self, progress: Progress) -> bool:
        patience = self._wish.patience if self._wish else None
        return patience is not None and progress.validations_since_best >= patience

    def why_enough(self, progress: Progress) -> str:
        """Empty where the run went to its end."""
        if progress.step >= self._job.horizon.steps or not self.has_seen_enough(progress):
            return ""
        count = progress.validations_since_best
        looked = "the last validation" if count == 1 else f"the last {count} validations"
        return (
            f"Ended early, after step {progress.step} of {self._job.horizon.steps}: "
            f"val/loss did not fall below {progress.best_loss:.4f} in {looked}."
        )


def tell_best(job: Job) -> None:
    """Which checkpoint is the best, where the run keeps them for that."""
    wish = job.order.spec.checkpoints
    if wish is not None and wish.keep_best is not None and (best := best_checkpoint(job.run, wish.metric)):
        job.say("INFO", f"The best checkpoint is step_{best[0]}: {wish.metric} {best[1]:.4f}")


@dataclass(frozen=True)
class StepResult:
    """Sums over all ranks."""

    loss: float
    """Mean over the step's trained tokens."""
    gradient_norm: float
    tokens: int
    trained_tokens: int
    squared_lengths: int
    stream: np.ndarray
    """Sum of the digests of what was given to the model."""

    @property
    def is_skipped(self) -> bool:
        return not np.isfinite(self.loss + self.gradient_norm)


def take_step(
    world: World,
    decoder: Decoder,
    optimizer: optim.Optimizer,
    batches: list[Batch],
    *,
    learning_rate: float,
    clip_norm: float | None,
) -> StepResult:
    """Forward and backward of each micro-batch, then one update. Nothing is touched if the sum is not finite.

    Every token weighs the same: losses are summed and divided once, by the count of all ranks and micro-batches.
    """
    squares = sum(int(np.square(batch.lengths_D).sum()) for batch in batches)
    counts = [sum(batch.tokens for batch in batches), sum(batch.trained_tokens for batch in batches), squares]
    lanes = stream.added(batch.stream() for batch in batches).tolist()
    tokens, trained_tokens, squared_lengths, *lanes = map(int, world.sum([*counts, *lanes]))
    loss = torch.zeros((), dtype=torch.float64, device=world.device)
    for batch in batches:
        share = decoder.summed_loss(batch, scale=1.0 / max(1, trained_tokens))
        share.backward()
        loss += share.detach()
    norm = optim.gradient_norm(decoder)
    (total,) = world.sum([loss.item()])
    learnt = np.array(lanes, np.uint64).astype(np.uint32)
    result = StepResult(total, norm.item(), tokens, trained_tokens, squared_lengths, learnt)
    if result.is_skipped:
        optimizer.zero_grad(set_to_none=True)
    else:
        optim.step(optimizer, learning_rate=learning_rate, norm=norm, clip_norm=clip_norm)
    return result


def record(
    job: Job, world: World, meter: Meter, progress: Progress, result: StepResult, rate: float, *, seconds: float
) -> None:
    """The step in the diary and in the log."""
    report = StepReport(
        step=progress.step,
        loss=result.loss,
        gradient_norm=result.gradient_norm,
        learning_rate=rate,
        seconds=seconds,
        tokens=result.tokens,
        trained_tokens=result.trained_tokens,
        slots=rows_of_step(job, progress.step) * job.order.spec.row_tokens,
        squared_lengths=result.squared_lengths,
        epoch=progress.step / job.horizon.steps_per_epoch,
        skipped=progress.skipped,
        peak_memory_bytes=_peak_memory(world),
    )
    meter.add(report)
    job.diary.append(
        Step(
            step=report.step,
            values=meter.values(),
            tokens=report.tokens,
            trained_tokens=report.trained_tokens,
            seconds=seconds,
            stream=progress.stream,
        )
    )
    job.say("SUCCESS", meter.line())
    if result.is_skipped:
        job.say("WARNING", f"Step {report.step} changed nothing: its loss or its gradient is not finite.")


def rows_of_step(job: Job, step: int) -> int:
    """Rows in `step`, over all readers; the last step of an epoch may be short."""
    place = (step - 1) % job.horizon.steps_per_epoch
    per_step = job.order.spec.rows_per_step
    return min(per_step, job.horizon.rows_per_epoch - place * per_step)


def finish(job: Job, progress: Progress, outcome: str, message: str = "") -> None:
    if message:
        job.say("INFO", message)
    job.say("INFO", "SFT trainer finished!")
    job.diary.append(Finished.model_validate({"outcome": outcome, "step": progress.step, "message": message}))


def diverged(step: int) -> RunError:
    return RunError(
        f"Steps {step - _MOST_SKIPPED_IN_A_ROW + 1} to {step} had a loss or a gradient that is not finite; "
        "nothing was learned from them.",
        hint="Lower optim.lr, set or lower optim.max_norm, or look at the rows of these steps.",
    )


def open_decoder(job: Job, world: World) -> Decoder:
    """The model to train, with adapters where they are asked for; what is adapted goes into the diary and the log."""
    wish = job.order.spec.lora
    decoder = load_decoder(job.order.model_directory, world, quantize=wish.quantize if wish else None)
    if wish is not None:
        # peft takes a second to import, and most runs need none.
        from burnish.train.adapter import Adapter

        seed = job.order.spec.seed
        decoder.adapter = Adapter.put_into(decoder.model, wish, seed=seed, compute_dtype=world.compute_dtype)
        job.diary.append(decoder.adapter.told)
        for line in adapter_lines(decoder.adapter.told):
            job.say("INFO", line)
    return decoder


def adapter_lines(told: Adapted) -> Iterator[str]:
    """What a user should know of the adapters, as log lines."""
    modules = ", ".join(f"{name} x {count}" for name, count in told.modules.items())
    whole = f", and {', '.join(told.saved_whole)} whole" if told.saved_whole else ""
    share = told.trainable_parameters / told.parameters
    yield (
        f"Adapters of rank {told.rank} on {modules}{whole}: "
        f"{told.trainable_parameters:,} parameters are trained, {share:.3%} of the model's {told.parameters:,}"
    )
    if told.passed_over:
        yield f"The model has no {', '.join(told.passed_over)}; these usual targets are passed over."


def open_loader(job: Job, world: World) -> RowLoader:
    return row_loader(job.order.spec, job.data, readers=world.readers, reader=world.reader)


def open_meter(job: Job, world: World, decoder: Decoder) -> Meter:
    if world.device.type == "cuda":
        peak = peak_flops_of(torch.cuda.get_device_name(world.device))
        memory = torch.cuda.get_device_properties(world.device).total_memory
    else:
        peak = probe_cpu_flops() if world.compute_dtype == torch.float32 else None
        memory = memory_bytes()
    shows_norm = job.order.spec.clip_norm is not None
    return Meter(
        _facts(job),
        None if peak is None else peak * world.ranks,
        memory,
        shows_norm=shows_norm,
        adapter_parameters=decoder.adapter.told.trainable_parameters if decoder.adapter else None,
    )


def probe_cpu_flops(size: int = 1024, tries: int = 5) -> float:
    """The CPU's own peak, measured: the best of a few float32 products of square matrices, under 0.2 s in all."""
    left, right = torch.rand(size, size), torch.rand(size, size)
    out = left @ right
    best = float("inf")
    for _ in range(tries):
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def _facts(job: Job) -> ModelFacts | None:
    try:
        return read_model_facts(job.order.model_directory)
    except ModelError:
        return None  # a family whose work we cannot count has no MFU


def _peak_memory(world: World) -> int:
    return torch.cuda.max_memory_reserved() if world.device.type == "cuda" else peak_memory_bytes()
