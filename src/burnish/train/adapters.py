"""Low-rank adapters in a model: which weights get one, and all else frozen. peft puts them in place.

Knows no optimizer, no step and no file. An adapter is float32 and starts as nothing: its product is zero.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from peft.tuners.lora.layer import ParamWrapper
from peft.utils import ModulesToSaveWrapper
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from transformers import PreTrainedModel

from burnish.errors import ConfigError, ModelError
from burnish.run.events import Adapted
from burnish.run.targets import TARGETS_KEY, WHOLE_KEY, means, refuse_bad_patterns, unmatched
from burnish.spec.train import USUAL_TARGETS, Lora

ADAPTER = "default"
"""peft's name for the only adapter there is."""

_TAKEN_FOR_EXPERTS = frozenset(("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"))
"""In a model of fused experts peft (0.21) reads these names as the experts' weights, which had them in older models;
dense layers of the same names can only be reached as parameters."""


@dataclass(frozen=True)
class Targets:
    """Paths in the model."""

    linears: tuple[str, ...]
    weights: tuple[str, ...]
    """Parameters that are adapted as such: all experts of a layer in one, and layers that peft would take for those."""
    whole: tuple[str, ...]
    """Modules that are trained whole."""
    passed_over: tuple[str, ...]
    """Usual targets that the model lacks."""


def adapt(model: PreTrainedModel, wish: Lora, *, seed: int) -> Adapted:
    """Freeze the model and put adapters beside the weights that `wish` names; `ConfigError` if one names nothing.

    The same seed gives the same adapters, wherever the model lies. torch's own chance is left as it was.
    """
    targets = find_targets(model, wish)
    config = _peft_config(model, wish, targets)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="peft")
        torch.manual_seed(seed)
        try:
            inject_adapter_in_model(config, model, adapter_name=ADAPTER)
        except (ValueError, TypeError) as error:
            raise ModelError(f"peft cannot adapt {type(model).__name__} so: {error}") from error
    _check_adapted(model, targets)
    return Adapted(
        rank=wish.rank,
        modules=_counts([*targets.linears, *targets.weights]),
        saved_whole=tuple(_counts(targets.whole)),
        passed_over=targets.passed_over,
        trainable_parameters=sum(each.numel() for each in model.parameters() if each.requires_grad),
        parameters=sum(_numel(each) for each in model.parameters() if not each.requires_grad),
    )


def find_targets(model: PreTrainedModel, wish: Lora) -> Targets:
    """What `wish` names in a model without adapters. Every name must mean something, but for the usual ones."""
    linears, experts = _linears(model), _expert_weights(model)
    disguised = [path for path in linears if experts and path.rpartition(".")[2] in _TAKEN_FOR_EXPERTS]
    places = {path: (path,) for path in linears} | experts
    everything = places | {path: (path,) for path, _ in model.named_modules()}
    refuse_bad_patterns(wish)
    whole = _whole_modules(model, wish.modules_to_save, everything)
    meant, passed_over = _meant(model, wish, places)
    meant = {path for path in meant if path not in whole and path.rpartition(".")[0] not in whole}
    if not meant:
        raise ConfigError(
            f"{type(model).__name__} has nothing to adapt: no usual target, or each of them is trained whole.",
            hint=f'Name others in {TARGETS_KEY}, or set it to "all-linear".',
        )
    return Targets(
        linears=tuple(path for path in linears if path in meant and path not in disguised),
        weights=(
            *(path for path in experts if path in meant),
            *(f"{path}.weight" for path in disguised if path in meant),
        ),
        whole=whole,
        passed_over=passed_over,
    )


def adapted_layers(model: nn.Module) -> Iterator[tuple[str, LoraLayer]]:
    """Each adapter with the path, in the model without adapters, of the weight that it changes."""
    for path, module in model.named_modules():
        if isinstance(module, ParamWrapper):
            # Wrappers of several weights of one module lie inside one another.
            yield f"{path.replace('.base_layer', '')}.{module.parameter_name}", module
        elif isinstance(module, LoraLayer):
            yield f"{path}.weight", module


def whole_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Each module that is trained whole, with its path."""
    for path, module in model.named_modules():
        if isinstance(module, ModulesToSaveWrapper):
            yield path, module.modules_to_save[ADAPTER]


def hold_frozen(model: nn.Module, dtype: torch.dtype) -> None:
    """Keep frozen matrices in the compute dtype, to which each product would round them anyway."""
    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.cast_input_dtype_enabled = False  # autocast does it, without a copy in float32 between
        if isinstance(module, nn.Linear) and not module.weight.requires_grad and module.weight.is_floating_point():
            module.weight.data = module.weight.data.to(dtype)


def _linears(model: PreTrainedModel) -> list[str]:
    """Paths of the linear layers, but for the head, whose loss is worked out without calling it."""
    head = model.get_output_embeddings()
    return [path for path, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head]


def _expert_weights(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Paths of fused experts' weights, each with the paths of the projections that it holds."""
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear | _ConvNd):
            continue
        for name, weight in module.named_parameters(recurse=False):
            if weight.ndim == 3:
                parts = ("gate_proj", "up_proj") if name == "gate_up_proj" else ()
                found[f"{path}.{name}"] = (f"{path}.{name}", *(f"{path}.{part}" for part in parts))
    return found


