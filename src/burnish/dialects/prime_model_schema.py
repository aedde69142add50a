"""Prime's `[model]` and `[tokenizer]`, key by key. `prime_schema` has the rest, and the whole."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from burnish.dialects.schema import (
    Count,
    NoEffect,
    NotNegative,
    Obeyed,
    Origin,
    Refused,
    Section,
    Text,
    Whole,
)
from burnish.spec.train import USUAL_TARGETS

_ROOMY = NoEffect("it trades time for memory and changes no result; the trainer chooses for itself")
KERNEL = NoEffect("it picks a kernel and changes no result; burnish picks its own")
PARALLEL = "splitting one model or one row over devices is not built"
_EXPERTS = NoEffect("it steers mixture-of-experts kernels and changes no result")
_OWN_CODE = Refused("burnish runs no code out of a model's folder", hint="Use a model that transformers knows.")


# -- model ------------------------------------------------------------------


class Compile(Section):
    fullgraph: Annotated[bool, NoEffect("nothing is compiled")] = False


class ActivationCheckpoints(Section):
    mode: Annotated[Literal["full", "selective"], _ROOMY] = "full"
    freq: Annotated[Count, _ROOMY] = 1
    targets: Annotated[tuple[str, ...], _ROOMY] = ("norm",)


class ActivationOffloading(Section):
    pin_memory: Annotated[bool, _ROOMY] = True
    max_inflight_activations: Annotated[Count, _ROOMY] = 5


class FullOffload(Section):
    cpu_optimizer_backend: Annotated[Literal["native", "torch"], _ROOMY] = "native"
    numa_bind: Annotated[bool, _ROOMY] = True


class Debug(Section):
    num_layers: Annotated[Whole | None, Refused("a model is trained whole", hint="Leave num_layers out.")] = None
    random_init: Annotated[bool, Refused("training starts from the model's weights", hint="Leave it out.")] = False
    force_balanced_routing: Annotated[
        bool, Refused("experts are routed as the model routes them", hint="Leave it out: it is for debugging only.")
    ] = False


class Lora(Section):
    rank: Annotated[Count, Obeyed("rank of each adapter")] = 16
    alpha: Annotated[NotNegative, Obeyed("adapters are scaled by alpha / rank")] = 32.0
    dropout: Annotated[
        NotNegative, Field(le=1), Obeyed("share of an adapter's inputs that a step leaves out; below 1")
    ] = 0.0
    target_modules: Annotated[
        tuple[Text, ...] | Literal["all-linear"],
        Obeyed(
            "parts of modules' paths, or regular expressions to be found in them; each must match, but for the "
            'default\'s. `"all-linear"` is every linear layer but the head'
        ),
    ] = USUAL_TARGETS
    modules_to_save: Annotated[
        tuple[Text, ...], Obeyed("modules that are trained whole and saved with the adapter, named in the same way")
    ] = ()
    use_rslora: Annotated[bool, Origin.BURNISH, Obeyed("scale by alpha / sqrt(rank) instead")] = False
    use_dora: Annotated[bool, Origin.BURNISH, Obeyed("train each row's length apart from its direction (DoRA)")] = False
    quantize: Annotated[
        Literal["nf4"] | None,
        Origin.BURNISH,
        Obeyed("hold the frozen linear weights in 4 bits (QLoRA), through bitsandbytes; merging takes the full ones"),
    ] = None


def _switch(value: Any) -> Any:
    """prime-rl takes true and false for a table with its defaults, and for none."""
    return {} if value is True else None if value is False else value


class Model(Section):
    name: Annotated[Text, Obeyed("the model to train, by its name in the cache")] = "Qwen/Qwen3-0.6B"
    trust_remote_code: Annotated[bool, _OWN_CODE] = False
    vlm: Annotated[Any, Refused("training on images is not built", hint="Train a text model.")] = None
    conversion_dir: Annotated[str | None, NoEffect("weights are read as they are, without conversion")] = None
    seq_len: Annotated[Whole, NoEffect("data.seq_len rules, as in prime-rl")] = 2048
    attn: Annotated[Literal["flash_attention_2", "flash_attention_3", "flash_attention_4", "auto"], KERNEL] = "auto"
    compile: Annotated[Compile | None, NoEffect("nothing is compiled; results are the same")] = Field(
        default_factory=Compile
    )
    ac: Annotated[ActivationCheckpoints | None, _ROOMY] = Field(default_factory=ActivationCheckpoints)
    ac_offloading: Annotated[ActivationOffloading | None, _ROOMY] = Field(default_factory=ActivationOffloading)
    fsdp_cpu_offload: Annotated[bool, _ROOMY] = False
    optim_cpu_offload: Annotated[bool, _ROOMY] = True
    full_offload: Annotated[FullOffload | None, BeforeValidator(_switch), _ROOMY] = None
    reshard_after_forward: Annotated[bool, NoEffect("weights are not sharded")] = True
    dp_replicate: Annotated[Whole, Refused(PARALLEL, hint="Leave dp_replicate out.")] = 1
    ep: Annotated[Whole | Literal["auto"], Refused(PARALLEL, hint="Leave ep out.", allow=("auto", 1))] = "auto"
    ep_comm_backend: Annotated[Literal["torch", "deepep"], _EXPERTS] = "torch"
    deepep_num_sms: Annotated[Count, _EXPERTS] = 20
    deepep_token_chunk_size: Annotated[Count | None, _EXPERTS] = None
    cp: Annotated[Whole, Refused(PARALLEL, hint="Leave cp out.")] = 1
    cp_style: Annotated[Literal["ring", "ulysses"], NoEffect("rows are not split over devices")] = "ring"
    impl: Annotated[Literal["hf", "custom", "auto"], NoEffect("model code comes from transformers")] = "auto"
    optimization_dtype: Annotated[
        Literal["bfloat16", "float32"],
        Refused("master weights are float32", hint="Leave optimization_dtype out."),
    ] = "float32"
    reduce_dtype: Annotated[Literal["bfloat16", "float32"], NoEffect("gradients are summed in float32")] = "float32"
    moe_router_dtype: Annotated[
        Literal["bfloat16", "float32"], Refused("routers compute in float32", hint="Leave moe_router_dtype out.")
    ] = "float32"
    moe_use_grouped_mm: Annotated[bool, _EXPERTS] = True
    moe_fused_kernel: Annotated[bool, _EXPERTS] = False
    quantization: Annotated[Any, Refused("training in 8 bits is not built", hint="Leave quantization out.")] = None
    index_cache: Annotated[Any, Refused("sparse attention indices are not built", hint="Leave it out.")] = None
    freeze_moe_router: Annotated[bool, Refused("freezing part of a model is not built", hint="Leave it out.")] = False
    lora: Annotated[Lora | None, Obeyed("train adapters beside the model's weights, which stay as they are")] = None
    debug: Annotated[Debug, Obeyed("switches for debugging")] = Field(default_factory=Debug)
    fused_lm_head_token_chunk_size: Annotated[Whole | Literal["disabled"], _ROOMY] = 8192
    fused_lm_head_chunk_size: Annotated[Whole | Literal["auto", "disabled"] | None, Origin.OLDER, _ROOMY] = None
    tp: Annotated[Whole, Origin.OLDER, Refused(PARALLEL, hint="Leave tp out.")] = 1


class Tokenizer(Section):
    name: Annotated[
        str | None, Obeyed("must be model.name where it is set: a model is trained with its own tokenizer")
    ] = None
    trust_remote_code: Annotated[bool | None, Refused(_OWN_CODE.why, _OWN_CODE.hint, allow=(None, False))] = None
    chat_template: Annotated[
        str | None,
        Refused(
            "the model's own chat template is used",
            hint="Put the template into the model's folder and add that with `burnish models add`.",
        ),
    ] = None
