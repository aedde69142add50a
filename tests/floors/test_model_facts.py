import json
from pathlib import Path

import pytest

from burnish.errors import ModelError
from burnish.spec.model_facts import read_model_facts

QWEN3_06B = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 28,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}


def test_qwen3_06b_has_the_published_number_of_parameters(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_06B))
    # 596,049,920 by its model card; the query and key norms (28 x 2 x 128) are not counted here.
    assert read_model_facts(tmp_path).parameters == 596_049_920 - 28 * 2 * 128


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"num_hidden_layers": 2}'])
def test_a_folder_that_describes_no_decoder_is_refused(tmp_path: Path, text: str):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError):
        read_model_facts(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path):
    with pytest.raises(ModelError, match="no readable"):
        read_model_facts(tmp_path / "none")
