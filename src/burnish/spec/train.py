"""What the user asked for, in one canonical shape: a wish, with nothing derived in it.

Every dialect becomes a `TrainSpec`. Knows nothing of TOML, of machines or of how many rows the data holds.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]

RendererName = Literal[
    "auto",
    "chatml",
    "smollm",
    "qwen3",
    "prime-qwen3",
    "qwen3.5",
    "qwen3.6",
    "qwen3-vl",
    "glm-4.5",
    "glm-5",
    "glm-5.1",
    "glm-5.3",
    "llama-3",
    "gemma3",
    "gemma4",
    "gpt-oss",
    "deepseek-v3",
    "deepseek-r1",
    "kimi-k2",
    "mistral",
    "phi-4",
    "olmo",
]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LossMask(Frozen):
    """Whose words are trained. Role headers never are; the end-of-turn token follows its turn's text."""

    system: bool = False
    user: bool = False
    assistant: bool = True
    tool: bool = False


class SourceData(Frozen):
    """Conversations in files."""

    kind: Literal["source"] = "source"
    path: str
    """As the user wrote it: a path on the volume, or a local one where there is no volume."""
    subsets: tuple[str, ...] = ()
    """Folders or README configurations of the data set; none is the whole of it. As many as `splits`, if both say."""
    splits: tuple[str, ...] = ("train",)
    probabilities: tuple[Positive, ...] = ()
    """How often each subset (or split) is drawn from; none reads each row of each once per epoch."""
    stopping_strategy: Literal["first_exhausted", "all_exhausted"] | None = None
    """When drawing ends: with the first source that has no row left, or with the last, while others begin again.
    None, without probabilities, reads each row of each once per epoch; with them it is `all_exhausted`."""
    loss_mask: LossMask = LossMask()
    shuffle: bool = True
    """A different order each epoch, from `seed`; else the order of the file."""
    seed: int = 0
    pack: bool = True
    """Share a row between short conversations; they still cannot see each other."""
    overflow: Literal["drop", "truncate", "error"] = "drop"
    """What becomes of a conversation longer than a row. Always counted."""
    on_bad_row: Literal["error", "skip"] = "error"
    history_thinking: Literal["split", "drop"] = "split"
    """Where a family leaves the thoughts of earlier turns out: one sample per trained turn, or train those turns
    without their thoughts. Either way counted."""
    allow_control_tokens: bool = False
    """Whether `<|im_end|>` in a row's text is the token; else it is ten letters."""
    images_per_message: Count | None = None
    """A row with more in one message is bad; None sets no limit."""


class FakeData(Frozen):
    """Made-up tokens, every one trained: a smoke test that needs no volume."""

    kind: Literal["fake"] = "fake"
    length: Literal["fixed", "variable"] = "fixed"
    tokens: Literal["increasing", "random"] = "increasing"
    seed: int = 0


Data = Annotated[SourceData | FakeData, Field(discriminator="kind")]


class Renderer(Frozen):
    """How a conversation becomes tokens. `auto` follows the model's own chat template."""

    name: RendererName = "auto"
    # The switches of the families' own templates, under their own names. None is the family's default; a dialect
    # lets through only those that the named family has.
    enable_thinking: bool | None = None
    clear_thinking: bool | None = None
    preserve_thinking: bool | None = None
    reasoning_effort: str | None = None
    add_vision_id: bool | None = None
    date_string: str | None = None
    tools_in_user_message: bool | None = None
    conversation_start_date: str | None = None
    use_system_prompt: bool | None = None
    knowledge_cutoff: str | None = None
    model_identity: str | None = None
    auto_drop_analysis: bool | None = None


class _Optimizer(Frozen):
    learning_rate: NotNegative = 1e-6
    weight_decay: NotNegative = 0.01
    decay_all: bool = False
    """Decay norms, biases and embeddings too, as prime-rl does."""


class AdamW(_Optimizer):
    """Loshchilov and Hutter 2019, arXiv:1711.05101."""

    kind: Literal["adamw"] = "adamw"
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    epsilon: Positive = 1e-8
    bits: Literal[8, 32] = 32
    """Of its moments: in 8 bits they take a quarter of the room (Dettmers et al. 2022, arXiv:2110.02861)."""


class SGD(_Optimizer):
    """Its weight decay is part of the gradient, as torch has it."""

    kind: Literal["sgd"] = "sgd"
    momentum: Fraction = 0.9
    nesterov: bool = True


class Muon(_Optimizer):
    """Orthogonalised momentum for matrices, AdamW for embeddings, head and vectors."""

    kind: Literal["muon"] = "muon"
    momentum: Fraction = 0.95
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    """Of AdamW's part."""


class SignSGD(_Optimizer):
    kind: Literal["sign_sgd"] = "sign_sgd"


Optimizer = Annotated[AdamW | SGD | Muon | SignSGD, Field(discriminator="kind")]


class Constant(Frozen):
    kind: Literal["constant"] = "constant"


