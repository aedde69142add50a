"""What a run leaves: whole, loaded by stock transformers, and held against the trainer's logits before it counts."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from test_trainer_process import events_of, the_end, train
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, Qwen3Config

from burnish.run.events import Exported, Step, Verified
from burnish.train import export, keeper
from burnish.train.adapter import Adapter
from burnish.train.card import without_paths

PROBE = torch.arange(40)[None]
QUICK = {"kind": "adamw", "learning_rate": 1e-2}
SHAPE = {
    "vocab_size": 258, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.fixture
def make_base(tiny: Path, tmp_path: Path):
    """A small random model with burnish/tiny's tokenizer; tied or not, in any dtype."""

    def make(kind: type = Qwen3Config, *, dtype: torch.dtype = torch.float32, **settings) -> Path:
        folder = shutil.copytree(tiny, tmp_path / "base")
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(kind(**SHAPE | settings)).to(dtype).save_pretrained(folder)
        return folder

    return make


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [Qwen3Config, LlamaConfig])
def test_tied_weights_are_exported_once_and_untied_ones_apart(
    make_run, make_base, kind: type, tied: bool, dtype: torch.dtype
) -> None:
    base = make_base(kind, dtype=dtype, tie_word_embeddings=tied)
    run = make_run(model=base, steps=2, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    folder = run.checkpoint(2).model
    weights = load_file(folder / "model.safetensors")
    assert weights.keys() == load_file(base / "model.safetensors").keys()
    assert ("lm_head.weight" in weights) is not tied
    assert all(weight.numel() for weight in weights.values()) and {each.dtype for each in weights.values()} == {dtype}
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is tied
    model = AutoModelForCausalLM.from_pretrained(folder)
    head, embeddings = model.get_parameter("lm_head.weight"), model.get_parameter("model.embed_tokens.weight")
    assert (head is embeddings) is tied and torch.equal(head, embeddings) is tied
    (verified,) = events_of(run, Verified)
    assert verified.artefact == "full" and verified.largest_difference <= verified.tolerance == 1e-4


def test_large_weights_are_written_in_shards(make_run, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "SHARD_BYTES", 200_000)
    run = make_run(steps=1, lora={"rank": 4}, export={"merged": True}, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    merged = run.checkpoint(1).merged
    shards = sorted(merged.glob("model-*.safetensors"))
    assert len(shards) > 2 and not (merged / "model.safetensors").exists()
    placed = json.loads((merged / "model.safetensors.index.json").read_text())["weight_map"]
    assert placed.keys() == load_file(tiny / "model.safetensors").keys()
    assert set(placed.values()) == {shard.name for shard in shards}
    assert [event.artefact for event in events_of(run, Verified)] == ["adapter", "merged"]


def test_a_generation_config_that_transformers_would_not_write_is_kept(make_run, make_base) -> None:
    """A temperature without sampling is common; transformers reads it and refuses to save it."""
    base = make_base()
    (base / "generation_config.json").write_text('{"do_sample": false, "temperature": 0.6, "top_p": 0.9}')
    run = make_run(model=base, steps=1)
    assert train(run) == 0, the_end(run)
    assert GenerationConfig.from_pretrained(run.checkpoint(1).model).temperature == 0.6


def test_a_model_that_is_not_what_was_trained_fails_the_run_and_keeps_the_checkpoint(
    make_run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def export_worse(folder: Path, decoder, state, *, base: Path) -> None:
        export.export_model(folder, decoder, state, base=base)
        weights = load_file(folder / "model.safetensors")
        weights["model.layers.3.mlp.down_proj.weight"] *= 1.01
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    monkeypatch.setattr(keeper, "export_model", export_worse)
    run = make_run(steps=2, checkpoints={}, optimizer=QUICK)
    assert train(run) == 1
    end = the_end(run)
    assert end.outcome == "failed" and end.step == 2
    assert end.message.startswith("The full model of step 2 is not the trained one")
    assert run.checkpoint(2).is_whole and run.checkpoint(2).trainer.is_dir()
    (verified,) = events_of(run, Verified)
    assert verified.largest_difference > verified.tolerance
    assert "[ERROR] The full model of step 2" in capsys.readouterr().out


def test_an_adapter_that_misses_a_layer_fails_the_run(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Adapter.export

    def export_worse(adapter: Adapter, folder: Path, state, **names) -> None:
        whole(adapter, folder, state, **names)
        weights = load_file(folder / "adapter_model.safetensors")
        weights = {name: each * (".3.self_attn.v_proj." not in name) for name, each in weights.items()}
        save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})

    monkeypatch.setattr(Adapter, "export", export_worse)
    run = make_run(steps=2, lora={"rank": 4}, optimizer=QUICK)
    assert train(run) == 1
    assert the_end(run).message.startswith("The adapter model of step 2 is not the trained one")


def test_only_the_last_save_is_held_against_the_trainer(make_run) -> None:
    run = make_run(steps=4, checkpoints={"every_steps": 2})
    assert train(run) == 0
    assert [event.step for event in events_of(run, Exported)] == [2, 4]
    assert [event.step for event in events_of(run, Verified)] == [4]


CONFIG = """# by hand, see /home/ada/notes.txt
[model]
name = "/srv/models/base"

[data]
name = "/volume/datasets/train.jsonl"   # not '~/data/train.jsonl'

[wandb]
api_key = "0123456789abcdef"
"""


@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_a_card_says_what_the_model_was_made_of(make_run, make_base, lora: dict | None) -> None:
    base = make_base()
    (base / "README.md").write_text("---\nlicense: apache-2.0\ntags: [base]\n---\nA base.\n")
    run = make_run(model=base, steps=3, lora=lora, export={"merged": lora is not None}, checkpoints={"every_steps": 2})
    run.config.parent.mkdir()
    run.config.write_text(CONFIG)
    assert train(run) == 0, the_end(run)
    saved = run.checkpoint(3)
    cards = [(folder / "README.md").read_text() for folder in (saved.model, saved.merged) if folder.is_dir()]
    fronts = [yaml.safe_load(card.split("---")[1]) for card in cards]
    assert [front["library_name"] for front in fronts] == (["peft", "transformers"] if lora else ["transformers"])
    data = (run.root.parents[1] / "train.jsonl").read_bytes()
    last, *_ = reversed(events_of(run, Step))
    for card, front in zip(cards, fronts, strict=True):
        assert (front["base_model"], front["license"]) == ("burnish/tiny", "apache-2.0")
        assert hashlib.sha256(data).hexdigest() in card and last.stream in card
        assert f"Loss of the last step: {last.values['loss/mean']:.4f}" in card
        assert f"- Steps: 3 of 3, {2} rows each" in card and "learning_rate 0.001" in card
        assert 'name = "base"' in card and 'api_key = "***"' in card and "/volume/datasets/train.jsonl" in card
        for private in ('0123456789abcdef"', "/home", "/srv", "~", str(base), str(run.root)):
            assert private not in card
    assert "Steps: 2 of 3" in (run.checkpoint(2).model / "README.md").read_text()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a = '/data/my rows/x.jsonl'", "a = 'x.jsonl'"),
        ("see /opt/a/b.toml, and https://host/a/b", "see b.toml, and https://host/a/b"),
        ("datasets/x/y", "datasets/x/y"),
        ("lr = 1e-4 / 2", "lr = 1e-4 / 2"),
    ],
)
def test_paths_of_a_machine_are_shown_by_their_last_part(written: str, shown: str) -> None:
    assert without_paths(written) == shown
