"""Prime's `sft.toml` becomes a `TrainSpec`. Which keys there are, and their fate, stands in `prime_schema`."""

import copy
from collections.abc import Iterator
from typing import Any

from burnish.dialects.document import Document
from burnish.dialects.faults import Fault, refuse, shown
from burnish.dialects.judge import judge
from burnish.dialects.prime_renderer_schema import SWITCHES
from burnish.dialects.prime_schema import (
    SGD,
    WSD,
    AdamW,
    Constant,
    Cosine,
    Data,
    FakeData,
    Linear,
    MultiNode,
    Muon,
    PrimeConfig,
    SignSGD,
    SingleNode,
    SourceData,
    Warm,
)
from burnish.dialects.reading import Reading
from burnish.spec import train as spec

_TAGS = {"data": "sft", "optim": "adamw", "scheduler": "constant", "deployment": "single_node"}
"""What a table without `type` is, in prime-rl."""

_TAKEN_VARIABLES = {
    "CUDA_VISIBLE_DEVICES",
    "PRL_RUN_ID",
    "PRL_RUN_NAME",
    "WANDB_RUN_ID",
    "WANDB_SHARED_MODE",
    "WANDB_SHARED_LABEL",
    "WANDB_SHARED_PRIMARY",
    "WANDB_SHARED_FINISHER",
}


def read_prime(document: Document) -> Reading:
    """A `ConfigError` names every key at fault; nothing is passed over in silence."""
    # A variable's text is the trainer's own affair: "None" stays text there.
    variables = {key: document[key] for key in ("env_vars",) if key in document}
    tagged = _with_tags(_with_nulls(document) | variables)
    judgement = judge(PrimeConfig, tagged)
    config, faults = judgement.config, list(judgement.faults)
    if judgement.is_sound:
        faults += _find_conflicts(config)
    if faults:
        raise refuse(faults)
    name = config.run.name or config.name
    return Reading(
        spec=_translate(config, name),
        dialect="prime",
        notes=(*judgement.notes, *_explain(config, tagged)),
        volume=config.volume,
        name=name,
    )


def _with_nulls(value: Any) -> Any:
    """TOML has no null, so prime-rl reads the text "None" as one, at any depth."""
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    return None if value == "None" else value


def _with_tags(document: Document) -> Document:
    tagged = copy.copy(document)
    for section, kind in _TAGS.items():
        if isinstance(document.get(section), dict):
            tagged[section] = {"type": kind} | document[section]
    return tagged


# -- keys against each other ------------------------------------------------


def _find_conflicts(config: PrimeConfig) -> Iterator[Fault]:
    yield from _check_length(config)
    yield from _check_data(config.data)
    yield from _check_source(config.val.data, "val.data") if config.val else ()
    yield from _check_optimizer(config)
    yield from _check_lora(config)
    yield from _check_deployment(config)
    yield from _check_keeping(config)
    yield from _check_resume(config)
    yield from _check_names(config)
    for variable, text in config.env_vars.items():
        yield from _check_variable(variable, text)


def _check_length(config: PrimeConfig) -> Iterator[Fault]:
    spellings = [("epochs", config.epochs), ("max_epochs", config.max_epochs), ("n_epochs", config.n_epochs)]
    yield from _check_agreement(spellings)
    if config.max_steps is not None and config.max_steps < 1:
        message = f"max_steps = {config.max_steps} trains nothing."
        yield Fault("invalid", "max_steps", message, "Set max_steps to 1 or more.")
    if config.max_steps is not None:
        return
    if _epochs(config) is None:
        message = "max_steps is missing: the config does not say when the run ends."
        yield Fault(
            "invalid", "max_steps", message, "Set max_steps = 100, say, or epochs = 1, above the first section."
        )
    elif isinstance(config.data, FakeData):
        message = "max_steps is missing: made-up data has no end, so epochs do not count it."
        yield Fault("invalid", "max_steps", message, "Set max_steps.")