class _Warm(Frozen):
    """Up in a straight line at first. One of the two may be set."""

    warmup_steps: Annotated[int, Field(ge=0)] = 10
    warmup_ratio: Fraction | None = None
    """Share of all steps, rounded up; then `warmup_steps` does not count."""
    minimum: NotNegative = 0.0
    """The learning rate at the lower ends, not a factor."""


class Linear(_Warm):
    """Up over `warmup_steps`, flat, then down over the last `decay_steps`."""

    kind: Literal["linear"] = "linear"
    decay_steps: Annotated[int, Field(ge=0)] = 10


class Cosine(_Warm):
    """Up over `warmup_steps`, then half a cosine down to `minimum` at the last step."""

    kind: Literal["cosine"] = "cosine"


class WSD(_Warm):
    """Warmup, stable, decay: flat until the last `decay_ratio` of the steps (Hu et al. 2024, arXiv:2404.06395), then
    down by one minus the square root of the way gone (Hagele et al. 2024, arXiv:2405.18392)."""

    kind: Literal["wsd"] = "wsd"
    decay_ratio: Annotated[float, Field(gt=0, le=1)] = 0.2


Schedule = Annotated[Constant | Linear | Cosine | WSD, Field(discriminator="kind")]


USUAL_TARGETS = (
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "experts",
    "fc1_latent_proj",
    "fc2_latent_proj",
)
"""prime-rl's. No model has all of them; those that a model lacks are passed over."""


class Lora(Frozen):
    """Train low-rank adapters beside the model's weights, which stay as they are."""

    rank: Count = 16
    alpha: Positive = 32.0
    """The adapter's product is scaled by alpha / rank; with `use_rslora` by alpha / sqrt(rank)."""
    dropout: Fraction = 0.0
    """Share of an adapter's inputs that a step leaves out."""
    target_modules: tuple[str, ...] | Literal["all-linear"] | None = None
    """A name is any part of a module's path (`q_proj`, `self_attn`); with a metacharacter it is a regular expression
    to be found in the path. None is `USUAL_TARGETS`."""
    modules_to_save: tuple[str, ...] = ()
    """Modules that are trained whole and saved with the adapter, named in the same way."""
    use_rslora: bool = False
    use_dora: bool = False
    """Train the length of each row of a weight apart from its direction (Liu et al. 2024, arXiv:2402.09353)."""
    quantize: Literal["nf4"] | None = None
    """Hold the model's linear weights in 4 bits (QLoRA, Dettmers et al. 2023, arXiv:2305.14314)."""


class Export(Frozen):
    """What is made of the trained weights at each save."""

    merged: bool = False
    """Beside an adapter, a whole model with the adapter added in."""
    gguf: Literal["f16", "q8_0"] | None = None
    """The whole model as one GGUF file too."""


class Checkpoints(Frozen):
    """One at the end, and one every `every_steps` if that is set."""

    every_steps: Count | None = None
    # What any of the three keeps is kept, and the newest always; where all are None, every one is.
    keep_last: Count | None = None
    """The newest so many."""
    keep_interval: Count | None = None
    """Those of every so many steps."""
    keep_best: Count | None = None
    """So many with the lowest `metric`; each is validated before it is saved."""
    metric: Literal["val/loss", "loss/mean"] = "val/loss"


class Validation(Frozen):
    """Loss on rows that are not trained on: all of them, each time."""

    data: SourceData
    row_tokens: Count = 2048
    every_steps: Count = 50
    """And once more at the end."""
    at_start: bool = False
    """Before the first step too."""
    patience: Count | None = None
    """End the run when so many validations in a row brought no lower loss; None never does."""
    min_delta: NotNegative = 0.0
    """By how much a loss has to be lower to count."""


class Resume(Frozen):
    """Start from a checkpoint: the newest whole one under this run, or the named one."""

    step: Count | None = None
    directory: str | None = None


class Devices(Frozen):
    machines: Count = 1
    per_machine: Count = 1


class TrainSpec(Frozen):
    model: str
    """A catalogue name: `burnish/tiny`, a hub id that was added, `ft:<base>:<job>`."""
    data: Data
    row_tokens: Count = 2048
    """Token slots in a packed row: the longest context that is trained."""
    rows_per_step: Count = 8
    """Packed rows in one optimizer step, over all devices."""
    rows_per_device: Count = 1
    """Packed rows in one forward pass of one device."""
    steps: Count | None = None
    epochs: Positive | None = None
    """At least one of `steps` and `epochs` is set; whichever ends first ends the run."""
    renderer: Renderer = Renderer()
    lora: Lora | None = None
    """None trains every weight."""
    export: Export = Export()
    optimizer: Optimizer = AdamW()
    schedule: Schedule = Constant()
    clip_norm: Positive | None = 1.0
    checkpoints: Checkpoints | None = None
    validation: Validation | None = None
    resume: Resume | None = None
    devices: Devices = Devices()
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Compute dtype; `auto` is bfloat16 on GPUs and float32 on CPUs. Master weights are float32 either way."""
    seed: int = 0
    name: str | None = None
    """What the user calls this run; no two runs need differ in it."""
    environment: dict[str, str] = {}
    """Variables for the trainer's process."""
