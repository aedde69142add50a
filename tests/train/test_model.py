import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GraniteConfig, GraniteForCausalLM

from burnish.data.loader import IGNORED, Batch
from burnish.errors import ModelError
from burnish.train.model import Decoder, load_decoder
from burnish.train.parallel import World


def _stock_loss(folder: Path, batch: Batch) -> float:
    """The token mean by stock transformers, each conversation alone."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    total, start = 0.0, 0
    for length in batch.lengths_D.tolist():
        part = slice(start, start + length)
        with torch.no_grad():
            logits = model(torch.from_numpy(batch.inputs_T[part])[None]).logits[0].double()
        targets = torch.from_numpy(batch.targets_T[part])
        total += torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum").item()
        start += length
    return total / batch.trained_tokens


def test_packed_loss_equals_stock_transformers_conversation_by_conversation(
    tiny: Path, decoder: Decoder, make_batch
) -> None:
    batch = make_batch(40, 7, 93, 2, 110)
    ours = decoder.summed_loss(batch, scale=1 / batch.trained_tokens).item()
    assert ours == pytest.approx(_stock_loss(tiny, batch), abs=1e-6)


def test_packed_gradients_equal_those_of_conversations_apart(decoder: Decoder, make_batch) -> None:
    lengths = (40, 7, 93)
    packed = make_batch(*lengths)
    decoder.summed_loss(packed, scale=1.0).backward()
    together = {name: each.grad.clone() for name, each in decoder.named_parameters() if each.grad is not None}
    decoder.zero_grad()
    edges = np.cumsum([0, *lengths])
    for start, end in itertools.pairwise(edges):
        part = slice(start, end)
        alone = Batch(packed.inputs_T[part], packed.targets_T[part], packed.positions_T[part], np.array([end - start]))
        decoder.summed_loss(alone, scale=1.0).backward()
    for name, parameter in decoder.named_parameters():
        torch.testing.assert_close(parameter.grad, together[name], rtol=1e-4, atol=1e-5)


def test_changing_one_conversation_leaves_the_others_hidden_states(decoder: Decoder, make_batch) -> None:
    batch = make_batch(30, 20, 30)
    other = batch.inputs_T.copy()
    other[:30] = (other[:30] + 1) % 250
    with torch.no_grad():
        before = decoder.hidden(batch.inputs_T, batch.positions_T, batch.lengths_D)
        after = decoder.hidden(other, batch.positions_T, batch.lengths_D)
    assert not torch.equal(before[:30], after[:30])
    assert torch.equal(before[30:], after[30:])


def test_the_pad_token_learns_like_any_other(tiny: Path, world: World, tmp_path: Path, make_batch) -> None:
    """Models pad with their end-of-turn token, and `nn.Embedding(padding_idx)` drops its gradient."""
    folder = shutil.copytree(tiny, tmp_path / "padded")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": 7}))
    batch = make_batch(20)
    batch.inputs_T[3] = 7
    gradients = []
    for each in (tiny, folder):
        decoder = load_decoder(each, world)
        decoder.summed_loss(batch, scale=1.0).backward()
        gradients.append(decoder.head_VH.grad)
    assert torch.equal(gradients[0], gradients[1])


def test_tied_embeddings_stay_one_parameter(decoder: Decoder) -> None:
    assert decoder.head_VH is decoder.model.get_input_embeddings().weight
    assert len({id(each) for each in decoder.parameters()}) == len(list(decoder.parameters()))


def test_a_model_with_a_missing_weight_is_refused_by_its_name(tiny: Path, world: World, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.2.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"layers\.2\.mlp\.up_proj"):
        load_decoder(folder, world)


def test_a_folder_that_is_no_model_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not load"):
        load_decoder(tmp_path, world)


def test_logits_that_are_more_than_a_product_are_refused(world: World, tmp_path: Path) -> None:
    config = GraniteConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, logits_scaling=8.0, initializer_range=2.0,
    )  # fmt: skip
    GraniteForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="GraniteForCausalLM"):
        load_decoder(tmp_path, world)