def _check_data(data: Data) -> Iterator[Fault]:
    if data.batch_size % data.micro_batch_size:
        message = (
            f"data.batch_size = {data.batch_size} is not a multiple of data.micro_batch_size = {data.micro_batch_size}."
        )
        near = max(1, round(data.batch_size / data.micro_batch_size)) * data.micro_batch_size
        yield Fault("invalid", "data.batch_size", message, f"Use data.batch_size = {near}.")
    if isinstance(data, SourceData):
        yield from _check_source(data, "data")


def _check_source(data: SourceData, table: str) -> Iterator[Fault]:
    """`table` is where the keys stand: `data` or `val.data`."""
    if data.name is None:
        message = f"{table}.name is missing: the config does not say what to read."
        hint = f'Set name = "datasets/my-data" under [{table}], or data.type = "fake" for a smoke test.'
        yield Fault("invalid", f"{table}.name", message, hint)
    elif not data.name.isprintable():
        message = f"{table}.name = {shown(data.name)} holds a control code."
        yield Fault("invalid", f"{table}.name", message, "Write the path as the volume shows it.")
    yield from _check_mixing(data, table)
    if not any(data.loss_mask.model_dump().values()):
        message = f"{table}.loss_mask leaves nobody's words to train."
        yield Fault("invalid", f"{table}.loss_mask", message, "Set one of its keys to true.")
    both = data.pack_function is not None and "pack" in data.model_fields_set
    if both and data.pack != (data.pack_function == "cat"):
        message = f"{table}.pack_function = {shown(data.pack_function)} contradicts {table}.pack = {shown(data.pack)}."
        yield Fault("invalid", f"{table}.pack_function", message, f"Keep {table}.pack alone.")


def _check_mixing(data: SourceData, table: str) -> Iterator[Fault]:
    subsets, splits, shares = data.subsets or [], data.splits or [], data.probabilities or []
    if subsets and splits and len(subsets) != len(splits):
        message = (
            f"{table}.subsets names {len(subsets)} and {table}.splits {len(splits)}: they go together, one to one."
        )
        yield Fault("invalid", f"{table}.splits", message, "Name a split for each subset, or leave splits out.")
    mixed = len(subsets) or len(splits)
    key = f"{table}.probabilities"
    if shares and not mixed:
        message = f"{key} has nothing to choose from: neither {table}.subsets nor {table}.splits is set."
        yield Fault("invalid", key, message, "Name the subsets, or leave probabilities out.")
    elif shares and len(shares) != mixed:
        message = f"{key} holds {len(shares)} numbers for {mixed} subsets or splits."
        yield Fault("invalid", key, message, "Give one for each.")
    if any(share <= 0 for share in shares):
        message = f"{key} = {shown(shares)} holds one that is not above 0."
        yield Fault("invalid", key, message, "Leave a subset out that is never to be drawn.")
    elif shares and abs(sum(shares) - 1) > 1e-6:
        message = f"{key} add up to {sum(shares):g}, not to 1."
        yield Fault("invalid", key, message, "Divide each by their sum.")


def _check_optimizer(config: PrimeConfig) -> Iterator[Fault]:
    optim, scheduler = config.optim, config.scheduler
    if optim.max_norm == 0:
        message = "optim.max_norm = 0 would clip every gradient to nothing."
        yield Fault("invalid", "optim.max_norm", message, 'Set max_norm = "None" to clip never, or 1.0.')
    if isinstance(optim, SGD) and optim.nesterov and not optim.momentum:
        message = "optim.nesterov = true needs momentum, and optim.momentum = 0."
        yield Fault("invalid", "optim.nesterov", message, "Set nesterov = false, or momentum above 0.")
    if (
        isinstance(scheduler, Warm)
        and scheduler.warmup_ratio is not None
        and "warmup_steps" in scheduler.model_fields_set
    ):
        message = "scheduler.warmup_steps and scheduler.warmup_ratio both say how long the warmup is."
        yield Fault("invalid", "scheduler.warmup_ratio", message, "Keep one of the two.")
    if isinstance(scheduler, Warm) and scheduler.min_lr > optim.lr:
        message = f"scheduler.min_lr = {scheduler.min_lr:g} is above optim.lr = {optim.lr:g}."
        yield Fault("invalid", "scheduler.min_lr", message, "The schedule goes down to min_lr: set it below lr.")


