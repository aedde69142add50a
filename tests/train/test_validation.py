"""Loss on held-out rows: all of them, whatever the packing, and without a trace in what is trained."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from burnish.data.prepare import prepare_data, validation_spec
from burnish.run.directory import RunDirectory
from burnish.run.events import Finished, Step, Validated, Verified, read_events
from burnish.run.order import read_order
from burnish.spec.train import TrainSpec
from burnish.train.__main__ import main as train
from burnish.train.model import load_decoder
from burnish.train.parallel import World
from burnish.train.validate import open_rows, validate

CLIMBING = {"kind": "adamw", "learning_rate": 0.05}
"""Far too fast: what is learnt of the rows is soon unlearnt of others."""
HELD_OUT = [("Which bird?", "A heron."), ("And there?", "A wren, a lark and a long line of geese."), ("More?", "No.")]


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    path = tmp_path / "held-out.jsonl"
    rows = ([{"role": "user", "content": asked}, {"role": "assistant", "content": said}] for asked, said in HELD_OUT)
    path.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    return path


@pytest.fixture
def validated(make_run, held_out: Path):
    def make(name: str = "volume", every: int = 4, **wishes) -> RunDirectory:
        wish = {"data": {"path": "held-out.jsonl", "shuffle": False}, "row_tokens": 128, "every_steps": every}
        wish |= {key: wishes.pop(key) for key in ("at_start", "patience", "min_delta") if key in wishes}
        return make_run(name, validation=wish, validation_path=held_out, **wishes)

    return make


def events_of(run: RunDirectory, kind: type) -> list:
    return [event for event in read_events(run.diary)[0] if isinstance(event, kind)]


def test_a_run_validates_at_the_start_every_few_steps_and_at_the_end(validated, capsys) -> None:
    run = validated(at_start=True, steps=10)
    assert train([str(run.root)]) == 0
    found = events_of(run, Validated)
    assert [event.step for event in found] == [0, 4, 8, 10]
    trained = sum(len(said) + 1 for _, said in HELD_OUT)  # every byte and the end of the turn
    assert {event.trained_tokens for event in found} == {trained}
    assert found[-1].values["val/loss"] < found[0].values["val/loss"]
    assert f"Validation | Step 4 | Loss {found[1].values['val/loss']:.4f}" in capsys.readouterr().out
    assert events_of(run, Finished)[0].outcome == "completed"


def test_validating_changes_nothing_that_is_trained(validated, make_run) -> None:
    watched, plain = validated("watched", every=1), make_run("plain")
    for run in (watched, plain):
        assert train([str(run.root)]) == 0
    losses = [[step.values["loss/mean"] for step in events_of(run, Step)] for run in (watched, plain)]
    assert losses[0] == losses[1]


def test_every_save_is_validated_and_the_best_are_kept(validated, capsys) -> None:
    run = validated(every=100, steps=10, checkpoints={"every_steps": 3, "keep_best": 1}, optimizer=CLIMBING)
    assert train([str(run.root)]) == 0
    losses = {event.step: event.values["val/loss"] for event in events_of(run, Validated)}
    assert list(losses) == [3, 6, 9, 10]
    best = min(losses, key=losses.__getitem__)
    assert best != 10
    assert [each.step for each in run.whole_checkpoints()] == [best, 10]
    assert f"The best checkpoint is step_{best}: val/loss {losses[best]:.4f}" in capsys.readouterr().out


def test_a_run_ends_early_when_validations_bring_nothing(validated) -> None:
    run = validated(every=2, steps=60, patience=3, checkpoints={"keep_best": 1}, optimizer=CLIMBING)
    assert train([str(run.root)]) == 0
    losses = [event.values["val/loss"] for event in events_of(run, Validated)]
    end = events_of(run, Finished)[0]
    assert (end.outcome, end.step) == ("completed", 2 * len(losses)) and end.step < 60
    assert min(losses) == losses[-4] and min(losses[-3:]) > losses[-4]
    assert end.message == (
        f"Ended early, after step {end.step} of 60: "
        f"val/loss did not fall below {losses[-4]:.4f} in the last 3 validations."
    )
    assert [each.step for each in run.whole_checkpoints()] == [end.step]
    assert [event.step for event in events_of(run, Verified)] == [end.step]


def test_a_loss_has_to_fall_by_the_least_that_counts(validated) -> None:
    run = validated(every=1, steps=60, patience=2, min_delta=100.0)
    assert train([str(run.root)]) == 0
    assert events_of(run, Finished)[0].step == 3  # the first sets the mark, the next two do not reach it


def test_patience_is_kept_across_a_resume(validated) -> None:
    wishes = {"every": 2, "steps": 60, "patience": 4, "checkpoints": {"every_steps": 1}, "optimizer": CLIMBING}
    whole, cut = validated("whole", **wishes), validated("cut", **wishes)
    assert train([str(whole.root)]) == 0
    last = events_of(whole, Finished)[0].step
    command = [sys.executable, "-m", "burnish.train", str(cut.root), "--cut-after", str(last - 3)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    assert train([str(cut.root)]) == 0
    assert [events_of(run, Finished)[-1].message for run in (whole, cut)] == [events_of(whole, Finished)[0].message] * 2


@pytest.mark.parametrize(("pack", "rows_per_device"), [(True, 1), (False, 1), (False, 2), (True, 3)])
def test_the_loss_is_the_mean_over_all_tokens_however_they_are_packed(
    validated, tiny: Path, tmp_path: Path, held_out: Path, pack: bool, rows_per_device: int
) -> None:
    run = validated(rows_per_step=6, rows_per_device=rows_per_device)
    spec = read_order(run).spec
    assert spec.validation is not None
    packed = spec.validation.data.model_copy(update={"pack": pack})
    spec = spec.model_copy(update={"validation": spec.validation.model_copy(update={"data": packed})})
    assert _loss(spec, tiny, held_out, tmp_path) == pytest.approx(_by_hand(tiny), rel=1e-5)


def _loss(spec: TrainSpec, tiny: Path, held_out: Path, tmp_path: Path) -> float:
    wish = validation_spec(spec)
    assert wish is not None
    place: dict[str, Any] = {"model_directory": tiny, "data_path": held_out, "store_directory": tmp_path / "stores"}
    world = World(0, 1, 0, 1, torch.device("cpu"), torch.float32)
    rows = open_rows(spec, prepare_data(wish, **place, say=lambda _: None), world)
    decoder = load_decoder(tiny, world)
    before = torch.get_rng_state()
    outcome = validate(world, decoder, rows)
    assert torch.equal(before, torch.get_rng_state())
    assert all(each.grad is None for each in decoder.parameters()) and decoder.training
    return outcome.loss


def _by_hand(tiny: Path) -> float:
    """Stock transformers, one conversation at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny), AutoTokenizer.from_pretrained(tiny)
    total, count = 0.0, 0
    for asked, said in HELD_OUT:
        prompt = tokenizer.encode(f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n")
        answer = tokenizer.encode(f"{said}<|im_end|>")
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total += torch.nn.functional.cross_entropy(logits.double(), torch.tensor(answer), reduction="sum").item()
        count += len(answer)
    return total / count
