import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from burnish.data.render import load_chat_renderer
from burnish.errors import DataError, ModelError
from burnish.run.directory import RunDirectory
from burnish.run.order import RunOrder, write_order
from burnish.run.plan import plan_layout
from burnish.spec.train import Renderer, TrainSpec
from burnish.train.__main__ import main
from burnish.train.generate import ChatModel


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A model that learned two answers by heart."""
    root = tmp_path_factory.mktemp("trained")
    rows = [_turns("hi", "Hello, friend é!"), _turns("what colour is it?", "green")]
    (root / "train.jsonl").write_text("\n".join(json.dumps({"messages": row}) for row in rows))
    spec = TrainSpec.model_validate(
        {
            "model": "burnish/tiny", "data": {"kind": "source", "path": "train.jsonl"}, "row_tokens": 128, "steps": 80,
            "rows_per_step": 1, "optimizer": {"kind": "adamw", "learning_rate": 1e-2},
        }
    )  # fmt: skip
    run = RunDirectory.on_volume(root, "job_0123456789abcdef")
    order = RunOrder(
        run_id=run.run_id, spec=spec, layout=plan_layout(spec, device="cpu"), model_directory=tiny,
        data_path=root / "train.jsonl", store_directory=root / "stores",
    )  # fmt: skip
    write_order(order, run)
    assert main([str(run.root)]) == 0
    return run.checkpoint(80).model


def _turns(asked: str, answer: str = "") -> list[dict[str, str]]:
    return [{"role": "user", "content": asked}, *([{"role": "assistant", "content": answer}] if answer else [])]


def test_a_trained_model_says_what_it_learned_and_stops(trained: Path) -> None:
    model = ChatModel.load(trained)
    pieces = list(model.reply(_turns("hi")))
    assert "".join(pieces) == "Hello, friend é!"
    assert len(pieces) == len("Hello, friend é!")  # a letter of two tokens comes whole
    assert model.reply_all([_turns("what colour is it?"), _turns("hi")]) == ["green", "Hello, friend é!"]


def test_many_at_once_say_what_each_says_alone(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts of all lengths, so that padding is everywhere, and more of them than one batch holds."""
    monkeypatch.setattr("burnish.train.generate._BATCH_ROWS", 8)
    model = ChatModel.load(trained)
    asked = [_turns(("hi ", "what colour is it? ")[number % 2] * (number * 5 % 7 + 1)) for number in range(20)]
    together = model.reply_all(asked, max_tokens=12)
    assert together == ["".join(model.reply(each, max_tokens=12)) for each in asked]
    assert len({len(reply) for reply in together}) > 1  # they end at different times


def test_greedy_replies_equal_stock_generation(trained: Path) -> None:
    renderer = load_chat_renderer(trained, Renderer())
    prompt = torch.tensor([renderer.prompt_ids(_turns("something new"))])
    stock: Any = AutoModelForCausalLM.from_pretrained(trained, dtype=torch.float32)
    ids = stock.generate(prompt, max_new_tokens=30, do_sample=False, attention_mask=torch.ones_like(prompt))[0]
    theirs = renderer.decode(ids[prompt.shape[1] :].tolist(), skip_control=True)
    assert "".join(ChatModel.load(trained).reply(_turns("something new"), max_tokens=30)) == theirs


def test_a_seed_makes_a_warm_reply_repeatable(tiny: Path) -> None:
    model = ChatModel.load(tiny)

    def warm(seed: int) -> str:
        return "".join(model.reply(_turns("hi"), max_tokens=30, temperature=1.5, seed=seed))

    assert warm(1) == warm(1)
    assert len({warm(seed) for seed in range(4)}) > 1


def test_a_reply_ends_at_its_limit(tiny: Path) -> None:
    assert len("".join(ChatModel.load(tiny).reply(_turns("hi"), max_tokens=3)).encode(errors="replace")) <= 9


def test_a_prompt_beyond_the_models_context_is_refused(tiny: Path) -> None:
    with pytest.raises(DataError, match="reads 8192"):
        list(ChatModel.load(tiny).reply(_turns("x" * 9000)))


def test_a_folder_without_weights_is_refused(tiny: Path, tmp_path: Path) -> None:
    for file in tiny.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match="does not load"):
        ChatModel.load(tmp_path)
