"""`python -m burnish.train.write_gguf FOLDER DEST.gguf f16|q8_0`: a Hugging Face folder becomes one GGUF file.

For the families of `FAMILIES`, with tokenizer and chat template. One tensor is in memory at a time. Knows no torch.
"""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, RopeScalingType, TokenType
from tokenizers import Tokenizer

from burnish.errors import BurnishError, ModelError
from burnish.models.folder import ModelFolder, inspect_folder
from burnish.models.gguf_family import family_of, rope_of, splitting_of

GgufType = Literal["f16", "q8_0"]

_TYPES = {"f16": GGMLQuantizationType.F16, "q8_0": GGMLQuantizationType.Q8_0}
_FILE_TYPES = {"f16": LlamaFileType.MOSTLY_F16, "q8_0": LlamaFileType.MOSTLY_Q8_0}
TOLERANCES = {"f16": 2**-11, "q8_0": 1 / 254 + 2**-11 + 1e-6}
"""Of a weight, as a share of its tensor's largest: half of the last place that is kept; of q8_0 of its scale too."""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one sentence as the last line on stderr."""
    if len(arguments) != 3 or arguments[2] not in _TYPES:
        print("usage: python -m burnish.train.write_gguf FOLDER DEST.gguf f16|q8_0", file=sys.stderr)
        return 2
    try:
        source, destination = Path(arguments[0]), Path(arguments[1])
        write_gguf(source, destination, arguments[2])  # type: ignore[arg-type] (looked at above)
        check_gguf(destination, source, arguments[2])  # type: ignore[arg-type]
    except BurnishError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


def write_gguf(folder: Path, destination: Path, kind: GgufType) -> None:
    """`ModelError` for a family, a tokenizer or a setting that the file could not tell llama.cpp of."""
    source = _Source(inspect_folder(folder), kind)
    temporary = destination.with_name(f".{destination.name}.part")
    try:
        writer = GGUFWriter(temporary, source.family)
        _describe(writer, source)
        _describe_tokenizer(writer, source)
        _write_tensors(writer, source)
        writer.close()
        temporary.replace(destination)
    except OSError as error:
        raise ModelError(f"{destination} could not be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_gguf(file: Path, folder: Path, kind: GgufType) -> float:
    """The largest difference of a weight that is read back; `ModelError` if it is more than the type explains."""
    source = _Source(inspect_folder(folder), kind)
    stored = {tensor.name: tensor for tensor in GGUFReader(file).tensors}
    largest = 0.0
    for name, place in source.tensors:
        tensor, wanted = stored.pop(place, None), source.read(name)
        if tensor is None:
            raise ModelError(f"{file.name} lacks {place}.")
        found = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(wanted.shape)
        apart = float(np.abs(found - wanted).max()) / (float(np.abs(wanted).max()) or 1.0)
        if not apart <= TOLERANCES[kind]:
            raise ModelError(f"{file.name} does not hold the model: {place} differs by {apart:.2g} of its largest.")
        largest = max(largest, apart)
    if extra := stored.keys() - {ROPE_FACTORS}:
        raise ModelError(f"{file.name} holds {min(extra)}, which the model lacks.")
    return largest


ROPE_FACTORS = "rope_freqs.weight"
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""Of Llama 3.1, 3.2 and 3.3."""


@dataclass(frozen=True)
class _Source:
    model: ModelFolder
    kind: GgufType

    @cached_property
    def config(self) -> dict[str, Any]:
        return json.loads((self.model.directory / "config.json").read_text())

    @cached_property
    def family(self) -> str:
        return family_of(self.config)

    @cached_property
    def rope(self) -> dict[str, Any]:
        return rope_of(self.config)

    @cached_property
    def tensors(self) -> list[tuple[str, str]]:
        """Names in the folder and in the file."""
        architecture = next(each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == self.family)
        places = gguf.get_tensor_name_map(architecture, self.model.facts.layers)
        found = []
        for name in sorted(self.model.shapes):
            place = places.get_name(name, try_suffixes=(".weight", ".bias"))
            if place is None:
                raise ModelError(f"{name} has no name in a GGUF file of the {self.family} family.")
            found.append((name, place))
        return found

    @cached_property
    def _pieces(self) -> "dict[str, _Piece]":
        weights = [name for name in self.model.files if name.endswith(".safetensors")]
        return {piece.name: piece for file in weights for piece in _pieces_of(self.model.directory / file)}

    def type_of(self, name: str) -> GGMLQuantizationType:
        """Vectors are kept in float32; a matrix that does not divide into blocks, in float16."""
        shape = self.model.shapes[name]
        if len(shape) == 1:
            return GGMLQuantizationType.F32
        wanted = _TYPES[self.kind]
        return wanted if shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0] == 0 else GGMLQuantizationType.F16

    def read(self, name: str) -> np.ndarray:
        """In float32. Llama's rotary rows go from halves, as transformers has them, to pairs."""
        weight = self._pieces[name].read()
        facts = self.model.facts
        heads = {"q_proj": facts.heads, "k_proj": facts.key_value_heads}.get(name.split(".")[-2])
        if self.family == "llama" and heads:
            weight = weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
        return np.ascontiguousarray(weight)


