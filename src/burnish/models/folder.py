"""Whether a Hugging Face folder is a whole model, and which of its files make it up.

Reads headers, never weights. Knows nothing of the cache.
"""

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from burnish.errors import ModelError
from burnish.spec.model_facts import ModelFacts, read_model_facts

INDEX = "model.safetensors.index.json"
COMPANIONS = ("*.json", "*.jinja", "*.model", "*.txt", "LICENSE*", "README.md")
"""What is worth keeping beside the weights; nothing of it is code."""

_LONGEST_HEADER = 100 * 1024**2
"""safetensors' own limit."""


@dataclass(frozen=True)
class ModelFolder:
    directory: Path
    facts: ModelFacts
    parameters: int
    """Counted in the weights' headers; a tied output matrix that is stored as well is not counted twice."""
    shapes: dict[str, list[int]]
    """Of the stored tensors, by name."""
    files: tuple[str, ...]
    """Names of the weights and their companions, all directly in the folder."""
    notes: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return sum((self.directory / name).stat().st_size for name in self.files)


def inspect_folder(directory: Path) -> ModelFolder:
    """The model in `directory`; `ModelError` says what is missing or broken."""
    facts = read_model_facts(directory)
    weights = _weight_files(directory)
    shapes = {name: shape for file in weights for name, shape in read_header(file).items()}
    if facts.tied_embeddings:
        shapes.pop("lm_head.weight", None)
    _check_shapes(directory, facts, shapes)
    _check_tokenizer(directory)
    companions = {path for pattern in COMPANIONS for path in directory.glob(pattern) if path.is_file()}
    return ModelFolder(
        directory=directory,
        facts=facts,
        parameters=sum(math.prod(shape) for shape in shapes.values()),
        shapes=shapes,
        files=tuple(sorted(path.name for path in {*weights, *companions})),
        notes=() if _has_chat_template(directory) else ("It has no chat template: a run must name its renderer.",),
    )


def _weight_files(directory: Path) -> list[Path]:
    """The files of the index, which must hold what it says; else `model.safetensors`; else all there are."""
    index = directory / INDEX
    if index.is_file():
        return _indexed_files(index)
    single = directory / "model.safetensors"
    found = [single] if single.is_file() else sorted(directory.glob("*.safetensors"))
    if not found:
        raise ModelError(
            f"{directory} holds no weights in the safetensors format.",
            hint="Save them so: model.save_pretrained(folder). Pickled .bin weights are not read, since they run code.",
        )
    return found


def _indexed_files(index: Path) -> list[Path]:
    try:
        placed: dict[str, str] = json.loads(index.read_text())["weight_map"]
        names = sorted(set(placed.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} cannot be read ({error}).") from error
    if outside := [name for name in names if Path(name).name != name]:
        raise ModelError(f"{index} names {outside[0]!r}, which is not in its folder.")
    for name in names:
        file = index.parent / name
        if not file.is_file():
            raise ModelError(f"{file} is missing, though {INDEX} names it.", hint="Copy or download the model again.")
        absent = {tensor for tensor, home in placed.items() if home == name} - read_header(file).keys()
        if absent:
            raise ModelError(f"{file} lacks {min(absent)}, though {INDEX} places it there.")
    return [index.parent / name for name in names]


def read_header(file: Path) -> dict[str, list[int]]:
    """Tensor -> shape; `ModelError` unless the header parses and the file is as long as it says."""
    with file.open("rb") as stream:
        prefix = stream.read(8)
        if prefix == b"version ":
            raise ModelError(f"{file} is a Git LFS pointer, not the weights.", hint="Run git lfs pull in that folder.")
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else _LONGEST_HEADER + 1
        text = stream.read(length) if length <= _LONGEST_HEADER else b""
    try:
        header: dict[str, Any] = json.loads(text)
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
        shapes = {name: _checked_shape(entry["shape"]) for name, entry in tensors.items()}
        expected = 8 + length + int(end)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ModelError(f"{file} is not a safetensors file.", hint="Copy or download the model again.") from error
    actual = file.stat().st_size
    if actual != expected:
        raise ModelError(
            f"{file} is {actual} bytes long, but its header describes {expected}.",
            hint="It was cut short or is damaged: copy or download the model again.",
        )
    return shapes


def _checked_shape(shape: Any) -> list[int]:
    if not isinstance(shape, list) or not all(isinstance(side, int) and side >= 0 for side in shape):
        raise ValueError(f"{shape!r} is no shape")
    return shape


def _check_shapes(directory: Path, facts: ModelFacts, shapes: dict[str, list[int]]) -> None:
    """`ModelError` where the config describes other weights than these, as far as the embedding tells."""
    said = [facts.vocabulary, facts.hidden]
    for name, shape in shapes.items():
        if name.endswith("embed_tokens.weight") and shape != said:
            raise ModelError(
                f"{directory}/config.json does not describe its weights: vocab_size x hidden_size is "
                f"{said[0]} x {said[1]}, but {name} is {' x '.join(map(str, shape))}.",
                hint="Copy or download the model again.",
            )


def _check_tokenizer(directory: Path) -> None:
    path = directory / "tokenizer.json"
    if not path.is_file():
        slow = [name for name in ("tokenizer.model", "vocab.json", "vocab.txt") if (directory / name).is_file()]
        raise ModelError(
            f"{directory} has no tokenizer.json" + (f", only {slow[0]}." if slow else "."),
            hint="Save a fast tokenizer there: AutoTokenizer.from_pretrained(folder).save_pretrained(folder).",
        )
    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception for whatever it cannot read
        raise ModelError(f"{path} cannot be read ({error}).") from error


def _has_chat_template(directory: Path) -> bool:
    if (directory / "chat_template.jinja").is_file() or (directory / "chat_template.json").is_file():
        return True
    try:
        return bool(json.loads((directory / "tokenizer_config.json").read_text()).get("chat_template"))
    except (OSError, ValueError, AttributeError):
        return False