def _check_lora(config: PrimeConfig) -> Iterator[Fault]:
    lora = config.model.lora
    if lora is None:
        if config.export.merged:
            message = "export.merged = true has nothing to merge: without [model.lora] every weight is trained."
            yield Fault("invalid", "export.merged", message, "Leave it out: the exported model is whole.")
        return
    if config.export.gguf and not config.export.merged:
        message = f'export.gguf = "{config.export.gguf}" wants a whole model, and [model.lora] trains an adapter.'
        yield Fault("invalid", "export.gguf", message, "Set export.merged = true as well.")
    if lora.alpha == 0:
        message = "model.lora.alpha = 0 would scale every adapter to nothing."
        yield Fault("invalid", "model.lora.alpha", message, "Set it to twice the rank, say.")
    if lora.dropout == 1:
        message = "model.lora.dropout = 1 would leave every adapter without input."
        yield Fault("invalid", "model.lora.dropout", message, "Set dropout = 0.05, say, or leave it out.")
    if not lora.target_modules:
        message = "model.lora.target_modules = [] adapts nothing."
        yield Fault("invalid", "model.lora.target_modules", message, "Name some, or leave the key out.")


def _check_deployment(config: PrimeConfig) -> Iterator[Fault]:
    deployment = config.deployment
    if isinstance(deployment, MultiNode):
        if deployment.num_nodes is None and "num_train_nodes" not in deployment.model_fields_set:
            message = "deployment.num_train_nodes is missing: it would be 2, and burnish trains on one machine."
            yield Fault("invalid", "deployment.num_train_nodes", message, 'Use type = "single_node".')
        return
    older, newer = deployment.num_gpus, deployment.num_train_gpus
    if older is not None and "num_train_gpus" in deployment.model_fields_set:
        yield from _check_agreement([("deployment.num_train_gpus", newer), ("deployment.num_gpus", older)])
    train = older or newer
    if train > deployment.gpus_per_node:
        message = (
            f"deployment.num_train_gpus = {train} is more than deployment.gpus_per_node = {deployment.gpus_per_node}."
        )
        yield Fault("invalid", "deployment.num_train_gpus", message, f"Ask for {deployment.gpus_per_node} at most.")


def _check_keeping(config: PrimeConfig) -> Iterator[Fault]:
    ckpt = config.ckpt
    if ckpt is not None and ckpt.keep_best is not None and ckpt.metric == "val/loss" and config.val is None:
        message = "ckpt.keep_best goes by val/loss, and without [val] nothing is validated."
        yield Fault("invalid", "ckpt.keep_best", message, 'Add [val], or set ckpt.metric = "loss/mean".')


def _check_resume(config: PrimeConfig) -> Iterator[Fault]:
    resume, older = config.resume, config.ckpt.resume_step if config.ckpt else None
    if older == 0:
        yield Fault("invalid", "ckpt.resume_step", "ckpt.resume_step = 0 names no checkpoint.", "Leave it out.")
    if resume is None:
        return
    if older is not None:
        message = "ckpt.resume_step and [resume] both say where to resume."
        yield Fault("invalid", "ckpt.resume_step", message, "Keep [resume] alone.")
    if resume.step is not None and resume.dir is not None:
        message = "resume.step and resume.dir both say where to resume."
        yield Fault("invalid", "resume.step", message, "Keep one of the two.")


def _check_names(config: PrimeConfig) -> Iterator[Fault]:
    yield from _check_agreement([("name", config.name), ("run.name", config.run.name)])
    tokenizer = config.tokenizer.name
    if tokenizer is not None and tokenizer != config.model.name:
        message = f"tokenizer.name = {shown(tokenizer)} cannot be obeyed: a model is trained with its own tokenizer."
        yield Fault("invalid", "tokenizer.name", message, "Leave tokenizer.name out.")


def _check_variable(variable: str, text: str) -> Iterator[Fault]:
    key = f"env_vars.{variable}"
    if variable in _TAKEN_VARIABLES:
        yield Fault("invalid", key, f"{key} is set by burnish itself.", "Leave it out of [env_vars].")
    elif not variable or "=" in variable or "\0" in variable:
        yield Fault("invalid", "env_vars", f"{shown(variable)} cannot name a variable.", "Use letters, digits and _.")
    elif "\0" in text:
        yield Fault("invalid", key, f"{key} holds a NUL, which no variable can.", "Leave it out.")


