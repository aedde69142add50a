"""What a name under `target_modules` or `modules_to_save` means. From paths alone; knows no tensor and no file.

prime-rl's rule: a plain word is any part of a path; one with a metacharacter is a regular expression to be found in it.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

from burnish.errors import ConfigError
from burnish.spec.train import USUAL_TARGETS, Lora

TARGETS_KEY, WHOLE_KEY = "model.lora.target_modules", "model.lora.modules_to_save"

_METACHARACTERS = frozenset(".*+?^$[]{}|()\\")


def is_pattern(wished: str) -> bool:
    return not _METACHARACTERS.isdisjoint(wished)


def refuse_bad_patterns(lora: Lora) -> None:
    """`ConfigError` for a regular expression that is none."""
    targets = lora.target_modules if isinstance(lora.target_modules, tuple) else ()
    for key, wished in ((TARGETS_KEY, targets), (WHOLE_KEY, lora.modules_to_save)):
        for name in wished:
            try:
                re.compile(name)
            except re.error as error:
                raise ConfigError(
                    f"{key} holds {name!r}, which is no regular expression: {error}.",
                    hint="Write names, or escape the characters that mean more.",
                ) from error


def means(wished: str, path: str) -> bool:
    """`q_proj` and `self_attn` both mean `model.layers.0.self_attn.q_proj`; so does `layers\\.0\\..*q_proj$`."""
    if is_pattern(wished):
        return re.search(wished, path) is not None
    return wished in path.split(".")


def nearest_names(wished: str, paths: Iterable[str]) -> list[str]:
    """Up to three parts of `paths` that look like `wished`, the likest first."""
    parts = {part for path in paths for part in path.split(".") if not part.isdigit()}
    return get_close_matches(wished, sorted(parts), n=3, cutoff=0.6)


def count_adapter_parameters(lora: Lora, shapes: Mapping[str, Sequence[int]], *, vocabulary: int) -> int:
    """What `lora` trains, from the `shapes` of a model's stored tensors by name; of fused experts a little more.

    `ConfigError` where a plain name means nothing in a dense model. Patterns, and the names of experts, which are
    stored otherwise than they are trained, are the trainer's to judge.
    """
    refuse_bad_patterns(lora)
    matrices = {
        name.removesuffix(".weight"): (shape[0], shape[1])
        for name, shape in shapes.items()
        if name.endswith(".weight") and len(shape) == 2 and shape[0] != vocabulary
    }
    wished = USUAL_TARGETS if lora.target_modules is None else lora.target_modules
    meant = [path for path in matrices if wished == "all-linear" or any(means(name, path) for name in wished)]
    whole = [shape for name, shape in shapes.items() if any(means(each, name) for each in lora.modules_to_save)]
    if not any("experts" in name.split(".") for name in shapes):
        paths = {name.rpartition(".")[0] for name in shapes} | {"lm_head"}
        if isinstance(lora.target_modules, tuple):
            _refuse_unmatched(TARGETS_KEY, lora.target_modules, matrices, paths)
        _refuse_unmatched(WHOLE_KEY, lora.modules_to_save, paths, paths)
    sides = sum(sum(matrices[path]) + lora.use_dora * matrices[path][0] / lora.rank for path in meant)
    return round(lora.rank * sides) + sum(math.prod(shape) for shape in whole)


def unmatched(
    key: str,
    missing: Sequence[str],
    *,
    choices: Iterable[str],
    paths: Collection[str],
    ends: Collection[str],
    tied: str,
) -> ConfigError:
    """What to say of names that mean none of `choices`; `paths` are all modules, `ends` parts of those at both ends."""
    choices = list(choices)
    sentences = []
    for name in missing:
        near = nearest_names(name, choices)
        if name in ends:
            reason = f"is no layer that takes an adapter here{tied}"
        elif any(means(name, path) for path in paths):
            reason = "has no linear layer in it"
        else:
            reason = "matches no module" + (f" (did you mean {', '.join(near)}?)" if near else "")
        sentences.append(f"{name} {reason}")
    known = sorted({path.rpartition(".")[2] for path in choices if not path.rpartition(".")[2].isdigit()})
    hint = f"This model has {', '.join(known[:20])}." if key == TARGETS_KEY else "Correct or remove it."
    return ConfigError(f"{key}: {'; '.join(sentences)}.", hint=hint)


def _refuse_unmatched(key: str, wished: Sequence[str], choices: Collection[str], paths: Collection[str]) -> None:
    missing = [name for name in wished if not is_pattern(name) and not any(means(name, path) for path in choices)]
    if missing:
        raise unmatched(key, missing, choices=choices, paths=paths, ends=("lm_head", "embed_tokens"), tied="")
