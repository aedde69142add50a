"""`burnish/tiny`: a whole chat model of 0.2 million weights, made by code, for tests and smoke runs.

Qwen3 architecture; every UTF-8 byte is one token, and so is each of `<|im_start|>` and `<|im_end|>`. It knows
nothing until it is trained. Two builds are equal byte for byte, on any machine.
"""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

LAYERS = 4
HIDDEN = 64
INTERMEDIATE = 192
HEADS = 4
KEY_VALUE_HEADS = 2
HEAD_SIZE = 16
LONGEST_CONTEXT = 8192

TURN_START = 256
TURN_END = 257
VOCABULARY = 258
"""The 256 bytes under their own numbers, then the two marks."""

SEED = 0
SPREAD = 0.02
"""Standard deviation of the matrices, as transformers initialises them."""

CHAT_TEMPLATE = (
    "{%- if tools -%}{{- '<|im_start|>tools\n' + (tools | tojson) + '<|im_end|>\n' -}}{%- endif -%}"
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') -}}"
    "{%- for call in message['tool_calls'] or [] -%}"
    "{{- '<tool_call>' + (call['function'] | tojson) + '</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""ChatML; tools stand in a turn of their own, calls after what is said."""


def build_tiny(directory: Path) -> None:
    """Write the model as a Hugging Face folder: config, weights, tokenizer and chat template."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file(_weights(), directory / "model.safetensors", metadata={"format": "pt"})
    _write_json(directory / "config.json", _config())
    _write_json(directory / "generation_config.json", {"eos_token_id": TURN_END, "do_sample": False})
    _write_json(directory / "tokenizer.json", _tokenizer())
    _write_json(directory / "tokenizer_config.json", _tokenizer_config())
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def _weights() -> dict[str, np.ndarray]:
    draw = np.random.Generator(np.random.PCG64(SEED))

    def matrix(rows: int, columns: int) -> np.ndarray:
        # Uniform, not normal: sums and products alone, so that no machine's libm moves the last bit.
        unit = draw.random((rows, columns), dtype=np.float32) - np.float32(0.5)
        return unit * np.float32(SPREAD * 12**0.5)

    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        each = {
            "self_attn.q_proj": matrix(HEADS * HEAD_SIZE, HIDDEN),
            "self_attn.k_proj": matrix(KEY_VALUE_HEADS * HEAD_SIZE, HIDDEN),
            "self_attn.v_proj": matrix(KEY_VALUE_HEADS * HEAD_SIZE, HIDDEN),
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_SIZE),
            "self_attn.q_norm": np.ones(HEAD_SIZE, np.float32),
            "self_attn.k_norm": np.ones(HEAD_SIZE, np.float32),
            "mlp.gate_proj": matrix(INTERMEDIATE, HIDDEN),
            "mlp.up_proj": matrix(INTERMEDIATE, HIDDEN),
            "mlp.down_proj": matrix(HIDDEN, INTERMEDIATE),
            "input_layernorm": np.ones(HIDDEN, np.float32),
            "post_attention_layernorm": np.ones(HIDDEN, np.float32),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": value for name, value in each.items()}
    weights["model.norm.weight"] = np.ones(HIDDEN, np.float32)
    return weights


def _config() -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_SIZE,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": LONGEST_CONTEXT,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "initializer_range": SPREAD,
        "bos_token_id": None,
        "eos_token_id": TURN_END,
        "pad_token_id": None,
        "dtype": "float32",
    }


def _tokenizer() -> dict[str, object]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, text in ((TURN_START, "<|im_start|>"), (TURN_END, "<|im_end|>"))
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {letter: byte for byte, letter in enumerate(_byte_letters())},
            "merges": [],
        },
    }


def _byte_letters() -> list[str]:
    """The letter under which byte-level BPE writes each byte: itself where it prints, else the next from U+0100."""
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printing else chr(next(spare)) for byte in range(256)]


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": LONGEST_CONTEXT,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _write_json(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
