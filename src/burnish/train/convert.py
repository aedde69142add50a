"""`python -m burnish.train.convert SOURCE.gguf DEST`: a GGUF file becomes a plain Hugging Face folder.

The weights leave their blocks for safetensors, the config forgets that it was quantised, the tokenizer and the chat
template stand beside them. A program of its own, so that the model cache needs no torch.
"""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

# A converter reads local files; it must neither ask a hub nor draw bars.
os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader
from tokenizers import Tokenizer, pre_tokenizers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel

from burnish.errors import BurnishError, ModelError
from burnish.models.gguf_family import FAMILIES
from burnish.train.write_gguf import LLAMA3_ROPE, ROPE_FACTORS, rope_factors

_STRAY_SETTINGS = ("quantization_config", "dtype", "_model_name_or_path")
_SPECIAL_TOKENS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""Ours and the file's words for them."""
_UNROUNDED = {GGMLQuantizationType.F32, GGMLQuantizationType.F16}


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one sentence as the last line on stderr."""
    if len(arguments) != 2:
        print("usage: python -m burnish.train.convert SOURCE.gguf DEST", file=sys.stderr)
        return 2
    try:
        convert_gguf(Path(arguments[0]), Path(arguments[1]))
    except BurnishError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


def convert_gguf(source: Path, destination: Path) -> None:
    """Fill `destination`, absent or empty before; it stays empty if anything goes wrong.

    The folder itself is not replaced, since the caller may hold a lock on it; `config.json` is moved in last, and a
    folder without it is no model.
    """
    if not source.is_file():
        raise ModelError(f"{source} is not there.")
    if destination.exists() and any(destination.iterdir()):
        raise ModelError(f"{destination} is not empty.")
    destination.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".converting-", dir=destination))
    try:
        _write_folder(source, work)
        for file in sorted(work.iterdir(), key=lambda file: file.name == "config.json"):
            file.chmod(0o644)  # safetensors leaves its files to their owner alone
            file.rename(destination / file.name)
    except OSError as error:
        raise ModelError(f"{destination} could not be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


@dataclass(frozen=True)
class _Header:
    """What the file itself says. Versions of transformers differ in what they make of it."""

    dtype: torch.dtype
    """To store."""
    splitting: str
    """The name that llama.cpp has for the way this tokenizer splits text."""
    special: dict[str, int]
    """`bos`, `eos`, `unk`, `pad`: token ids, of those that the file names."""
    tokens: dict[str, str]
    """The same as text."""
    settings: dict[str, Any]
    """Of the config, where transformers (5.24) does not ask the file: Qwen3's size of heads, stretched positions."""


def _write_folder(source: Path, folder: Path) -> None:
    header = _read_header(source)
    # transformers parses the whole file three times more, each as long as all the rest takes together.
    gguf.GGUFReader = _read_once  # type: ignore[misc, assignment]
    try:
        config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name)
        config.update(header.settings)
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, config=config, dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    except Exception as error:  # transformers raises whatever its readers raise
        raise ModelError(f"{source.name} is not a GGUF file of a known architecture ({_first_line(error)}).") from error
    finally:
        gguf.GGUFReader = GGUFReader  # type: ignore[misc]
        _read_once.cache_clear()
    _clean(model, header).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _finish_tokenizer(folder, header, longest=model.config.max_position_embeddings)


@lru_cache(maxsize=1)
def _read_once(path: str) -> GGUFReader:
    return GGUFReader(path)


