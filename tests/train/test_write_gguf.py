"""A Hugging Face folder as GGUF: what other readers make of the file is the model that was written."""

import json
import shutil
from pathlib import Path

import gguf
import pytest
import torch
from test_export import QUICK, SHAPE
from test_trainer_process import events_of, the_end, train
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GemmaConfig,
    LlamaConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from burnish.errors import ModelError
from burnish.models.tiny import CHAT_TEMPLATE
from burnish.run.events import Exported, Verified
from burnish.train.convert import convert_gguf
from burnish.train.write_gguf import LLAMA3_ROPE, TOLERANCES, check_gguf, main, write_gguf

PROBE = torch.arange(200)[None]
LLAMA3 = LLAMA3_ROPE | {"rope_theta": 500_000.0, "factor": 32.0}


@pytest.fixture
def make_folder(tiny: Path, tmp_path: Path):
    def make(kind: type, *, dtype: torch.dtype = torch.float32, **settings) -> Path:
        folder = shutil.copytree(tiny, tmp_path / "folder")
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(kind(**SHAPE | settings))
        with torch.no_grad():
            for weight in model.parameters():  # norms and biases are all ones and zeros otherwise
                weight.add_(torch.rand_like(weight), alpha=0.1)
        model.to(dtype).save_pretrained(folder)
        return folder

    return make


def logits_of(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        return model(PROBE).logits


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kind", "tolerance"), [("f16", 2e-3), ("q8_0", 3e-2)])
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        (LlamaConfig, {"attention_bias": True, "rope_theta": 1e6}),
        (Qwen2Config, {"dtype": torch.bfloat16}),
        (Qwen3Config, {"head_dim": 128, "num_key_value_heads": 1}),  # transformers' reader knows no other size of heads
    ],
)
def test_stock_transformers_reads_the_model_that_was_written(
    make_folder, tmp_path: Path, family: type, settings: dict, kind: str, tolerance: float, tied: bool
) -> None:
    folder = make_folder(family, tie_word_embeddings=tied, **settings)
    file = tmp_path / "model.gguf"
    assert main([str(folder), str(file), kind]) == 0
    wanted = logits_of(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))
    found = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32)
    assert (logits_of(found) - wanted).abs().max() < tolerance * wanted.abs().max()
    assert found.config.tie_word_embeddings is tied
    names = [tensor.name for tensor in gguf.GGUFReader(file).tensors]
    assert ("output.weight" in names) is not tied and len(names) == len(set(names))


@pytest.mark.parametrize("kind", ["f16", "q8_0"])
def test_a_model_comes_back_from_gguf_as_it_went(tiny: Path, tmp_path: Path, kind) -> None:
    """burnish/tiny has heads of 16, which transformers' own reader takes for 128."""
    file = tmp_path / "model.gguf"
    write_gguf(tiny, file, kind)
    assert 0 < check_gguf(file, tiny, kind) < TOLERANCES[kind]
    convert_gguf(file, tmp_path / "back")
    wanted = logits_of(AutoModelForCausalLM.from_pretrained(tiny))
    assert (
        logits_of(AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.float32)) - wanted
    ).abs().max() < 2e-2
    before, after = (AutoTokenizer.from_pretrained(folder) for folder in (tiny, tmp_path / "back"))
    text = "<|im_start|>user\nWhat, 12\n\nis 3é?<|im_end|>\n"
    assert before.encode(text) == after.encode(text)
    assert after.chat_template == CHAT_TEMPLATE and after.eos_token == "<|im_end|>"
    assert not list(tmp_path.glob(".*"))


def test_rotary_factors_of_llama_3_are_written(make_folder, tmp_path: Path) -> None:
    folder = make_folder(LlamaConfig, rope_parameters=LLAMA3, head_dim=32, hidden_size=128)
    write_gguf(folder, tmp_path / "model.gguf", "f16")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    (factors,) = [tensor.data for tensor in reader.tensors if tensor.name == "rope_freqs.weight"]
    plain = 500_000.0 ** (-torch.arange(0, 32, 2) / 32)
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.testing.assert_close(plain / torch.tensor(factors), model.get_buffer("model.rotary_emb.inv_freq"))
    assert check_gguf(tmp_path / "model.gguf", folder, "f16") < TOLERANCES["f16"]
    convert_gguf(tmp_path / "model.gguf", tmp_path / "back")
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    assert back.config.rope_parameters == model.config.rope_parameters


