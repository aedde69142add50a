"""SmolLM2-135M-Instruct itself: `BURNISH_SMOLLM2=<folder> pytest -m weights`. Without the folder these are skipped."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish.data.loader import IGNORED
from burnish.train.generate import ChatModel
from burnish.train.model import load_decoder
from burnish.train.parallel import World
from burnish.train.write_gguf import write_gguf

pytestmark = [
    pytest.mark.weights,
    pytest.mark.slow,
    pytest.mark.skipif("BURNISH_SMOLLM2" not in os.environ, reason="BURNISH_SMOLLM2 names no folder of real weights"),
]


@pytest.fixture
def smollm2() -> Path:
    return Path(os.environ["BURNISH_SMOLLM2"])


def test_packed_loss_equals_stock_transformers(smollm2: Path, world: World, make_batch) -> None:
    batch = make_batch(40, 7, 65, vocabulary=49152)
    ours = load_decoder(smollm2, world).summed_loss(batch, scale=1 / batch.trained_tokens).item()
    stock = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    total, edges = 0.0, np.cumsum([0, *batch.lengths_D])
    for start, end in pairwise(edges):
        with torch.no_grad():
            logits = stock(torch.from_numpy(batch.inputs_T[start:end])[None]).logits[0].double()
        targets = torch.from_numpy(batch.targets_T[start:end])
        total += torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum").item()
    assert ours == pytest.approx(total / batch.trained_tokens, abs=1e-5)


def test_it_knows_the_capital_of_france(smollm2: Path) -> None:
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    model = ChatModel.load(smollm2)
    assert "Paris" in "".join(model.reply(asked, max_tokens=12))
    assert "Paris" in model.reply_all([asked, [{"role": "user", "content": "Hi"}]], max_tokens=12)[0]


@pytest.mark.parametrize(("kind", "tolerance"), [("f16", 2e-3), ("q8_0", 3e-2)])
def test_its_gguf_file_is_read_by_stock_transformers(smollm2: Path, tmp_path: Path, kind, tolerance: float) -> None:
    write_gguf(smollm2, tmp_path / "model.gguf", kind)
    ids = torch.arange(1000, 1100)[None]
    with torch.no_grad():
        wanted = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)(ids).logits
        found = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32)(ids).logits
    assert (found - wanted).abs().max() < tolerance * wanted.abs().max()
    before, after = (
        AutoTokenizer.from_pretrained(smollm2),
        AutoTokenizer.from_pretrained(tmp_path, gguf_file="model.gguf"),
    )
    text = "<|im_start|>user\nWhy is the sky blue? \u00e9\u4f60<|im_end|>\n"
    assert before.encode(text) == after.encode(text)