def _check_agreement(spellings: list[tuple[str, Any]]) -> Iterator[Fault]:
    """Two spellings of one wish may stand together only if they say the same."""
    said = [(key, value) for key, value in spellings if value is not None]
    for key, value in said[1:]:
        first, first_value = said[0]
        if value != first_value:
            message = f"{first} = {shown(first_value)} and {key} = {shown(value)} contradict each other."
            yield Fault("invalid", key, message, f"Keep {first} alone.")


# -- the wish ---------------------------------------------------------------


def _translate(config: PrimeConfig, name: str | None) -> spec.TrainSpec:
    return spec.TrainSpec(
        model=config.model.name,
        data=_data(config.data),
        row_tokens=config.data.seq_len,
        rows_per_step=config.data.batch_size,
        rows_per_device=config.data.micro_batch_size,
        steps=config.max_steps,
        epochs=_epochs(config),
        renderer=_renderer(config),
        lora=_lora(config),
        export=spec.Export(merged=config.export.merged, gguf=config.export.gguf),
        optimizer=_optimizer(config),
        schedule=_schedule(config),
        clip_norm=config.optim.max_norm,
        checkpoints=_checkpoints(config),
        validation=_validation(config),
        resume=_resume(config),
        devices=_devices(config),
        seed=config.seed,
        name=name,
        environment=config.env_vars,
    )


def _data(data: SourceData | FakeData) -> spec.SourceData | spec.FakeData:
    if isinstance(data, FakeData):
        return spec.FakeData(length=data.length, tokens=data.input_ids, seed=data.seed)
    return _source(data)


def _source(data: SourceData) -> spec.SourceData:
    assert data.name is not None  # refused above
    return spec.SourceData(
        path=data.name,
        subsets=tuple(data.subsets or ()),
        splits=tuple(data.splits or ("train",)),
        probabilities=tuple(data.probabilities or ()),
        stopping_strategy=data.stopping_strategy,
        loss_mask=spec.LossMask.model_validate(data.loss_mask.model_dump()),
        shuffle=data.shuffle,
        seed=data.seed,
        pack=data.pack if data.pack_function is None else data.pack_function == "cat",
        overflow=data.overflow,
        on_bad_row=data.on_bad_row,
        history_thinking=data.history_thinking,
        allow_control_tokens=data.allow_control_tokens,
        images_per_message=data.max_images_per_message,
    )


def _validation(config: PrimeConfig) -> spec.Validation | None:
    wish = config.val
    if wish is None:
        return None
    row_tokens = wish.data.seq_len if "seq_len" in wish.data.model_fields_set else config.data.seq_len
    source = _source(wish.data).model_copy(update={"shuffle": False})
    return spec.Validation(
        data=source,
        row_tokens=row_tokens,
        every_steps=wish.interval,
        at_start=wish.eval_on_start,
        patience=wish.patience,
        min_delta=wish.min_delta,
    )


def _epochs(config: PrimeConfig) -> float | None:
    spellings = (config.epochs, config.max_epochs, config.n_epochs)
    return next((epochs for epochs in spellings if epochs is not None), None)


def _renderer(config: PrimeConfig) -> spec.Renderer:
    renderer = config.renderer
    said = {key: getattr(renderer, key) for key in SWITCHES if key in renderer.model_fields_set}
    name = "auto" if renderer.name == "default" else renderer.name
    if name == "kimi-k2":
        said = {}  # its template has no switch
    return spec.Renderer.model_validate({"name": name, **said})


def _lora(config: PrimeConfig) -> spec.Lora | None:
    lora = config.model.lora
    if lora is None:
        return None
    # prime-rl writes its default into the configs that it resolves: that asks for no module by name.
    usual = lora.target_modules == spec.USUAL_TARGETS
    named = "all-linear" if lora.target_modules == ("all-linear",) else lora.target_modules
    return spec.Lora.model_validate(lora.model_dump() | {"target_modules": None if usual else named})