def test_yarn_is_told(make_folder, tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 512}
    write_gguf(make_folder(Qwen3Config, rope_parameters=yarn), tmp_path / "model.gguf", "f16")
    fields = gguf.GGUFReader(tmp_path / "model.gguf").fields
    said = {
        key: fields[f"qwen3.rope.scaling.{key}"].contents() for key in ("type", "factor", "original_context_length")
    }
    assert said == {"type": "yarn", "factor": 4.0, "original_context_length": 512}
    convert_gguf(tmp_path / "model.gguf", tmp_path / "back")
    assert AutoConfig.from_pretrained(tmp_path / "back").rope_parameters == yarn


@pytest.mark.parametrize(
    ("family", "settings", "said"),
    [
        (GemmaConfig, {}, "Models of the family gemma cannot be written as GGUF."),
        (Qwen2Config, {"use_sliding_window": True}, "sliding window"),
        (LlamaConfig, {"hidden_act": "gelu"}, "gelu"),
        (LlamaConfig, {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "type dynamic"),
    ],
)
def test_what_the_file_cannot_tell_is_refused_by_name(
    make_folder, tmp_path: Path, capsys: pytest.CaptureFixture[str], family: type, settings: dict, said: str
) -> None:
    assert main([str(make_folder(family, **settings)), str(tmp_path / "model.gguf"), "f16"]) == 1
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
    assert not list(tmp_path.glob("*gguf*")) + list(tmp_path.glob(".*gguf*"))


def test_a_tokenizer_that_gguf_has_no_name_for_is_refused(make_folder, tmp_path: Path) -> None:
    folder = make_folder(LlamaConfig)
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelError, match="byte-level BPE"):
        write_gguf(folder, tmp_path / "model.gguf", "f16")


def test_a_damaged_weight_is_found_when_the_file_is_read_back(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(tiny, file, "f16")
    damaged = gguf.GGUFReader(file, "r+")
    (down,) = [tensor for tensor in damaged.tensors if tensor.name == "blk.2.ffn_down.weight"]
    down.data[3, 5] += 0.5
    damaged.data.flush()
    with pytest.raises(ModelError, match=r"blk\.2\.ffn_down"):
        check_gguf(file, tiny, "f16")


def test_numbers_beyond_sixteen_bits_are_refused(make_folder, tmp_path: Path) -> None:
    folder = make_folder(LlamaConfig)
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.get_parameter("model.layers.0.mlp.up_proj.weight")[0, 0] = 1e6
    model.save_pretrained(folder)
    with pytest.raises(ModelError, match=r"layers\.0\.mlp\.up_proj"):
        write_gguf(folder, tmp_path / "model.gguf", "f16")
    assert not list(tmp_path.glob("*.gguf"))


def test_added_tokens_and_spare_rows_keep_their_places(make_folder, tmp_path: Path) -> None:
    folder = make_folder(LlamaConfig, vocab_size=300)
    write_gguf(folder, tmp_path / "model.gguf", "q8_0")
    fields = gguf.GGUFReader(tmp_path / "model.gguf").fields
    tokens, types = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type"))
    assert len(tokens) == len(types) == 300 and len(set(tokens)) == 300
    assert [tokens[256], types[256], types[0], types[299]] == ["<|im_start|>", 3, 1, 5]
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == 300


@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_a_run_leaves_a_gguf_file_beside_its_model(make_run, lora: dict | None) -> None:
    export = {"merged": lora is not None, "gguf": "q8_0"}
    run = make_run(steps=3, lora=lora, export=export, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    saved = run.checkpoint(3)
    assert check_gguf(saved.gguf, saved.merged if lora else saved.model, "q8_0") < TOLERANCES["q8_0"]
    (told,) = [event for event in events_of(run, Exported) if event.form == "gguf"]
    assert told.path.endswith("/step_3/model.gguf") and told.size_bytes == saved.gguf.stat().st_size
    assert "gguf" in [event.artefact for event in events_of(run, Verified)]


def test_a_gguf_file_that_is_not_the_model_fails_the_run(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write_gguf

    def write_worse(folder: Path, file: Path, kind) -> None:
        whole(folder, file, kind)
        damaged = gguf.GGUFReader(file, "r+")
        damaged.tensors[5].data[:] = 0
        damaged.data.flush()

    monkeypatch.setattr("burnish.train.write_gguf.write_gguf", write_worse)
    run = make_run(steps=2, export={"gguf": "f16"})
    assert train(run) == 1
    assert "model.gguf does not hold the model" in the_end(run).message and run.checkpoint(2).is_whole