@dataclass(frozen=True)
class _Piece:
    """A tensor in a safetensors file."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int

    def read(self) -> np.ndarray:
        stored = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}.get(self.dtype)
        if stored is None:
            raise ModelError(f"{self.name} is stored as {self.dtype}, which cannot become GGUF.")
        raw = np.memmap(self.file, stored, "r", self.start, self.shape)
        # bfloat16 is the upper half of a float32.
        return (raw.astype("<u4") << 16).view("<f4") if self.dtype == "BF16" else raw.astype("<f4")


def _pieces_of(file: Path) -> Iterator[_Piece]:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    for name, entry in header.items():
        if name != "__metadata__":
            yield _Piece(file, name, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])


def _describe(writer: GGUFWriter, source: _Source) -> None:
    facts, config = source.model.facts, source.config
    writer.add_file_type(_FILE_TYPES[source.kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(facts.vocabulary)
    writer.add_context_length(facts.longest_context or 2048)
    writer.add_embedding_length(facts.hidden)
    writer.add_block_count(facts.layers)
    writer.add_feed_forward_length(facts.intermediate)
    writer.add_head_count(facts.heads)
    writer.add_head_count_kv(facts.key_value_heads)
    writer.add_key_length(facts.head_size)
    writer.add_value_length(facts.head_size)
    writer.add_rope_dimension_count(facts.head_size)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(float(source.rope["rope_theta"]))
    _describe_rope(writer, source.rope)


def _describe_rope(writer: GGUFWriter, rope: dict[str, Any]) -> None:
    kinds = {"linear": RopeScalingType.LINEAR, "yarn": RopeScalingType.YARN}
    if rope["rope_type"] in ("default", "llama3"):  # llama3's is a tensor
        return
    writer.add_rope_scaling_type(kinds[rope["rope_type"]])
    writer.add_rope_scaling_factor(float(rope["factor"]))
    if before := rope.get("original_max_position_embeddings"):
        writer.add_rope_scaling_orig_ctx_len(int(before))


def rope_factors(rope: dict[str, Any], head_size: int) -> np.ndarray:
    """By what Llama 3.1 divides each rotary frequency: nothing for the fast ones, `factor` for the slow ones."""
    frequencies = float(rope["rope_theta"]) ** (-np.arange(0, head_size, 2) / head_size)
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def _write_tensors(writer: GGUFWriter, source: _Source) -> None:
    rope = source.rope
    factors = rope_factors(rope, source.model.facts.head_size) if rope["rope_type"] == "llama3" else None
    if factors is not None:
        writer.add_tensor_info(ROPE_FACTORS, factors.shape, factors.dtype, factors.nbytes)
    for name, place in source.tensors:
        shape, kind = source.model.shapes[name], source.type_of(name)
        held = gguf.quant_shape_to_byte_shape(shape, kind) if kind == GGMLQuantizationType.Q8_0 else tuple(shape)
        dtype = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}.get(kind, np.uint8)
        size = math.prod(held) * np.dtype(dtype).itemsize
        writer.add_tensor_info(place, held, np.dtype(dtype), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    if factors is not None:
        writer.write_tensor_data(factors)
    for name, _ in source.tensors:
        weight = source.read(name)
        if len(weight.shape) > 1 and not np.abs(weight).max() <= np.finfo(np.float16).max:
            raise ModelError(f"{name} holds numbers that 16 bits of a GGUF file cannot.")
        writer.write_tensor_data(gguf.quantize(weight, source.type_of(name)))


def _describe_tokenizer(writer: GGUFWriter, source: _Source) -> None:
    folder = source.model.directory
    whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    settings = _read_json(folder / "tokenizer_config.json")
    splitting = splitting_of(whole)
    tokens, types = _tokens(whole, source.model.facts.vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if merges := whole["model"]["merges"]:
        writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    else:
        writer.add_token_scores([0.0] * len(tokens))  # a list that is empty cannot be stored; readers then ask for this
    ids = _special_ids(settings, source.config, tokens)
    for name, number in ids.items():
        getattr(writer, f"add_{name}_token_id")(number)
    first = Tokenizer.from_file(str(folder / "tokenizer.json")).encode("a").ids[:1]
    writer.add_add_bos_token("bos" in ids and first == [ids["bos"]])
    if template := _chat_template(folder, settings):
        writer.add_chat_template(template)


def _tokens(tokenizer: dict[str, Any], vocabulary: int) -> tuple[list[str], list[int]]:
    """By number, with their types; a model may have rows that no token uses."""
    tokens = [f"[PAD{number}]" for number in range(vocabulary)]
    types = [int(TokenType.UNUSED)] * vocabulary
    known = {number: (text, TokenType.NORMAL) for text, number in tokenizer["model"]["vocab"].items()}
    for each in tokenizer.get("added_tokens", []):
        known[each["id"]] = (each["content"], TokenType.CONTROL if each["special"] else TokenType.USER_DEFINED)
    for number, (text, kind) in known.items():
        if number >= vocabulary:
            raise ModelError(f"The tokenizer has a token {number}, and the model {vocabulary} rows.")
        tokens[number], types[number] = text, int(kind)
    return tokens, types


def _special_ids(settings: dict[str, Any], config: dict[str, Any], tokens: list[str]) -> dict[str, int]:
    numbers = {token: number for number, token in enumerate(tokens)}
    found = {}
    for name in ("bos", "eos", "unk", "pad"):
        said = settings.get(f"{name}_token")
        text = said.get("content") if isinstance(said, dict) else said
        number = numbers.get(text) if isinstance(text, str) else config.get(f"{name}_token_id")
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int):
            found[name] = number
    return found


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    said = file.read_text(encoding="utf-8") if file.is_file() else settings.get("chat_template")
    if isinstance(said, list):
        said = next((each["template"] for each in said if each.get("name") == "default"), None)
    return said if isinstance(said, str) else None


def _read_json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