def _optimizer(config: PrimeConfig) -> spec.Optimizer:
    optim = config.optim
    shared: dict[str, Any] = {
        "learning_rate": optim.lr,
        "weight_decay": optim.weight_decay,
        "decay_all": optim.decay_all,
    }
    match optim:
        case AdamW(betas1=first, betas2=second, eps=epsilon, bits=bits):
            return spec.AdamW(**shared, betas=(first, second), epsilon=epsilon, bits=bits)
        case SGD(momentum=momentum, nesterov=nesterov):
            return spec.SGD(**shared, momentum=momentum, nesterov=nesterov)
        case Muon(mu=momentum, betas1=first, betas2=second):
            return spec.Muon(**shared, momentum=momentum, betas=(first, second))
        case SignSGD():
            return spec.SignSGD(**shared)


def _schedule(config: PrimeConfig) -> spec.Schedule:
    scheduler = config.scheduler
    if isinstance(scheduler, Constant):
        return spec.Constant()
    warm: dict[str, Any] = {
        "warmup_steps": scheduler.warmup_steps,
        "warmup_ratio": scheduler.warmup_ratio,
        "minimum": scheduler.min_lr,
    }
    match scheduler:
        case Linear(decay_steps=decay):
            return spec.Linear(**warm, decay_steps=decay)
        case Cosine():
            return spec.Cosine(**warm)
        case WSD(decay_ratio=ratio):
            return spec.WSD(**warm, decay_ratio=ratio)


def _checkpoints(config: PrimeConfig) -> spec.Checkpoints | None:
    if config.ckpt is None:
        return None
    return spec.Checkpoints(
        every_steps=config.ckpt.interval,
        keep_last=config.ckpt.keep_last,
        keep_interval=config.ckpt.keep_interval,
        keep_best=config.ckpt.keep_best,
        metric=config.ckpt.metric,
    )


def _resume(config: PrimeConfig) -> spec.Resume | None:
    if config.resume is not None:
        return spec.Resume(step=config.resume.step, directory=config.resume.dir)
    older = config.ckpt.resume_step if config.ckpt else None
    if older is None:
        return None
    return spec.Resume(step=None if older == -1 else older)


def _devices(config: PrimeConfig) -> spec.Devices:
    match config.deployment:
        case MultiNode(gpus_per_node=each):
            return spec.Devices(per_machine=each)
        case SingleNode(num_gpus=older, num_train_gpus=newer):
            return spec.Devices(per_machine=older or newer)


# -- what the file leaves open ----------------------------------------------


def _explain(config: PrimeConfig, document: Document) -> Iterator[str]:
    if "name" not in (document.get("model") or {}):
        yield f"model.name is absent: {config.model.name} is trained, the default of prime-rl."
    if config.ckpt is None:
        yield "[ckpt] is absent: the trained weights are exported, no resumable checkpoint is kept."
    for key in ("max_epochs", "n_epochs"):
        if getattr(config, key) is not None:
            yield f"{key} is read as epochs."
    if config.renderer.name == "default":
        yield 'renderer.name = "default" is read as "auto": the model\'s own chat template.'
    if config.data.micro_batch_size > 1:
        yield (
            f"data.micro_batch_size = {config.data.micro_batch_size}: rows stay data.seq_len long each; "
            "prime-rl would join them into one longer row."
        )
    if isinstance(config.data, SourceData):
        yield from _explain_mixing(config.data)
    if config.val and "seq_len" not in config.val.data.model_fields_set:
        yield f"val.data.seq_len is absent: it is data.seq_len = {config.data.seq_len}; prime-rl would take 128."


def _explain_mixing(data: SourceData) -> Iterator[str]:
    mixed = "data.subsets" if data.subsets else "data.splits"
    several = len(data.subsets or data.splits or ()) > 1
    if several and data.probabilities is None and data.stopping_strategy is None:
        yield f"{mixed} names several: every row of each is read once per epoch; prime-rl would interleave them."
    if not several and data.stopping_strategy is not None:
        yield "data.stopping_strategy has no effect: there is one source, and each of its rows is read once per epoch."
