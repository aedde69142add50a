"""What in a config is allowed and seldom meant. Pure: it reads a wish and what a check counted, and refuses nothing."""

from collections.abc import Iterator, Sequence

from burnish.run.report import HELD_OUT, LedgerReport, PlanReport, Warned
from burnish.spec.train import AdamW, Constant, Linear, SourceData, TrainSpec

_USUAL_RATES = ((10_000_000, 1e-2), (2_000_000_000, 1e-3), (None, 1e-4))
"""For models of fewer parameters than the first: the highest rate of AdamW on all weights that is usual."""
_LOWEST_RATE = 1e-6
_LORA_RATES = (1e-5, 1e-3)
_MANY_EPOCHS = 10
_LEAST_TRAINED_SHARE = 0.01
_LEAST_FILL = 0.5
_MANY_REPEATS = 0.05
_MANY_LONG = 0.05
_MANY_BAD_ROWS = 0.1
_ROOMY = 4
"""A row this many times as long as the longest conversation is longer than anybody needs."""


def lint(
    spec: TrainSpec,
    *,
    notes: Sequence[str] = (),
    parameters: int | None = None,
    plan: PlanReport | None = None,
    ledger: LedgerReport | None = None,
) -> list[Warned]:
    """Warnings, as far as what is known goes. `notes` are the dialect's sentences about keys."""
    found = [*_idle_keys(notes), *_rate(spec, parameters)]
    if plan:
        found += [*_schedule(spec, plan), *_length(spec, plan)]
    if ledger and isinstance(spec.data, SourceData):
        found += [*_rows(spec, spec.data, ledger), *_content(spec.data, ledger)]
    return found


def _idle_keys(notes: Sequence[str]) -> Iterator[Warned]:
    for note in notes:
        if " has no effect" in note:
            key, _, reason = note.partition(" has no effect")
            reason = reason.removeprefix(" here").lstrip(": ")
            yield Warned(key=key, text=f"{key} has no effect.", reason=reason[:1].upper() + reason[1:])


def _rate(spec: TrainSpec, parameters: int | None) -> Iterator[Warned]:
    rate = spec.optimizer.learning_rate
    if rate == 0:
        yield Warned(key="optim.lr", text="The learning rate is 0.", reason="No weight will change.")
    elif isinstance(spec.optimizer, AdamW):
        low, high, why = _usual_rates(spec, parameters)
        if not low <= rate <= high:
            yield Warned(
                key="optim.lr",
                text=f"The learning rate {rate:g} is {'below' if rate < low else 'above'} what is usual, "
                f"{low:g} to {high:g}.",
                reason=why,
            )


def _usual_rates(spec: TrainSpec, parameters: int | None) -> tuple[float, float, str]:
    if spec.lora:
        return (
            *_LORA_RATES,
            "That is the range of published recipes for adapters with AdamW (LoRA and QLoRA: 1e-4 to 2e-4).",
        )
    high = next(most for below, most in _USUAL_RATES if below is None or (parameters or below) < below)
    return (
        _LOWEST_RATE,
        high,
        "That is the range of published recipes that train all weights of a model of this size with AdamW (Llama 2 "
        "and Alpaca: 2e-5, Tulu 3 8B: 5e-6, SmolLM2 1.7B: 3e-4).",
    )


def _schedule(spec: TrainSpec, plan: PlanReport) -> Iterator[Warned]:
    schedule = spec.schedule
    if isinstance(schedule, Constant):
        return
    if plan.warmup_steps >= plan.steps:
        yield Warned(
            key="scheduler.warmup_steps",
            text=f"Warmup takes {plan.warmup_steps} steps and the run {plan.steps}.",
            reason=f"The learning rate never comes to optim.lr; it ends at {plan.learning_rate.last:.3g}.",
        )
    elif isinstance(schedule, Linear) and schedule.decay_steps and schedule.decay_steps > plan.steps:
        yield Warned(
            key="scheduler.decay_steps",
            text=f"Decay takes {schedule.decay_steps} steps and the run {plan.steps}.",
            reason="It begins before the first step, so the rate never stands at optim.lr.",
        )
    elif isinstance(schedule, Linear) and not schedule.decay_steps and schedule.minimum:
        yield Warned(
            key="scheduler.min_lr",
            text="The learning rate never decays.",
            reason="decay_steps is 0, so min_lr is where warmup begins and nothing else.",
        )


