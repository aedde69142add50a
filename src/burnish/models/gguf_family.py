"""Which models can be written as GGUF, told from their config. Knows no weights and no file format."""

from typing import Any

from burnish.errors import ModelError

FAMILIES = ("llama", "qwen2", "qwen3")
"""SmolLM and SmolLM2 are of the llama family."""


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
    return family
