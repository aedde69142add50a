"""A model folder is whole, or the refusal says what is missing."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from burnish.errors import ModelError
from burnish.models.folder import INDEX, inspect_folder


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


def lengthen(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"\0")


def empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def garble(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 4) + b"nope")


def boast(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")


def point(folder: Path) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")


def pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def lose_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def lose_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def slow_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")


def break_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 1}')


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut, "its header describes"),
        (lengthen, "its header describes"),
        (empty, "not a safetensors file"),
        (garble, "not a safetensors file"),
        (boast, "not a safetensors file"),
        (point, "Git LFS pointer"),
        (pickle, "holds no weights in the safetensors format"),
        (lose_config, "no readable config.json"),
        (lose_tokenizer, "has no tokenizer.json."),
        (slow_tokenizer, "has no tokenizer.json, only tokenizer.model."),
        (break_tokenizer, "tokenizer.json cannot be read"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(model_folder: Path, damage: Callable[[Path], None], words: str):
    damage(model_folder)
    with pytest.raises(ModelError) as refused:
        inspect_folder(model_folder)
    assert words in refused.value.message
    assert "\n" not in refused.value.message


def test_parameters_are_those_of_the_weights(model_folder: Path):
    stored = sum(value.size for value in load_file(model_folder / "model.safetensors").values())
    assert inspect_folder(model_folder).parameters == stored


def test_a_tied_output_matrix_that_is_stored_as_well_counts_once(model_folder: Path):
    alone = inspect_folder(model_folder).parameters
    weights = load_file(model_folder / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    save_file(weights, model_folder / "model.safetensors")
    assert inspect_folder(model_folder).parameters == alone


def test_a_model_in_shards_is_the_model_in_one_piece(model_folder: Path):
    whole = inspect_folder(model_folder)
    shard(model_folder)
    pieces = inspect_folder(model_folder)
    assert pieces.parameters == whole.parameters
    assert {INDEX, "model-1.safetensors", "model-2.safetensors"} <= set(pieces.files)


def test_a_shard_that_is_missing_is_named(model_folder: Path):
    shard(model_folder)
    (model_folder / "model-2.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model-2\.safetensors is missing"):
        inspect_folder(model_folder)


def test_a_tensor_that_its_shard_lacks_is_named(model_folder: Path):
    shard(model_folder)
    save_file({"other": np.zeros(1, np.float32)}, model_folder / "model-2.safetensors")
    with pytest.raises(ModelError, match=r"model-2\.safetensors lacks "):
        inspect_folder(model_folder)


def test_an_index_that_points_out_of_its_folder_is_refused(model_folder: Path):
    (model_folder / INDEX).write_text(json.dumps({"weight_map": {"x": "../model.safetensors"}}))
    with pytest.raises(ModelError, match="not in its folder"):
        inspect_folder(model_folder)


def test_a_model_without_a_chat_template_is_taken_with_a_note(model_folder: Path):
    assert inspect_folder(model_folder).notes == ()
    (model_folder / "chat_template.jinja").unlink()
    (model_folder / "tokenizer_config.json").write_text("{}")
    assert "no chat template" in inspect_folder(model_folder).notes[0]


def shard(folder: Path) -> None:
    """Replace the one weights file by two and an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    placed = {}
    for number, part in ((1, names[::2]), (2, names[1::2])):
        save_file({name: weights[name] for name in part}, folder / f"model-{number}.safetensors")
        placed |= dict.fromkeys(part, f"model-{number}.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": placed}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_hidden_layers", 0),
        ("hidden_size", 10**9),
        ("hidden_size", "x"),
        ("vocab_size", -1),
        ("architectures", 7),
    ],
)
def test_a_config_that_describes_no_model_or_another_one_is_refused(model_folder: Path, key: str, value: object):
    config = json.loads((model_folder / "config.json").read_text())
    (model_folder / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(ModelError, match="does not describe"):
        inspect_folder(model_folder)


@pytest.mark.parametrize("entry", [{"shape": ["a"], "data_offsets": [0, 0]}, {"shape": [1], "data_offsets": [0, "x"]}])
def test_a_header_with_words_for_numbers_is_no_safetensors(model_folder: Path, entry: dict):
    header = json.dumps({"x": entry}).encode()
    (model_folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelError, match="is not a safetensors file"):
        inspect_folder(model_folder)