def _length(spec: TrainSpec, plan: PlanReport) -> Iterator[Warned]:
    if plan.packed_rows_per_epoch < plan.packed_rows_per_step:
        yield Warned(
            key="data.batch_size",
            text=f"A step asks for {plan.packed_rows_per_step} packed rows and the data has "
            f"{plan.packed_rows_per_epoch}.",
            reason="Each step is a whole epoch; a smaller batch_size gives more steps.",
        )
    if plan.epochs > _MANY_EPOCHS:
        yield Warned(
            key="max_steps" if spec.steps else "epochs",
            text=f"The data is read {plan.epochs:.0f} times.",
            reason="After a few epochs a model learns rows by heart; one to three are usual.",
        )
    every = spec.checkpoints.every_steps if spec.checkpoints else None
    if every is not None and every > plan.steps:
        yield Warned(
            key="ckpt.interval",
            text=f"A checkpoint is asked for every {every} steps and the run has {plan.steps}.",
            reason="There will be one, at the end; a run that breaks off before begins anew.",
        )


def _rows(spec: TrainSpec, data: SourceData, ledger: LedgerReport) -> Iterator[Warned]:
    if ledger.longest_sample and spec.row_tokens > _ROOMY * ledger.longest_sample and not data.pack:
        yield Warned(
            key="data.seq_len",
            text=f"seq_len is {spec.row_tokens} and the longest sample has {ledger.longest_sample} tokens.",
            reason="Without packing, the rest of every row stays empty.",
        )
    long = ledger.samples_skipped.get("too long", 0) + ledger.samples_cut
    everything = ledger.samples + sum(ledger.samples_skipped.values())
    if long > _MANY_LONG * everything:
        yield Warned(
            key="data.seq_len",
            text=f"{long} of {everything} samples are longer than seq_len ({spec.row_tokens} tokens).",
            reason=f"They are {'cut' if data.overflow == 'truncate' else 'left out'} (data.overflow = "
            f'"{data.overflow}"); the longest has {ledger.longest_sample} tokens, and a larger seq_len keeps it.',
        )
    if ledger.slots and not data.pack and ledger.tokens < _LEAST_FILL * ledger.slots:
        yield Warned(
            key="data.pack",
            text=f"Rows are {ledger.tokens / ledger.slots:.0%} full.",
            reason="data.pack = true shares rows between conversations, which still cannot see each other.",
        )
    if data.on_bad_row == "skip" and ledger.rows_skipped.get("bad row", 0) > _MANY_BAD_ROWS * ledger.rows_read:
        yield Warned(
            key="data.on_bad_row",
            text=f"{ledger.rows_skipped['bad row']} of {ledger.rows_read} rows cannot be used and are skipped.",
            reason="So many are seldom an accident; the ledger names the first and says why.",
        )


def _content(data: SourceData, ledger: LedgerReport) -> Iterator[Warned]:
    if ledger.tokens and ledger.trained_tokens < _LEAST_TRAINED_SHARE * ledger.tokens:
        yield Warned(
            key="data.loss_mask",
            text=f"{ledger.trained_tokens / ledger.tokens:.2%} of the tokens are trained.",
            reason="Nearly all of the work is spent on reading what is not learnt.",
        )
    if ledger.open_samples:
        yield Warned(
            key="renderer.name",
            text=f"{ledger.open_samples} of {ledger.samples} samples do not end with a stop token that is trained.",
            reason="A model that never learns to stop goes on talking; cut rows and templates without an end do this.",
        )
    if ledger.rows_respelt:
        yield Warned(
            key="model.name",
            text=f"{ledger.rows_respelt} of {ledger.rows_read} rows hold letters that the model's tokenizer writes as "
            "others, or not at all.",
            reason="It has no tokens for them, so they are not learnt as they stand in the data.",
        )
    near = ledger.near_duplicates.rows if ledger.near_duplicates else 0
    repeated = ledger.duplicates.rows + near
    if repeated > _MANY_REPEATS * ledger.rows_read:
        yield Warned(
            key="data.name",
            text=f"{repeated} of {ledger.rows_read} rows repeat an earlier one ({ledger.duplicates.rows} to the "
            f"letter, {near} nearly).",
            reason="They are learnt more often than the others.",
        )
    for shared in ledger.shared:
        if shared.exact + shared.near:
            held_out = shared.split == HELD_OUT
            yield Warned(
                key="val.data.name" if held_out else "data.splits",
                text=f"{shared.exact + shared.near} of {shared.rows} rows of "
                f"{'the validation data' if held_out else f'the split {shared.split}'} are trained on.",
                reason="A score on them will tell what was learnt by heart.",
            )
    if secrets := sum(ledger.private.secrets.values()):
        yield Warned(
            key="data.name",
            text=f"The data holds what looks like {secrets} secret{'s' if secrets > 1 else ''}.",
            reason="A model can be made to say what it was trained on; take them out and revoke them.",
        )
