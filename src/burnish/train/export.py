"""The trained model as a Hugging Face folder that stock transformers loads, in `step_N/model`.

Weights are rounded once, to the dtype that the base model's folder stores; the float32 ones are in `trainer`.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import GenerationConfig, PreTrainedModel

from burnish.train.model import Decoder
from burnish.train.snapshot import Snapshot

_COMPANIONS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)
"""Files that belong to a model and that training does not change."""

SHARD_BYTES = 5 * 10**9
"""Larger weights are written as several files with an index."""


def export_model(folder: Path, decoder: Decoder, state: Snapshot, *, base: Path) -> None:
    """Write weights as they are in `state` and config, and copy what goes with them from the base model's folder."""
    dtype = stored_dtype(base)
    decoder.model.config.dtype = dtype
    weights = decoder.model.state_dict() | state.by_every_name()
    save_whole(decoder.model, folder, base=base, weights=_rounded(weights, dtype))


def save_whole(
    model: PreTrainedModel, folder: Path, *, base: Path, weights: dict[str, torch.Tensor] | None = None
) -> None:
    """The model, or it with other weights, and its companions; in shards where it is large."""
    if (base / "generation_config.json").is_file():
        # It is copied below; transformers reads settings with a warning that it then refuses to write.
        model.generation_config = GenerationConfig()
    model.save_pretrained(folder, state_dict=weights, max_shard_size=SHARD_BYTES)
    copy_companions(base, folder)


def _rounded(weights: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The weights by name. Tied ones stay one tensor: rounded apart, they would no longer be seen to be the same."""
    rounded: dict[int, torch.Tensor] = {}
    return {name: rounded.setdefault(tensor.data_ptr(), tensor.detach().to(dtype)) for name, tensor in weights.items()}


def export_bytes(decoder: Decoder, *, base: Path) -> int:
    """Size of an export, to a per cent."""
    return stored_dtype(base).itemsize * sum(each.numel() for each in decoder.parameters()) + companion_bytes(base)


def copy_companions(base: Path, folder: Path) -> None:
    for name in _COMPANIONS:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)


def companion_bytes(base: Path) -> int:
    return sum((base / name).stat().st_size for name in _COMPANIONS if (base / name).is_file())


def stored_dtype(base: Path) -> torch.dtype:
    """Of the weights on disk; a config may say otherwise, or nothing."""
    file = next(iter(sorted(base.glob("*.safetensors"))), None)
    if file is None:
        return torch.float32
    with safe_open(file, framework="pt") as weights:
        return weights.get_tensor(next(iter(weights.keys()))).dtype