def _meant(model: PreTrainedModel, wish: Lora, places: dict[str, tuple[str, ...]]) -> tuple[set[str], tuple[str, ...]]:
    """Those of `places` that are to be adapted, and the usual targets that the model lacks."""
    if wish.target_modules == "all-linear":
        return set(places), ()
    wished = USUAL_TARGETS if wish.target_modules is None else wish.target_modules
    found = {
        target: {path for path, names in places.items() if any(means(target, name) for name in names)}
        for target in wished
    }
    lacking = tuple(target for target, paths in found.items() if not paths)
    if lacking and wish.target_modules is not None:
        raise _unmatched(TARGETS_KEY, lacking, places, model)
    return set().union(*found.values()), lacking


def _whole_modules(model: PreTrainedModel, wished: Sequence[str], everything: Iterable[str]) -> tuple[str, ...]:
    """Modules with weights of their own that `wished` names."""
    owners = [
        path for path, module in model.named_modules() if next(module.parameters(recurse=False), None) is not None
    ]
    if missing := [name for name in wished if not any(means(name, path) for path in owners)]:
        raise _unmatched(WHOLE_KEY, missing, everything, model)
    whole = tuple(path for path in owners if any(means(name, path) for name in wished))
    ends = _ends(model)
    if _is_tied(model) and (tied := [path for path in whole if path in ends]):
        raise ConfigError(
            f"{WHOLE_KEY} names {tied[0]}, but embeddings and head are one matrix in this model; peft would part them.",
            hint="Leave it out, or train the model whole: without [model.lora].",
        )
    for path in whole:
        if any(not each.is_floating_point() for each in model.get_submodule(path).parameters()):
            raise ConfigError(
                f"{WHOLE_KEY} names {path}, which is held in 4 bits, and so cannot be trained.",
                hint="Leave it out, or leave model.lora.quantize out.",
            )
    return whole


def _ends(model: PreTrainedModel) -> set[str]:
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    return {path for path, module in model.named_modules() if any(module is end for end in ends)}


def _is_tied(model: PreTrainedModel) -> bool:
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    return first is not None and last is not None and first.weight is last.weight


def _unmatched(key: str, missing: Sequence[str], choices: Iterable[str], model: PreTrainedModel) -> ConfigError:
    ends = {part for path in _ends(model) for part in path.split(".")}
    tied = ", and is tied to the embeddings" if _is_tied(model) else ""
    paths = [path for path, _ in model.named_modules()]
    return unmatched(key, missing, choices=choices, paths=paths, ends=ends, tied=tied)


def _peft_config(model: nn.Module, wish: Lora, targets: Targets) -> LoraConfig:
    for switch, asked in (("dropout", wish.dropout), ("use_dora", wish.use_dora)):
        if targets.weights and asked:
            raise ConfigError(
                f"model.lora.{switch} cannot be had where experts are one weight, as {targets.weights[0]} is.",
                hint=f"Leave {switch} out, or name {TARGETS_KEY} without the experts.",
            )
    if packed := [path for path in targets.weights if not model.get_parameter(path).is_floating_point()]:
        raise ConfigError(
            f"model.lora.quantize cannot be had where peft takes {packed[0]} for a weight of the experts.",
            hint=f"Leave quantize out, or name {TARGETS_KEY} without that layer.",
        )
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=wish.rank,
        lora_alpha=int(wish.alpha) if wish.alpha.is_integer() else wish.alpha,  # type: ignore[arg-type] (it divides it)
        lora_dropout=wish.dropout,
        target_modules=_shortest(targets.linears, [path for path, _ in model.named_modules()]),
        target_parameters=_shortest(targets.weights, [path for path, _ in model.named_parameters()], parts=2) or None,
        modules_to_save=_shortest(targets.whole, [path for path, _ in model.named_modules()]) or None,
        use_rslora=wish.use_rslora,
        use_dora=wish.use_dora,
    )


def _shortest(chosen: Sequence[str], paths: Sequence[str], *, parts: int = 1) -> list[str]:
    """Last parts of paths, where they name just the chosen among `paths`; else the paths themselves.

    peft takes a name for the end of a path, and other readers of an adapter know the short names best.
    """
    ends = {path: ".".join(path.split(".")[-parts:]) for path in paths}
    others = {ends[path] for path in set(paths) - set(chosen)}
    return sorted({path if ends[path] in others else ends[path] for path in chosen})


def _check_adapted(model: nn.Module, targets: Targets) -> None:
    """`ModelError` unless just the targets have adapters. peft rewrites some names of mixtures of experts itself."""
    there = {path for path, _ in adapted_layers(model)}
    wanted = {*(f"{path}.weight" for path in targets.linears), *targets.weights}
    if wrong := sorted(wanted ^ there):
        raise ModelError(
            f"peft does not adapt {wrong[0]}{f' and {len(wrong) - 1} more' if len(wrong) > 1 else ''} of "
            f"{type(model).__name__} together with the rest that was asked for.",
            hint=f"Name fewer in {TARGETS_KEY}: attention alone, or the experts alone.",
        )


def _counts(paths: Iterable[str]) -> dict[str, int]:
    """By the module's own name; of fused experts with `experts` before it."""
    counts: dict[str, int] = {}
    for path in paths:
        *above, last = path.removesuffix(".weight").split(".")
        name = f"experts.{last}" if above and above[-1] == "experts" else last
        counts[name] = counts.get(name, 0) + 1
    return counts


def _numel(weight: Tensor) -> int:
    """Of what is packed into 4 bits, the count before."""
    state = getattr(weight, "quant_state", None)
    return weight.numel() if state is None else state.shape.numel()
