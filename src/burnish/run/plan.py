"""Pure arithmetic from a wish to a layout (at submission) and a horizon (once rows are counted).

Refusals name a way out. Knows no machine, no file and no tensor.
"""

import math
from typing import Annotated, Literal

from pydantic import Field

from burnish.errors import PlanError
from burnish.spec.train import WSD, Constant, Cosine, Frozen, Linear, Schedule, TrainSpec

_MOST_TOKENS_PER_STEP = 2**30


class Layout(Frozen):
    """Who works on what, known at submission.

    Readers are the ranks that read different rows. Ranks that share a row (tensor or context parallel) are one
    reader; today every rank reads.
    """

    device: Literal["cpu", "cuda"]
    ranks: Annotated[int, Field(ge=1)]
    readers: Annotated[int, Field(ge=1)]
    rows_per_step: int
    rows_per_device: int
    row_tokens: int

    @property
    def micro_batches(self) -> int:
        """Forward passes of one rank in a full step."""
        return self.rows_per_step // (self.readers * self.rows_per_device)

    @property
    def tokens_per_step(self) -> int:
        """Token slots in a full step, padding included."""
        return self.rows_per_step * self.row_tokens


class Horizon(Frozen):
    """How long the run is, known once rows are counted."""

    rows_per_epoch: int
    steps_per_epoch: int
    """The last step of an epoch may be short; no step reaches over an epoch's end."""
    steps: int

    @property
    def epochs(self) -> float:
        return self.steps / self.steps_per_epoch


def plan_layout(spec: TrainSpec, *, device: Literal["cpu", "cuda"], offered: int | None = None) -> Layout:
    """Divide a step's rows over the devices asked for; `PlanError` where they do not divide.

    `offered` is how many devices there are, where that is known; asking for more is refused.
    """
    ranks = spec.devices.machines * spec.devices.per_machine
    if offered is not None and ranks > offered:
        raise PlanError(
            f"The config asks for {_count(ranks, 'device')}; this machine offers {describe_slots(device, offered)}.",
            hint=f"Ask for no more than {offered} (deployment.num_train_gpus)." if offered else "See burnish status.",
        )
    share = ranks * spec.rows_per_device
    if spec.rows_per_step % share:
        near = max(share, round(spec.rows_per_step / share) * share)
        raise PlanError(
            f"{spec.rows_per_step} rows per step do not divide over {_count(ranks, 'device')} "
            f"x {spec.rows_per_device} rows each.",
            hint=f"Use {near} rows per step (data.batch_size), or fewer devices.",
        )
    if spec.rows_per_step * spec.row_tokens > _MOST_TOKENS_PER_STEP:
        raise PlanError(
            f"{spec.rows_per_step:,} rows of {spec.row_tokens:,} tokens are more than one step can hold.",
            hint="Lower data.batch_size or data.seq_len; steps of a few million tokens train the largest models.",
        )
    _check_schedule(spec)
    return Layout(
        device=device,
        ranks=ranks,
        readers=ranks,
        rows_per_step=spec.rows_per_step,
        rows_per_device=spec.rows_per_device,
        row_tokens=spec.row_tokens,
    )


def plan_horizon(spec: TrainSpec, *, rows_per_epoch: int | None) -> Horizon:
    """Steps of the run. `rows_per_epoch=None` is data without an end, such as `fake`."""
    if rows_per_epoch == 0:
        raise PlanError("The data set holds no row to train on.", hint="Look at what was skipped, and why, above.")
    if rows_per_epoch is None:
        if spec.steps is None:
            raise PlanError("This data has no end, so epochs do not count it.", hint="Set max_steps.")
        return Horizon(rows_per_epoch=spec.steps * spec.rows_per_step, steps_per_epoch=spec.steps, steps=spec.steps)
    steps_per_epoch = math.ceil(rows_per_epoch / spec.rows_per_step)
    by_epochs = math.inf if spec.epochs is None else max(1, math.ceil(spec.epochs * steps_per_epoch))
    steps = min(by_epochs, math.inf if spec.steps is None else spec.steps)
    if steps == math.inf:
        raise PlanError("The config does not say when the run ends.", hint="Set max_steps.")
    return Horizon(rows_per_epoch=rows_per_epoch, steps_per_epoch=steps_per_epoch, steps=int(steps))


def learning_rate_at(step: int, *, peak: float, schedule: Schedule, steps: int) -> float:
    """The learning rate of optimizer step `step` (1-based) of `steps`.

    Warmup rises from `minimum` at step 1 to `peak` at the step after it, as prime-rl's does. Every decay reaches
    `minimum` on the last step.
    """
    if isinstance(schedule, Constant):
        return peak
    warmup = warmup_steps_of(schedule, steps)
    if step <= warmup:
        return _between(schedule.minimum, peak, (step - 1) / warmup)
    match schedule:
        case Linear(decay_steps=decay):
            # Of three steps down the first is at the peak and the last at the minimum, as prime-rl has them.
            nth = step - (steps - decay)
            gone = (nth - 1) / (decay - 1) if decay > 1 else float(nth == decay)
            return _between(peak, schedule.minimum, max(0.0, gone))
        case Cosine():
            gone = (step - warmup - 1) / max(1, steps - warmup - 1)
            return _between(schedule.minimum, peak, 0.5 * (1 + math.cos(math.pi * min(1.0, gone))))
        case WSD(decay_ratio=ratio):
            decay = max(1, round(ratio * steps))
            gone = (step - (steps - decay)) / decay
            return _between(peak, schedule.minimum, math.sqrt(max(0.0, gone)))


def warmup_steps_of(schedule: Schedule, steps: int) -> int:
    """Steps on the way up, of `steps` in all."""
    if isinstance(schedule, Constant):
        return 0
    return schedule.warmup_steps if schedule.warmup_ratio is None else math.ceil(schedule.warmup_ratio * steps)


def describe_slots(device: Literal["cpu", "cuda"], count: int) -> str:
    """`one CPU slot`, `8 GPU slots`, `no slot at all`."""
    if not count:
        return "no slot at all"
    kind = "GPU" if device == "cuda" else "CPU"
    return f"one {kind} slot" if count == 1 else f"{count} {kind} slots"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number > 1 else "")


def _between(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


def _check_schedule(spec: TrainSpec) -> None:
    peak, schedule, steps = spec.optimizer.learning_rate, spec.schedule, spec.steps
    if isinstance(schedule, Constant):
        return
    if schedule.minimum > peak:
        raise PlanError(
            f"scheduler.min_lr ({schedule.minimum:g}) is above optim.lr ({peak:g}).",
            hint="The schedule goes down to min_lr: set it below lr, or leave it out.",
        )
    warmup = schedule.warmup_steps if steps is None else warmup_steps_of(schedule, steps)
    if isinstance(schedule, Cosine) and steps is not None and warmup >= steps:
        raise PlanError(
            f"The warmup of {warmup} steps leaves nothing of max_steps ({steps}) for the cosine.",
            hint="Set fewer warmup steps, or more steps.",
        )
    if not isinstance(schedule, Linear):
        return
    if not warmup and not schedule.warmup_ratio and not schedule.decay_steps:
        raise PlanError(
            "A linear schedule with neither warmup_steps nor decay_steps is constant.",
            hint='Set one of them, or type = "constant".',
        )
    if schedule.decay_steps and steps is not None and warmup + schedule.decay_steps > steps:
        raise PlanError(
            f"warmup_steps ({warmup}) and decay_steps ({schedule.decay_steps}) together exceed max_steps ({steps}).",
            hint="Shorten one of them. Where decay_steps is not written it is 10; decay_steps = 0 is no decay.",
        )
