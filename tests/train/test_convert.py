import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

from burnish.train.convert import convert_gguf, main

_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TEMPLATE = "{% for message in messages %}{{ message['content'] }}<|im_end|>{% endfor %}"


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(_vocabulary()), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=128,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def _vocabulary() -> list[str]:
    """Three marks, one letter for each byte as GPT-2's alphabet has it, and two merges."""
    return [*_SPECIAL, *bytes_to_unicode().values(), "12", "34"]


def _write_gguf(path: Path, model: LlamaForCausalLM, kind: gguf.GGMLQuantizationType) -> None:
    """As llama.cpp's converter writes a Llama: its names, its order of rotary rows."""
    config, tokens = model.config, _vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads or config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(_SPECIAL) + [1] * (len(tokens) - len(_SPECIAL)))
    writer.add_token_merges(["1 2", "3 4"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(_TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        data = tensor.float().numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        for part, count in heads.items():
            if part in name:
                data = data.reshape(count, 2, -1, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        target = kind if data.ndim > 1 else gguf.GGMLQuantizationType.F32
        place = names.get_name(name, try_suffixes=(".weight",))
        assert place is not None
        writer.add_tensor(place, gguf.quants.quantize(np.ascontiguousarray(data), target), raw_dtype=target)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [
        (gguf.GGMLQuantizationType.F32, torch.float32, 1e-6),
        (gguf.GGMLQuantizationType.F16, torch.float32, 1e-3),
        (gguf.GGMLQuantizationType.Q8_0, torch.bfloat16, 2e-2),
    ],
)
def test_a_gguf_file_becomes_the_model_that_it_was_made_of(
    tmp_path: Path, llama: LlamaForCausalLM, kind: gguf.GGMLQuantizationType, dtype: torch.dtype, tolerance: float
) -> None:
    _write_gguf(tmp_path / "model.gguf", llama, kind)
    folder = tmp_path / "folder"
    assert main([str(tmp_path / "model.gguf"), str(folder)]) == 0
    ids = torch.arange(30)[None]
    with torch.no_grad():
        back = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        assert (back(ids).logits - llama(ids).logits).abs().max() < tolerance
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"] and "quantization_config" not in config
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118 (it is no dict)
    assert {tensor.dtype for tensor in tensors.values()} == {dtype}
    assert "lm_head.weight" not in tensors
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.chat_template == _TEMPLATE
    assert tokenizer.tokenize("12\n2") == ["1", "2", "Ċ", "2"]  # digits apart, though there is a merge for them
    assert not [path for path in folder.iterdir() if path.name.startswith(".") or path.stat().st_mode & 0o044 != 0o044]


def test_what_is_no_gguf_file_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF but not really")
    assert main([str(tmp_path / "model.gguf"), str(tmp_path / "folder")]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("model.gguf is not a whole GGUF file")
    assert not list((tmp_path / "folder").iterdir())


def test_a_cut_gguf_file_is_refused(
    tmp_path: Path, llama: LlamaForCausalLM, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_gguf(tmp_path / "model.gguf", llama, gguf.GGMLQuantizationType.F32)
    whole = (tmp_path / "model.gguf").read_bytes()
    (tmp_path / "model.gguf").write_bytes(whole[: len(whole) // 2])
    assert main([str(tmp_path / "model.gguf"), str(tmp_path / "folder")]) == 1
    assert "not a whole GGUF file" in capsys.readouterr().err
    assert not list((tmp_path / "folder").iterdir())


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.gguf").touch()
    assert main([str(tmp_path / "model.gguf"), str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main([str(tmp_path / "absent.gguf"), str(tmp_path / "new")]) == 1
    assert "is not there" in capsys.readouterr().err


def test_two_arguments_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_converting_goes_into_a_folder_that_its_caller_locked(tmp_path: Path, llama: LlamaForCausalLM) -> None:
    """The folder keeps its identity: the model cache holds a lock on it meanwhile."""
    _write_gguf(tmp_path / "model.gguf", llama, gguf.GGMLQuantizationType.F32)
    folder = tmp_path / "folder"
    folder.mkdir()
    before = folder.stat().st_ino
    convert_gguf(tmp_path / "model.gguf", folder)
    assert folder.stat().st_ino == before and (folder / "config.json").is_file()
