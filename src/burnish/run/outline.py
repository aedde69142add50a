"""The plan of a run in figures and sentences, for people to read before it starts. Decides nothing."""

from burnish.run.events import DataFacts
from burnish.run.plan import Horizon, Layout, learning_rate_at, warmup_steps_of
from burnish.run.report import LearningRate, PlanReport
from burnish.spec.train import WSD, Cosine, Linear, SourceData, TrainSpec


def outline_run(
    spec: TrainSpec, layout: Layout, horizon: Horizon, facts: DataFacts, *, notes: tuple[str, ...], storage_bytes: int
) -> PlanReport:
    """`notes` are what the dialect said of keys, of which `lint` has the idle ones; what every config leaves open
    is added to them."""
    return PlanReport(
        steps=horizon.steps,
        steps_per_epoch=horizon.steps_per_epoch,
        epochs=horizon.epochs,
        warmup_steps=warmup_steps_of(spec.schedule, horizon.steps),
        decay_steps=_decay_steps(spec, horizon),
        packed_rows_per_epoch=horizon.rows_per_epoch,
        packed_rows_per_step=layout.rows_per_step,
        packed_rows_per_reader=layout.rows_per_step // layout.readers,
        readers=layout.readers,
        slots_per_step=layout.tokens_per_step,
        tokens_per_step=facts.tokens / horizon.steps_per_epoch,
        trained_tokens_per_step=facts.trained_tokens / horizon.steps_per_epoch,
        learning_rate=_learning_rate(spec, horizon),
        meanings=[*(note for note in notes if " has no effect" not in note), *_meanings(spec, layout, horizon)],
        storage_bytes=storage_bytes,
    )


def _decay_steps(spec: TrainSpec, horizon: Horizon) -> int:
    match spec.schedule:
        case Linear(decay_steps=steps):
            return steps
        case Cosine():
            return max(0, horizon.steps - warmup_steps_of(spec.schedule, horizon.steps))
        case WSD(decay_ratio=ratio):
            return max(1, round(ratio * horizon.steps))
        case _:
            return 0


def _learning_rate(spec: TrainSpec, horizon: Horizon) -> LearningRate:
    """`peak` is the highest that a step really has, which a long warmup may keep below the config's."""

    def at(step: int) -> float:
        return learning_rate_at(step, peak=spec.optimizer.learning_rate, schedule=spec.schedule, steps=horizon.steps)

    warmup = warmup_steps_of(spec.schedule, horizon.steps)
    return LearningRate(first=at(1), peak=at(min(horizon.steps, warmup + 1)), last=at(horizon.steps))


def _meanings(spec: TrainSpec, layout: Layout, horizon: Horizon) -> list[str]:
    said = [
        f"data.batch_size = {spec.rows_per_step}: packed rows in one optimizer step, over all devices.",
        f"data.seq_len = {spec.row_tokens}: tokens that a packed row has room for.",
    ]
    if isinstance(spec.data, SourceData):
        said += _data_meanings(spec.data)
    if spec.steps is not None and spec.epochs is not None:
        ended = "max_steps" if horizon.steps == spec.steps else "epochs"
        said.append(f"Both max_steps and epochs are set: {ended} ends the run first, at step {horizon.steps}.")
    elif spec.epochs is not None:
        said.append(f"epochs = {spec.epochs:g}: {horizon.steps} steps, counted from the rows.")
    if horizon.rows_per_epoch % layout.rows_per_step and horizon.steps >= horizon.steps_per_epoch:
        rest = horizon.rows_per_epoch % layout.rows_per_step
        said.append(f"The last step of an epoch has {rest} of {layout.rows_per_step} rows, and is divided by its own.")
    return said


def _data_meanings(data: SourceData) -> list[str]:
    trained = [role for role, wanted in data.loss_mask.model_dump().items() if wanted]
    said = [f"data.loss_mask: the words of {_and(trained)} are trained."] if trained else []
    said.append(
        "data.pack: short conversations share a row and cannot see each other."
        if data.pack
        else "data.pack = false: each conversation has a row of its own."
    )
    left = {"drop": "left out", "truncate": "cut to fit", "error": "refused"}[data.overflow]
    said.append(f'data.overflow = "{data.overflow}": a conversation longer than a row is {left}.')
    return said


def _and(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
