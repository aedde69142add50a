"""Prime's `sft.toml`, key by key, with the verdict on each. Mirrors prime-rl's `SFTConfig` of August 2026.

Types, defaults and ranges are prime-rl's. Older spellings, the keys of the hosted wrapper and burnish's own few
are marked by their origin. Says nothing of how a key becomes a `TrainSpec`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from burnish.dialects.prime_model_schema import (
    KERNEL,
    PARALLEL,
    Model,
    Tokenizer,
)
from burnish.dialects.prime_renderer_schema import Plain, Renderer
from burnish.dialects.schema import (
    Count,
    CountOrZero,
    NoEffect,
    NotNegative,
    Number,
    Obeyed,
    Origin,
    Refused,
    Section,
    Text,
    Whole,
)

_LOGS = NoEffect("burnish keeps every log line; `burnish train logs` shows them")
_CHECKPOINT = "a checkpoint holds all that a resumed run needs, always"
_TRAINER_ONLY = Refused(
    "hosted SFT runs are trainer-only",
    hint="Remove the block; score the exported model afterwards, or run online evals with prime-rl's own launcher.",
    kind="trainer only",
)


# -- data -------------------------------------------------------------------


class LossMask(Section):
    system: Annotated[bool, Obeyed("train what the system says")] = False
    user: Annotated[bool, Obeyed("train what the user says")] = False
    assistant: Annotated[bool, Obeyed("train what the assistant says")] = True
    tool: Annotated[bool, Obeyed("train what tools answer")] = False


class Data(Section):
    batch_size: Annotated[Count, Field(le=2**20), Obeyed("packed rows in one optimizer step, over all devices")] = 128
    seq_len: Annotated[Count, Field(ge=2, le=2**24), Obeyed("token slots in a packed row")] = 128
    micro_batch_size: Annotated[Count, Obeyed("packed rows in one forward pass of one device")] = 1
    num_workers: Annotated[CountOrZero, NoEffect("rows are read ahead from a memory-mapped store")] = 1


class FakeData(Data):
    type: Annotated[Literal["fake"], Obeyed("made-up tokens: a smoke test that needs no volume")] = "fake"
    length: Annotated[Literal["fixed", "variable"], Obeyed("how long the made-up conversations are")] = "fixed"
    input_ids: Annotated[Literal["increasing", "random"], Obeyed("which tokens they hold")] = "increasing"
    seed: Annotated[Whole, Obeyed("seed of the made-up tokens")] = 0


class SourceData(Data):
    type: Annotated[Literal["sft"], Obeyed("conversations in files")] = "sft"
    name: Annotated[Text | None, Obeyed("file or folder, from the volume's root; required")] = None
    subsets: Annotated[
        list[Text] | None,
        Field(min_length=1),
        Obeyed("which subsets are read: folders, or configurations in its README"),
    ] = None
    splits: Annotated[list[Text] | None, Field(min_length=1), Obeyed('which splits are read; absent: ["train"]')] = None
    probabilities: Annotated[
        list[Number] | None,
        Field(min_length=1),
        Obeyed("how often each subset or split is drawn from; absent: every row of each once per epoch"),
    ] = None
    stopping_strategy: Annotated[
        Literal["first_exhausted", "all_exhausted"] | None,
        Obeyed("draw until the first, or until every subset or split has been read to its end"),
    ] = None
    shuffle: Annotated[bool, Obeyed("a different order each epoch")] = True
    seed: Annotated[Whole, Obeyed("seed of the order")] = 0
    loss_mask: Annotated[LossMask, Obeyed("whose words are trained")] = Field(default_factory=LossMask)
    pack: Annotated[bool, Origin.BURNISH, Obeyed("share a row between short conversations")] = True
    overflow: Annotated[
        Literal["drop", "truncate", "error"],
        Origin.BURNISH,
        Obeyed("what becomes of a conversation longer than data.seq_len; always counted"),
    ] = "drop"
    on_bad_row: Annotated[
        Literal["error", "skip"], Origin.BURNISH, Obeyed("what becomes of a row that cannot be read; always counted")
    ] = "error"
    history_thinking: Annotated[
        Literal["split", "drop"],
        Origin.BURNISH,
        Obeyed("thoughts that a template leaves out of earlier turns: one sample per turn, or a counted loss"),
    ] = "split"
    allow_control_tokens: Annotated[
        bool, Origin.BURNISH, Obeyed("`<|im_end|>` in a row's text is the token; else it is ten letters")
    ] = False
    max_images_per_message: Annotated[
        Count | None, Origin.BURNISH, Obeyed("a row with more images in one message is a bad row")
    ] = None
    pack_function: Annotated[
        Literal["cat", "stack"] | None, Origin.OLDER, Obeyed('"cat" is read as data.pack = true, "stack" as false')
    ] = None


class ValidationData(SourceData):
    """As `[data]`, but for what cannot matter where nothing is learnt."""

    batch_size: Annotated[Count, NoEffect("validation reads every row each time, one after the other")] = 128
    micro_batch_size: Annotated[Count, NoEffect("validation reads every row each time, one after the other")] = 1
    shuffle: Annotated[bool, NoEffect("validation reads every row each time, so their order is no matter")] = True
    seed: Annotated[Whole, Obeyed("seed of the draw, with probabilities")] = 0


class Validation(Section):
    interval: Annotated[Count, Obeyed("validate every so many steps, and at the end")] = 50
    eval_on_start: Annotated[bool, Obeyed("validate before the first step too")] = False
    patience: Annotated[
        Count | None, Origin.BURNISH, Obeyed("end the run when so many validations in a row brought no lower val/loss")
    ] = None
    min_delta: Annotated[NotNegative, Origin.BURNISH, Obeyed("by how much val/loss has to be lower to count")] = 0.0
    data: Annotated[ValidationData, Obeyed("conversations to validate on; required")] = Field(
        default_factory=ValidationData
    )


# -- optimizer and schedule -------------------------------------------------


class Optimizer(Section):
    lr: Annotated[NotNegative, Obeyed("the highest learning rate")] = 1e-6
    weight_decay: Annotated[NotNegative, Obeyed("weight decay")] = 0.01
    max_norm: Annotated[NotNegative | None, Obeyed('the gradient is clipped to this norm; "None" never clips')] = 1.0
    decay_all: Annotated[
        bool, Origin.BURNISH, Obeyed("norms, biases and embeddings decay too, as in prime-rl; false spares them")
    ] = True


class AdamW(Optimizer):
    type: Annotated[Literal["adamw"], Obeyed("the optimizer")] = "adamw"
    betas1: Annotated[NotNegative, Field(lt=1), Obeyed("decay of the mean")] = 0.9
    betas2: Annotated[NotNegative, Field(lt=1), Obeyed("decay of the variance")] = 0.999
    eps: Annotated[NotNegative, Field(gt=0), Origin.BURNISH, Obeyed("added to the root of the variance")] = 1e-8
    bits: Annotated[Literal[8, 32], Origin.BURNISH, Obeyed("of the moments; 8 needs bitsandbytes")] = 32


class SGD(Optimizer):
    type: Annotated[Literal["sgd"], Obeyed("the optimizer")]
    momentum: Annotated[NotNegative, Field(lt=1), Obeyed("decay of the velocity")] = 0.9
    nesterov: Annotated[bool, Obeyed("look ahead by one velocity")] = True


class Muon(Optimizer):
    type: Annotated[Literal["muon"], Obeyed("matrices by Muon, all else by AdamW, both at lr")]
    mu: Annotated[NotNegative, Field(lt=1), Obeyed("momentum of the matrices")] = 0.95
    betas1: Annotated[NotNegative, Field(lt=1), Obeyed("AdamW's, of all else")] = 0.9
    betas2: Annotated[NotNegative, Field(lt=1), Obeyed("AdamW's, of all else")] = 0.95


class SignSGD(Optimizer):
    type: Annotated[Literal["sign_sgd"], Obeyed("the optimizer; it keeps no state")]


_NEEDS_LINEAR = Refused(
    "a constant schedule has no such steps",
    hint='Add type = "linear" (or "cosine") under [scheduler].',
    allow=(0,),
    kind="invalid",
)


class Constant(Section):
    type: Annotated[Literal["constant"], Obeyed("the learning rate stays where it is")] = "constant"
    warmup_steps: Annotated[CountOrZero, Origin.BURNISH, _NEEDS_LINEAR] = 0
    decay_steps: Annotated[CountOrZero, Origin.BURNISH, _NEEDS_LINEAR] = 0
    warmup_ratio: Annotated[
        NotNegative,
        Origin.BURNISH,
        Refused(
            "a constant schedule has no warmup",
            hint='Add type = "linear" (or "cosine") under [scheduler].',
            allow=(0,),
            kind="invalid",
        ),
    ] = 0.0


class Warm(Section):
    warmup_steps: Annotated[CountOrZero, Obeyed("steps on the way up; 0 for none")] = 10
    warmup_ratio: Annotated[
        NotNegative | None, Field(lt=1), Origin.BURNISH, Obeyed("share of all steps on the way up, in place of steps")
    ] = None
    min_lr: Annotated[NotNegative, Obeyed("the learning rate at the lower ends, not a factor")] = 0.0


class Linear(Warm):
    type: Annotated[Literal["linear"], Obeyed("up, flat, then down in straight lines")] = "linear"
    decay_steps: Annotated[CountOrZero, Obeyed("steps on the way down, at the end; 0 for none")] = 10


class Cosine(Warm):
    type: Annotated[Literal["cosine"], Obeyed("up in a straight line, then down in half a cosine")] = "cosine"


class WSD(Warm):
    type: Annotated[Literal["wsd"], Origin.BURNISH, Obeyed("up, flat, then down by the square root")] = "wsd"
    decay_ratio: Annotated[
        NotNegative, Field(gt=0, le=1), Origin.BURNISH, Obeyed("share of all steps on the way down, at the end")
    ] = 0.2


# -- checkpoints ------------------------------------------------------------


class Export(Section):
    merged: Annotated[
        bool,
        Origin.BURNISH,
        Obeyed("with [model.lora]: at each save also `step_N/merged`, the model with the adapter added in"),
    ] = False
    gguf: Annotated[
        Literal["f16", "q8_0"] | None,
        Origin.BURNISH,
        Obeyed("at each save also `step_N/model.gguf`, the whole model; of the llama, qwen2 and qwen3 families"),
    ] = None


class Checkpoints(Section):
    output_dir: Annotated[
        str | None,
        Refused("checkpoints go under the run's own outputs on the volume", hint="Leave ckpt.output_dir out."),
    ] = None
    interval: Annotated[Count | None, Obeyed("one every so many steps, beside the one at the end")] = None
    keep_last: Annotated[Count | None, Obeyed("keep the newest so many; without a `keep` key, all are kept")] = None
    keep_interval: Annotated[Count | None, Obeyed("keep those of every so many steps, beside the newest")] = None
    keep_best: Annotated[
        Count | None, Origin.BURNISH, Obeyed("keep so many with the lowest ckpt.metric, beside the newest")
    ] = None
    metric: Annotated[Literal["val/loss", "loss/mean"], Origin.BURNISH, Obeyed("what ckpt.keep_best goes by")] = (
        "val/loss"
    )
    skip_progress: Annotated[bool, Refused(_CHECKPOINT, hint="Leave it out.")] = False
    skip_scheduler: Annotated[bool, Refused(_CHECKPOINT, hint="Leave it out.")] = False
    skip_dataloader: Annotated[bool, Refused(_CHECKPOINT, hint="Leave it out.")] = False
    skip_optimizer: Annotated[bool, Refused(_CHECKPOINT, hint="Leave it out.")] = False
    resume_step: Annotated[
        Whole | None, Field(ge=-1), Origin.OLDER, Obeyed("read as resume.step; -1 is the newest checkpoint")
    ] = None
    weights: Annotated[Any, Origin.OLDER, NoEffect("the model is written beside every checkpoint, always")] = None
    weights_only: Annotated[
        bool, Origin.OLDER, Refused(_CHECKPOINT, hint="Leave [ckpt] out: the trained model is exported either way.")
    ] = False


class Resume(Section):
    step: Annotated[Count | None, Obeyed("start from this step's checkpoint; absent: the newest whole one")] = None
    dir: Annotated[Text | None, Obeyed("start from this checkpoint folder")] = None


# -- the rest ---------------------------------------------------------------


class Log(Section):
    level: Annotated[str, _LOGS] = "info"
    vf_level: Annotated[str, _LOGS] = "info"
    json_logging: Annotated[bool, _LOGS] = False
    log_data: Annotated[bool, _LOGS] = False
    interval: Annotated[NotNegative, Field(gt=0), _LOGS] = 10.0
    ranks_filter: Annotated[tuple[Whole, ...], _LOGS] = (0,)


class FileMonitor(Section):
    path: Annotated[str, NoEffect("every metric is kept; `burnish train metrics` shows them")] = "metrics.jsonl"


_WANDB = Refused("metrics are not sent to other services", hint="Leave it out: `burnish train metrics` has them all.")


class Monitors(Section):
    wandb: Annotated[Any, _WANDB] = None
    file: Annotated[FileMonitor | None, NoEffect("every metric is kept; `burnish train metrics` shows them")] = Field(
        default_factory=FileMonitor
    )


class Run(Section):
    name: Annotated[Text | None, Obeyed("what you call this run")] = None
    dir: Annotated[
        str | None, Refused("burnish decides where outputs go: /runs/<runId>/outputs on the volume", "Leave it out.")
    ] = None


class Gc(Section):
    interval: Annotated[Count, NoEffect("one process needs no common beat for its garbage collector")] = 50


class SingleNode(Section):
    type: Annotated[Literal["single_node"], Obeyed("one machine")] = "single_node"
    gpus_per_node: Annotated[Count, Obeyed("the most that num_train_gpus may ask for")] = 8
    num_train_gpus: Annotated[Count, Obeyed("devices to train on")] = 1
    num_infer_gpus: Annotated[Whole, NoEffect("a run only trains; no device is set aside for inference")] = 1
    num_eval_gpus: Annotated[Whole, NoEffect("a run only trains; no device is set aside for inference")] = 1
    num_gpus: Annotated[Count | None, Origin.OLDER, Obeyed("read as num_train_gpus")] = None


class MultiNode(Section):
    type: Annotated[Literal["multi_node"], Obeyed("several machines")] = "multi_node"
    gpus_per_node: Annotated[Count, Obeyed("devices to train on, of each machine")] = 8
    num_train_nodes: Annotated[
        Count, Refused("training over several machines is not built", 'Use type = "single_node".', allow=(1,))
    ] = 2
    num_infer_nodes: Annotated[CountOrZero, NoEffect("a run only trains; no machine is set aside for inference")] = 0
    num_eval_nodes: Annotated[CountOrZero, NoEffect("a run only trains; no machine is set aside for inference")] = 0
    nodes_per_fsdp_group: Annotated[Count | None, Refused(PARALLEL, hint="Leave nodes_per_fsdp_group out.")] = None
    num_nodes: Annotated[
        Count | None,
        Origin.OLDER,
        Refused("training over several machines is not built", 'Use type = "single_node".', allow=(None, 1)),
    ] = None


_ELSEWHERE = NoEffect("the server that the run is sent to decides this")
_PROFILE = "profiles are not built"
_EPOCHS = Obeyed("read as epochs")


class PrimeConfig(Section):
    max_steps: Annotated[Whole | None, Obeyed("optimizer steps; required unless epochs is set")] = None
    epochs: Annotated[
        Number | None,
        Origin.BURNISH,
        Field(gt=0, le=1e6),
        Obeyed("passes over the data; with max_steps, whichever ends first"),
    ] = None
    max_epochs: Annotated[Number | None, Origin.BURNISH, Field(gt=0, le=1e6), _EPOCHS] = None
    n_epochs: Annotated[Number | None, Origin.BURNISH, Field(gt=0, le=1e6), _EPOCHS] = None
    seed: Annotated[Whole, Origin.BURNISH, Obeyed("seed of all that is random beside the data's order")] = 0
    model: Annotated[Model, Obeyed("the model")] = Field(default_factory=Model)
    tokenizer: Annotated[Tokenizer, Obeyed("the tokenizer")] = Field(default_factory=Tokenizer)
    renderer: Annotated[
        Renderer,
        Field(discriminator="name"),
        Obeyed("how a conversation becomes tokens; absent: auto, the model's own chat template"),
    ] = Field(default_factory=lambda: Plain(name="auto"))
    data: Annotated[SourceData | FakeData, Field(discriminator="type"), Obeyed("what is trained on")] = Field(
        default_factory=SourceData
    )
    val: Annotated[Validation | None, Obeyed("loss on rows that are not trained on")] = None
    optim: Annotated[AdamW | SGD | Muon | SignSGD, Field(discriminator="type"), Obeyed("the optimizer")] = Field(
        default_factory=AdamW
    )
    scheduler: Annotated[
        Constant | Linear | Cosine | WSD, Field(discriminator="type"), Obeyed("the learning rate over the steps")
    ] = Field(default_factory=Constant)
    ckpt: Annotated[
        Checkpoints | None, Obeyed("keep a resumable checkpoint at the end; absent: only the trained model is exported")
    ] = None
    export: Annotated[Export, Origin.BURNISH, Obeyed("what is made of the trained weights")] = Field(
        default_factory=Export
    )
    resume: Annotated[Resume | None, Obeyed("start from a checkpoint; empty: the newest whole one")] = None
    deployment: Annotated[SingleNode | MultiNode, Field(discriminator="type"), Obeyed("the devices to train on")] = (
        Field(default_factory=SingleNode)
    )
    env_vars: Annotated[dict[str, str], Obeyed("variables for the trainer's process")] = Field(default={})
    run: Annotated[Run, Obeyed("the run's name")] = Field(default_factory=Run)
    log: Annotated[Log, Obeyed("the log")] = Field(default_factory=Log)
    monitors: Annotated[Monitors, Obeyed("where metrics go")] = Field(default_factory=Monitors)
    output_dir: Annotated[
        Any,
        Refused(
            "burnish decides where outputs go: /runs/<runId>/outputs on the volume",
            hint="Leave output_dir out.",
            allow=(None,),
        ),
    ] = "outputs"
    clean: Annotated[bool, NoEffect("every run has a folder of its own")] = False
    dry_run: Annotated[bool, Refused("a run that does not train is not built", hint="Leave dry_run out.")] = False
    matmul_precision: Annotated[
        Literal["highest", "high", "medium"], NoEffect("GPUs compute in bfloat16, CPUs in float32")
    ] = "high"
    dist_timeout_seconds: Annotated[Whole, NoEffect("one process waits for no other")] = 3600
    gc: Annotated[Gc | None, NoEffect("one process needs no common beat for its garbage collector")] = Field(
        default_factory=Gc
    )
    heartbeat: Annotated[
        Any, Refused("no service is called while training", hint="Leave it out: `burnish train get` tells the state.")
    ] = None
    memory_profiler_path: Annotated[str | None, Refused(_PROFILE, hint="Leave memory_profiler_path out.")] = None
    trace_path: Annotated[str | None, Refused(_PROFILE, hint="Leave trace_path out.")] = None
    slurm: Annotated[Any, Refused("the server decides where a run's programs start", hint="Leave [slurm] out.")] = None
    eval: Annotated[Any, _TRAINER_ONLY] = None
    inference: Annotated[Any, _TRAINER_ONLY] = None
    weight_broadcast: Annotated[Any, _TRAINER_ONLY] = None

    volume: Annotated[Text | None, Origin.HOSTED, Obeyed("the volume that data.name lies on")] = None
    name: Annotated[Text | None, Origin.HOSTED, Obeyed("what you call this run")] = None
    volume_size: Annotated[Any, Origin.HOSTED, NoEffect("a volume is given its size by `burnish volumes create`")] = (
        None
    )
    gpu_type: Annotated[Any, Origin.HOSTED, _ELSEWHERE] = None
    image_tag: Annotated[Any, Origin.HOSTED, _ELSEWHERE] = None
    env_file: Annotated[Any, Origin.HOSTED, NoEffect("no file is read for variables; [env_vars] holds them")] = None
    env_files: Annotated[Any, Origin.HOSTED, NoEffect("no file is read for variables; [env_vars] holds them")] = None
    type: Annotated[Any, Origin.HOSTED, NoEffect("this file is read as supervised fine-tuning, whatever it says")] = (
        None
    )

    wandb: Annotated[Any, Origin.OLDER, _WANDB] = None
    file_monitor: Annotated[Any, Origin.OLDER, NoEffect("every metric is kept")] = None
    clean_output_dir: Annotated[bool, Origin.OLDER, NoEffect("every run has a folder of its own")] = False
    use_renderer: Annotated[bool, Origin.OLDER, NoEffect("a renderer is always used")] = True
    loss_impl: Annotated[Literal["liger", "torch", "liger_fused", "quack_fused"] | None, Origin.OLDER, KERNEL] = None
    bench: Annotated[Any, Origin.OLDER, Refused("benchmark runs are not built", "Leave it out.", (None, False))] = None
    experimental: Annotated[Any, Origin.OLDER, Refused("nothing here is experimental", hint="Leave it out.")] = None
    loss: Annotated[Any, Origin.OLDER, Refused("the loss is the mean over trained tokens", "Leave it out.")] = None