def _read_header(source: Path) -> _Header:
    """Quantised blocks round some thirty times coarser than bfloat16 does, so bfloat16 loses nothing that was still
    there and halves the folder. Weights that were not quantised are kept exactly, as float32.
    """
    try:
        reader = _read_once(str(source))
        matrices = {tensor.tensor_type for tensor in reader.tensors if len(tensor.shape) > 1}
        splitting = reader.get_field("tokenizer.ggml.pre")
        special = {}
        for name, key in _SPECIAL_TOKENS.items():
            if field := reader.get_field(f"tokenizer.ggml.{key}_token_id"):
                special[name] = int(field.contents())
        vocabulary = reader.get_field("tokenizer.ggml.tokens")
        tokens = {name: str(vocabulary.contents(number)) for name, number in special.items()} if vocabulary else {}
        settings = _settings(reader)
    except Exception as error:  # GGUFReader fails in numpy, struct or its own way, as the bytes have it
        raise ModelError(f"{source.name} is not a whole GGUF file ({_first_line(error)}).") from error
    dtype = torch.float32 if matrices & _UNROUNDED else torch.bfloat16
    return _Header(dtype, str(splitting.contents()) if splitting else "", special, tokens, settings)


def _settings(reader: GGUFReader) -> dict[str, Any]:
    def said(key: str) -> Any:
        field = reader.get_field(key)
        return field.contents() if field else None

    family = said("general.architecture")
    settings: dict[str, Any] = {}
    if family in FAMILIES and (size := said(f"{family}.attention.key_length")):
        settings["head_dim"] = int(size)
    theta = float(said(f"{family}.rope.freq_base") or 10_000.0)
    scaling = f"{family}.rope.scaling"
    if (kind := said(f"{scaling}.type")) in ("linear", "yarn"):
        rope = {"rope_type": kind, "rope_theta": theta, "factor": float(said(f"{scaling}.factor"))}
        before = said(f"{scaling}.original_context_length")
        settings["rope_parameters"] = rope | ({"original_max_position_embeddings": int(before)} if before else {})
    for tensor in reader.tensors:
        if tensor.name == ROPE_FACTORS:
            settings["rope_parameters"] = _llama3_rope(tensor.data, theta)
    return settings


def _llama3_rope(factors: np.ndarray, theta: float) -> dict[str, Any]:
    """The file holds what comes out; all Llamas of 3.1 and later differ in the factor alone."""
    rope = LLAMA3_ROPE | {"rope_theta": theta, "factor": float(factors.max())}
    if not np.allclose(rope_factors(rope, 2 * len(factors)), factors, rtol=1e-4):
        raise ValueError("it stretches rotary positions otherwise than Llama 3 does")
    return rope


def _clean(model: nn.Module, header: _Header) -> PreTrainedModel:
    """The same weights in a model that was never quantised: transformers refuses to save one that was."""
    assert isinstance(model, PreTrainedModel)
    settings = {key: value for key, value in model.config.to_dict().items() if key not in _STRAY_SETTINGS}
    ids = {f"{name}_token_id": number for name, number in header.special.items() if name != "unk"}
    config = type(model.config).from_dict(settings | ids)
    config.architectures = [type(model).__name__]
    with torch.device("meta"):
        clean = type(model)(config)
    clean.load_state_dict({name: tensor.to(header.dtype) for name, tensor in model.state_dict().items()}, assign=True)
    clean.tie_weights()
    clean.generation_config = GenerationConfig(**ids)
    return clean


def _finish_tokenizer(folder: Path, header: _Header, *, longest: int) -> None:
    settings_file = folder / "tokenizer_config.json"
    settings = json.loads(settings_file.read_text())
    # `TokenizersBackend` is a name of transformers 5 alone; every version knows this one.
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}
    settings |= {f"{name}_token": token for name, token in header.tokens.items()}
    for stray in ("backend", "is_local", "local_files_only", "name_or_path"):
        settings.pop(stray, None)
    settings_file.write_text(json.dumps(settings, indent=2, ensure_ascii=False))
    if header.splitting == "smollm":
        _split_digits(folder / "tokenizer.json")


def _split_digits(file: Path) -> None:
    """SmolLM splits digits before all else, which transformers' GGUF reader does not know (5.24).

    It matters where a digit follows a line end or two spaces: `\\n2` is two pieces, not one.
    """
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.save(str(file))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
