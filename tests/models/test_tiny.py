"""`burnish/tiny` is a model that stock transformers loads, and a tokenizer that loses nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from burnish.models.tiny import TURN_END, TURN_START, VOCABULARY, build_tiny
from burnish.spec.model_facts import read_model_facts


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    build_tiny(directory)
    return directory


@pytest.fixture(scope="module")
def tokenizer(tiny: Path) -> Iterator[Tokenizer]:
    yield Tokenizer.from_file(str(tiny / "tokenizer.json"))


def test_two_builds_are_equal_byte_for_byte(tiny: Path, tmp_path: Path):
    build_tiny(tmp_path)
    assert contents(tmp_path) == contents(tiny)


def test_facts_of_the_config_count_the_weights(tiny: Path):
    stored = sum(value.size for value in load_file(tiny / "model.safetensors").values())
    query_and_key_norms = 4 * 2 * 16
    assert read_model_facts(tiny).parameters + query_and_key_norms == stored


@settings(max_examples=300, deadline=None)
@given(text=st.text())
def test_any_text_comes_back_and_each_byte_is_one_token(tokenizer: Tokenizer, text: str):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == list(text.encode())
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(st.one_of(st.text(), st.sampled_from(["<|im_start|>", "<|im_end|>"]))))
def test_each_mark_is_one_token_wherever_it_stands(tokenizer: Tokenizer, pieces: list[str]):
    text = "".join(pieces)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids.count(TURN_START) == text.count("<|im_start|>")
    assert ids.count(TURN_END) == text.count("<|im_end|>")
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_transformers_loads_every_weight_and_starts_near_uniform(tiny: Path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(tiny, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert model.dtype == torch.float32
    assert model.config.pad_token_id is None
    assert model.generation_config.eos_token_id == TURN_END
    ids = torch.arange(VOCABULARY)[None]
    assert model(ids, labels=ids).loss.item() == pytest.approx(5.55, abs=0.1)


def test_transformers_renders_turns_without_a_system_turn_of_its_own(tiny: Path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny)
    assert len(tokenizer) == VOCABULARY
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (TURN_END, TURN_END)
    turns = [{"role": "user", "content": "Hé"}, {"role": "assistant", "content": " yes \n"}]
    text = "<|im_start|>user\nHé<|im_end|>\n<|im_start|>assistant\n yes \n<|im_end|>\n"
    assert tokenizer.apply_chat_template(turns, tokenize=False) == text
    opened = tokenizer.apply_chat_template(turns[:1], tokenize=False, add_generation_prompt=True)
    assert opened == "<|im_start|>user\nHé<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
