"""Which models can be written as GGUF, told from config and tokenizer. Knows no weights and no file format."""

import json
from pathlib import Path
from typing import Any

from burnish.errors import ModelError

FAMILIES = ("llama", "qwen2", "qwen3")
"""SmolLM and SmolLM2 are of the llama family."""
_ROPES = ("default", "llama3", "linear", "yarn")
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {
    _WORDS.replace("DIGITS", r"\p{N}"): "qwen2",
    _WORDS.replace("DIGITS", r"\p{N}{1,3}"): "llama-bpe",
}
"""llama.cpp's names for the ways that tokenizers split text, by their patterns."""


def refuse_unwritable(folder: Path) -> None:
    """`ModelError` where the model in `folder` cannot be written as GGUF, whatever its weights are."""
    family_of(json.loads((folder / "config.json").read_text()))
    splitting_of(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")))


def family_of(config: dict[str, Any]) -> str:
    """`ModelError` for another one, or for a setting with which llama.cpp would compute something else."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ModelError(
            f"Models of the family {family} cannot be written as GGUF.",
            hint=f"Of {', '.join(FAMILIES)} they can (SmolLM is llama). The Hugging Face folder is there for all.",
        )
    if config.get("use_sliding_window"):
        raise ModelError(f"A {family} model with a sliding window cannot be written as GGUF.")
    if (activation := config.get("hidden_act", "silu")) != "silu":
        raise ModelError(f"A {family} model with {activation} cannot be written as GGUF, which takes it for silu.")
    if (kind := rope_of(config)["rope_type"]) not in _ROPES:
        raise ModelError(f"Rotary positions of type {kind} cannot be told in a GGUF file.")
    return family


def rope_of(config: dict[str, Any]) -> dict[str, Any]:
    """Newer configs have one table, older ones `rope_theta` and `rope_scaling` apart."""
    table = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = table.get("rope_theta") or config.get("rope_theta") or 10_000.0
    return table | {"rope_theta": theta, "rope_type": table.get("rope_type") or table.get("type") or "default"}


def splitting_of(tokenizer: dict[str, Any]) -> str:
    """llama.cpp's name for how text is split before merges; `ModelError` if it has none."""
    before = tokenizer.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    kinds = [each.get("type") for each in steps]
    if tokenizer["model"].get("type") != "BPE" or "ByteLevel" not in kinds:
        raise ModelError("Only models with a byte-level BPE tokenizer can be written as GGUF, and this has another.")
    if not tokenizer["model"]["merges"]:
        return "gpt-2"  # where nothing is merged, it does not matter
    if kinds == ["Split", "ByteLevel"] and (name := _SPLITS.get(steps[0].get("pattern", {}).get("Regex"))):
        return name
    if steps[-1].get("use_regex", True):
        if kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
            return "smollm"
        if kinds == ["ByteLevel"]:
            return "gpt-2"
    raise ModelError("This tokenizer splits text in a way that GGUF has no name for.")
