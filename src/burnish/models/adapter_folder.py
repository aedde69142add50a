"""Whether a folder is a whole adapter, as peft writes one, and of what model. Reads headers, never weights."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from burnish.errors import ModelError
from burnish.models.folder import read_header

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True)
class AdapterFolder:
    directory: Path
    base: str
    """What the adapter calls its base model: a catalogue name, or a folder."""
    method: str
    """`LoRA of rank 16`."""
    parameters: int


def is_adapter(directory: Path) -> bool:
    return (directory / CONFIG).is_file()


def refuse_to_start_from(name: str) -> ModelError:
    """What to say where an adapter is named as the model to train."""
    return ModelError(
        f"{name} is an adapter, and a run starts from a whole model.",
        hint="Train its base again with [export] merged = true, and start from the ft: model that this leaves.",
    )


def inspect_adapter(directory: Path) -> AdapterFolder:
    """The adapter in `directory`; `ModelError` says what is missing or broken."""
    try:
        config = json.loads((directory / CONFIG).read_text())
        base, kind, rank = config["base_model_name_or_path"], config["peft_type"], config["r"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ModelError(f"{directory} holds no readable {CONFIG} ({error}).") from error
    if kind != "LORA" or not isinstance(base, str) or not isinstance(rank, int):
        raise ModelError(f"{directory}/{CONFIG} does not describe a LoRA adapter.")
    weights = directory / WEIGHTS
    if not weights.is_file():
        raise ModelError(f"{directory} lacks {WEIGHTS}.", hint="Copy the adapter again.")
    return AdapterFolder(
        directory=directory,
        base=base,
        method=f"{'DoRA' if config.get('use_dora') else 'LoRA'} of rank {rank}",
        parameters=sum(math.prod(shape) for shape in read_header(weights).values()),
    )
