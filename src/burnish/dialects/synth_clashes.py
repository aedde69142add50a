"""Options of Synth's `sft.toml` that contradict each other. None is settled by a hidden precedence."""

from collections.abc import Iterator
from typing import Any

from burnish.dialects.document import Document
from burnish.dialects.faults import shown

_METHODS = {
    "algorithm.variety": {"fft": "full", "full": "full", "lora": "adapter", "qlora": "adapter"},
    "policy.trainer_mode": {"full": "full", "lora": "adapter", "qlora": "adapter"},
    "training.mode": {"full_finetune": "full", "full": "full", "lora": "adapter", "qlora": "adapter"},
    "training.use_qlora": {True: "adapter"},
    "hyperparameters.train_kind": {
        "fft": "full", "full": "full", "peft": "adapter", "lora": "adapter", "qlora": "adapter",
    },
}  # fmt: skip
"""Each key that names the method of training, and whether that trains every weight or an adapter."""

_PAIRS = (
    ("policy.model_name", "policy.source"),
    ("hyperparameters.parallelism.use_deepspeed", "hyperparameters.parallelism.fsdp"),
    ("hyperparameters.parallelism.bf16", "hyperparameters.parallelism.fp16"),
)
"""Keys of which only one may be set."""


def find_clashes(document: Document) -> list[str]:
    """Each contradiction in a phrase, in the user's keys: `hyperparameters.parallelism.bf16 with ...fp16`."""
    return [*_clash_of_methods(document), *_clashing_pairs(document)]


def _clash_of_methods(document: Document) -> Iterator[str]:
    said = {key: _look_up(document, key) for key in _METHODS}
    meant = {
        key: meanings[said[key]]
        for key, meanings in _METHODS.items()
        if isinstance(said[key], str | bool) and said[key] in meanings
    }
    if len(set(meant.values())) > 1:
        yield " against ".join(f"{key} = {shown(said[key])}" for key in meant)


def _clashing_pairs(document: Document) -> Iterator[str]:
    for first, second in _PAIRS:
        if _look_up(document, first) and _look_up(document, second):
            yield f"{first} with {second}"


def _look_up(document: Document, key: str) -> Any:
    value: Any = document
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
