"""Whole runs through the front door of the trainer: `run.json` in, diary, log and folders out."""

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.run.events import (
    AnyEvent,
    Checkpointed,
    CheckpointRemoved,
    Event,
    Exported,
    Finished,
    Prepared,
    Started,
    Step,
    Verified,
    read_events,
)
from burnish.train.__main__ import main
from burnish.train.checkpoint import save_trainer
from burnish.train.model import load_decoder
from burnish.train.parallel import World


def train(run: RunDirectory, *arguments: str) -> int:
    return main([str(run.root), *arguments])


def events_of(run: RunDirectory, kind: type[Event] = Event) -> list:
    return [event for event in read_events(run.diary)[0] if isinstance(event, kind)]


def losses_of(run: RunDirectory, *, first: int = 1) -> list[tuple[int, float]]:
    """Of the steps from `first` on; of a step done twice, the higher attempt's."""
    by_step = {event.step: event.values["loss/mean"] for event in events_of(run, Step)}
    return sorted((step, loss) for step, loss in by_step.items() if step >= first)


def the_end(run: RunDirectory) -> Finished:
    last: AnyEvent = events_of(run)[-1]
    assert isinstance(last, Finished)
    return last


def trained_state(checkpoint: CheckpointDirectory) -> dict[str, bytes]:
    """Every tensor and counter of a checkpoint, as bytes."""
    merged = checkpoint.root.parent / "merged.pt"
    dcp_to_torch_save(checkpoint.trainer, merged)
    state = torch.load(merged)["app"]
    merged.unlink()
    found = {
        f"{part}/{name}": tensor.numpy().tobytes()
        for part in ("model", "optimizer")
        for name, tensor in state[part].items()
    }
    return found | {"progress": (checkpoint.trainer / "progress.json").read_bytes()}


def test_a_run_trains_tells_and_leaves_a_model(make_run, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(checkpoints={}, steps=5)
    assert train(run) == 0
    started, prepared, *steps, checkpointed, exported, verified, finished = events_of(run)
    assert isinstance(started, Started) and started.device == "CPU, 1 thread" and started.dtype == "float32"
    assert isinstance(prepared, Prepared) and prepared.conversations_read == prepared.conversations_used == 40
    assert [step.step for step in steps] == [1, 2, 3, 4, 5]
    assert steps[-1].values["loss/mean"] < steps[0].values["loss/mean"]
    assert isinstance(checkpointed, Checkpointed) and checkpointed.path.endswith("/checkpoints/step_5/trainer")
    assert checkpointed.path.startswith(f"/runs/{run.run_id}/outputs/fft-{run.run_id}/")
    assert isinstance(exported, Exported) and exported.path.endswith("/checkpoints/step_5/model")
    assert isinstance(verified, Verified) and verified.largest_difference is not None
    assert verified.largest_difference < verified.tolerance
    assert finished.outcome == "completed" and finished.step == 5
    log = capsys.readouterr().out
    assert log.count("[SUCCESS] Step ") == 5
    assert log.rstrip().endswith("[INFO] SFT trainer finished!")


def test_every_step_has_every_metric(make_run) -> None:
    run = make_run(steps=2, clip_norm=None)
    assert train(run) == 0
    for step in events_of(run, Step):
        assert set(step.values) == {
            "loss/mean", "loss/perplexity", "loss/skipped", "optim/lr", "optim/grad_norm", "perf/throughput",
            "perf/trained_tokens_per_second", "perf/mfu", "memory/peak_bytes", "time/step_seconds", "progress/epoch",
        }  # fmt: skip
        assert 0 < step.trained_tokens < step.tokens <= 2 * 128


def test_stock_transformers_loads_the_export_and_gives_the_same_logits(make_run, world: World) -> None:
    run = make_run(steps=3, checkpoints={})
    assert train(run) == 0
    folder = run.checkpoint(3).model
    ids = torch.arange(40)[None]
    with torch.no_grad():
        stock = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(ids).logits
        ours = load_decoder(folder, world).model(ids, lengths=[40]).logits
    assert (stock - ours).abs().max() < 1e-5
    exported = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in exported  # tied, so there is one
    state = trained_state(run.checkpoint(3))
    assert {name: tensor.numpy().tobytes() for name, tensor in exported.items()} == {
        name.removeprefix("model/"): value for name, value in state.items() if name.startswith("model/")
    }
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_an_export_keeps_the_dtype_and_the_ties_of_its_base(make_run, tiny: Path, tmp_path: Path) -> None:
    base = shutil.copytree(tiny, tmp_path / "half")
    AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.bfloat16).save_pretrained(base)
    run = make_run(model=base, steps=2, checkpoints={})
    assert train(run) == 0
    exported = load_file(run.checkpoint(2).model / "model.safetensors")
    masters = trained_state(run.checkpoint(2))
    assert exported.keys() == load_file(base / "model.safetensors").keys()
    for name, tensor in exported.items():
        master = torch.frombuffer(bytearray(masters[f"model/{name}"]), dtype=torch.float32).view(tensor.shape)
        assert torch.equal(tensor, master.to(torch.bfloat16))


def test_the_first_loss_is_stock_transformers_packed_or_not(make_run, tiny: Path) -> None:
    """One step over the whole data set; every conversation alone through the untouched model gives the same mean."""
    firsts = []
    for pack in (True, False):
        data = {"kind": "source", "path": "train.jsonl", "pack": pack}
        run = make_run(f"pack-{pack}", data=data, steps=1, rows_per_step=40, rows_per_device=8)
        assert train(run) == 0
        firsts.append(losses_of(run)[0][1])
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    total, count = 0.0, 0
    for line in (make_run("rows").root.parent.parent / "train.jsonl").read_text().splitlines():
        messages = json.loads(line)["messages"]
        whole = tokenizer.apply_chat_template(messages, tokenize=True, return_tensors="pt", return_dict=False)
        asked = tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True, return_dict=False)
        # The answer and its end-of-turn token, not the line end after it.
        trained = slice(len(asked) - 1, whole.shape[1] - 2)
        with torch.no_grad():
            logits = model(whole).logits[0, trained].double()
        targets = whole[0, trained.start + 1 : trained.stop + 1]
        total += torch.nn.functional.cross_entropy(logits, targets, reduction="sum").item()
        count += len(targets)
    assert firsts == pytest.approx([total / count] * 2, abs=1e-5)


def test_a_run_cut_in_two_equals_the_whole_run_bit_for_bit(make_run) -> None:
    schedule = {"kind": "cosine", "warmup_steps": 2}
    whole = make_run("whole", checkpoints={"every_steps": 4}, schedule=schedule, steps=9)
    assert train(whole) == 0
    cut = make_run("cut", checkpoints={"every_steps": 4}, schedule=schedule, steps=9)
    with _signal_after(cut, step=5, number=signal.SIGTERM):
        assert train(cut) == 0
    stopped = the_end(cut)
    assert stopped.outcome == "stopped" and 5 <= stopped.step < 9
    assert cut.whole_checkpoints()[-1].step == stopped.step
    assert train(cut) == 0
    assert the_end(cut).outcome == "completed" and the_end(cut).attempt == 2
    assert [event.resumed_from_step for event in events_of(cut, Started)] == [0, stopped.step]
    assert losses_of(cut) == losses_of(whole)
    assert trained_state(cut.checkpoint(9)) == trained_state(whole.checkpoint(9))


@contextlib.contextmanager
def _signal_after(run: RunDirectory, *, step: int, number: int) -> Iterator[None]:
    """A child that watches the diary and signals this process once `step` is there."""
    watcher = os.fork()
    if watcher == 0:
        while not any(event.step >= step for event in events_of(run, Step)):
            time.sleep(0.002)
        os.kill(os.getppid(), number)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)


def test_a_killed_run_goes_on_as_its_next_attempt(make_run) -> None:
    """In processes of their own, as the executor starts them: one is killed, the next is asked to stop."""
    wishes = {"checkpoints": {"every_steps": 5}, "steps": 3000}
    run = make_run("killed", **wishes)
    first = _start(run, attempt=1)
    _wait_for(run, first, step=7)
    _wait_until(lambda: bool(events_of(run, Checkpointed)))
    first.kill()
    first.wait()
    second = _start(run, attempt=2)
    _wait_for(run, second, attempt=2)
    second.send_signal(signal.SIGTERM)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0, out
    resumed_from = events_of(run, Started)[1].resumed_from_step
    assert resumed_from >= 5 and resumed_from % 5 == 0
    end = the_end(run)
    assert (end.outcome, end.attempt) == ("stopped", 2)
    whole = make_run("whole", **wishes)
    with _signal_after(whole, step=end.step, number=signal.SIGTERM):
        assert train(whole) == 0
    assert losses_of(whole)[: end.step] == losses_of(run)[: end.step]
    again = [event.step for event in events_of(run, Step) if event.attempt == 2]
    assert again == list(range(resumed_from + 1, end.step + 1))
    assert {event.step for event in events_of(run, Checkpointed)} == {each.step for each in run.whole_checkpoints()}


def _start(run: RunDirectory, *, attempt: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "burnish.train", str(run.root), "--attempt", str(attempt)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _wait_for(run: RunDirectory, trainer: subprocess.Popen[str], *, step: int = 1, attempt: int = 1) -> None:
    deadline = time.monotonic() + 120
    while not any(event.step >= step and event.attempt == attempt for event in events_of(run, Step)):
        assert trainer.poll() is None, trainer.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_that_was_done_trains_no_further_step(make_run) -> None:
    run = make_run(checkpoints={}, steps=3)
    assert train(run) == 0
    before = trained_state(run.checkpoint(3))
    assert train(run) == 0
    assert the_end(run).outcome == "completed" and the_end(run).step == 3
    assert [event.step for event in events_of(run, Step)] == [1, 2, 3]
    assert trained_state(run.checkpoint(3)) == before


def test_a_save_that_the_diary_missed_is_told_by_the_next_attempt(make_run) -> None:
    """Killed between the rename and the line that tells of it."""
    run = make_run(checkpoints={}, steps=3)
    assert train(run) == 0
    lines = run.diary.read_text().splitlines(keepends=True)
    run.diary.write_text("".join(line for line in lines if json.loads(line)["kind"] == "step"))
    assert train(run) == 0
    assert [event.step for event in events_of(run, Checkpointed)] == [3]
    assert [event.step for event in events_of(run, Exported)] == [3]


def test_another_runs_checkpoint_is_gone_on_from(make_run) -> None:
    first = make_run("first", checkpoints={}, steps=4)
    assert train(first) == 0
    second = make_run("second", steps=6, resume_from=first.checkpoint(4).root)
    assert train(second) == 0
    whole = make_run("whole", steps=6)
    assert train(whole) == 0
    assert [step for step, _ in losses_of(second)] == [5, 6]
    assert losses_of(second) == losses_of(whole, first=5)


def test_without_ckpt_only_the_model_is_kept_and_only_at_the_end(make_run) -> None:
    run = make_run(steps=2)
    assert train(run) == 0
    kept = run.checkpoint(2)
    assert kept.is_whole and (kept.model / "config.json").is_file() and not kept.trainer.exists()
    assert not events_of(run, Checkpointed) and len(events_of(run, Exported)) == 1


def test_retention_keeps_the_newest_and_tells(make_run) -> None:
    run = make_run(checkpoints={"every_steps": 2, "keep_last": 1}, steps=6)
    assert train(run) == 0
    assert [each.step for each in run.whole_checkpoints()] == [6]
    assert [event.step for event in events_of(run, CheckpointRemoved)] == [2, 4]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_save_beside_the_training_is_to_the_bit_one_that_training_waits_for(
    make_run, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    wishes = {"checkpoints": {"every_steps": 2}, "steps": 5, "optimizer": {"kind": optimizer, "learning_rate": 1e-3}}
    beside = make_run("beside", **wishes)
    assert train(beside) == 0
    monkeypatch.setattr("burnish.train.keeper.free_memory_bytes", lambda: 0)
    waiting = make_run("waiting", **wishes)
    assert train(waiting) == 0
    for step in (2, 4, 5):
        assert trained_state(beside.checkpoint(step)) == trained_state(waiting.checkpoint(step))
        weights = [(run.checkpoint(step).model / "model.safetensors").read_bytes() for run in (beside, waiting)]
        assert weights[0] == weights[1]
    told = [events_of(run, Checkpointed)[0] for run in (beside, waiting)]
    assert told[0].blocked_seconds < told[0].seconds and told[1].blocked_seconds == told[1].seconds


def test_a_write_that_fails_beside_the_training_fails_the_run_with_a_sentence(
    make_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And costs no older checkpoint."""

    def break_at_four(folder: Path, *_: object) -> None:
        if "step_4" in str(folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        save_trainer(folder, *_)  # type: ignore[arg-type]

    monkeypatch.setattr("burnish.train.keeper.save_trainer", break_at_four)
    run = make_run(checkpoints={"every_steps": 2, "keep_last": 1}, steps=300)
    assert train(run) == 1
    end = the_end(run)
    assert (end.outcome, end.code) == ("failed", "run") and end.step < 300
    assert end.message == "Step 4 could not be saved: Input/output error."
    assert [path.name for path in run.checkpoints.iterdir()] == ["step_2"]


def test_a_run_that_fails_keeps_what_was_being_saved(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*given: Any) -> None:
        time.sleep(0.5)
        save_trainer(*given)

    monkeypatch.setattr("burnish.train.keeper.save_trainer", slowly)
    monkeypatch.setattr("burnish.train.loop.rows_of_step", lambda job, step: 1 // (5 - step))
    run = make_run(checkpoints={"every_steps": 4}, steps=9)
    assert train(run) == 1
    assert "ZeroDivisionError" in the_end(run).message
    assert [event.step for event in events_of(run, Checkpointed)] == [4]
    assert [each.step for each in run.whole_checkpoints()] == [4]


def test_micro_batches_change_nothing_but_the_memory(make_run) -> None:
    losses = []
    for rows in (1, 4):
        run = make_run(f"micro-{rows}", rows_per_step=4, rows_per_device=rows, steps=4)
        assert train(run) == 0
        losses.append([loss for _, loss in losses_of(run)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-6)


def test_the_last_step_of_an_epoch_may_be_short(make_run) -> None:
    data = {"kind": "source", "path": "train.jsonl", "pack": False}
    run = make_run(rows=10, data=data, rows_per_step=4, steps=None, epochs=2)
    assert train(run) == 0
    assert [event.steps for event in events_of(run, Prepared)] == [6]
    epochs = [event.values["progress/epoch"] for event in events_of(run, Step)]
    assert epochs == pytest.approx([1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2])
    tokens = [event.tokens for event in events_of(run, Step)]
    assert sum(tokens[:3]) == sum(tokens[3:]) == events_of(run, Prepared)[0].tokens


def test_bfloat16_computes_close_to_float32_over_float32_weights(make_run) -> None:
    losses = []
    for dtype in ("float32", "bfloat16"):
        run = make_run(dtype, dtype=dtype, steps=5, checkpoints={})
        assert train(run) == 0
        assert events_of(run, Started)[0].dtype == dtype
        losses.append([loss for _, loss in losses_of(run)])
        state = trained_state(run.checkpoint(5))
        assert all(len(value) % 4 == 0 for name, value in state.items() if name != "progress")
    assert losses[0] == pytest.approx(losses[1], rel=0.02) and losses[0] != losses[1]


@pytest.mark.parametrize("tokens", ["increasing", "random"])
@pytest.mark.parametrize("length", ["fixed", "variable"])
def test_made_up_data_needs_no_file(make_run, tokens: str, length: str) -> None:
    run = make_run(data={"kind": "fake", "tokens": tokens, "length": length}, steps=2)
    assert train(run) == 0
    assert the_end(run).outcome == "completed"


def test_a_full_disk_fails_the_run_and_costs_no_older_checkpoint(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses the write: `RLIMIT_FSIZE` stands in for the end of the disk."""
    run = make_run(checkpoints={"every_steps": 2}, steps=8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(*_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))

    monkeypatch.setattr("burnish.train.keeper.retire", lambda *_, **__: fill() or [])
    try:
        assert train(run) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert the_end(run).outcome == "failed" and the_end(run).code == "volume_full"
    assert "no space left" in the_end(run).message and "resize" in the_end(run).hint
    assert [path.name for path in run.checkpoints.iterdir()] == ["step_2"]
    monkeypatch.undo()
    assert train(run) == 0
    assert [step for step, _ in losses_of(run)] == list(range(1, 9))


def test_a_save_beyond_the_volumes_room_is_refused_before_a_byte_is_written(make_run) -> None:
    run = make_run(checkpoints={}, steps=1, volume_bytes_free=100_000)
    assert train(run) == 1
    assert "no space left on the volume" in the_end(run).message
    assert not list(run.checkpoints.iterdir())


def test_divergence_ends_the_run_with_a_sentence(make_run) -> None:
    run = make_run(
        optimizer={"kind": "adamw", "learning_rate": 1e38, "weight_decay": 1.0},
        steps=20,
        clip_norm=None,
        checkpoints={},
    )
    assert train(run) == 1
    end = the_end(run)
    assert end.outcome == "failed" and "not finite" in end.message and "lr" in end.hint
    skipped = [event.values["loss/skipped"] for event in events_of(run, Step)]
    assert skipped[-3:] == [1, 2, 3]
    assert not run.whole_checkpoints()


def test_a_failure_is_one_sentence_in_diary_and_log(make_run, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(text='{"messages": [')
    assert train(run) == 1
    end = the_end(run)
    assert end.outcome == "failed" and end.code == "data" and "train.jsonl:1" in end.message
    log = capsys.readouterr()
    assert f"[ERROR] {end.message}" in log.out and "Traceback" not in log.err


def test_a_checkpoint_of_another_model_is_refused(make_run, tmp_path: Path, tiny: Path) -> None:
    first = make_run("first", checkpoints={}, steps=1)
    assert train(first) == 0
    smaller = _smaller(tiny, tmp_path / "smaller")
    second = make_run("second", model=smaller, steps=2, resume_from=first.checkpoint(1).root)
    assert train(second) == 1
    assert "does not fit this model" in the_end(second).message


def _smaller(tiny: Path, folder: Path) -> Path:
    config = AutoConfig.from_pretrained(tiny)
    config.intermediate_size = 96
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tiny / name, folder / name)
    return folder


def test_a_stop_during_preparation_ends_at_once(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run()

    def prepare(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    monkeypatch.setattr("burnish.train.__main__.prepare_data", prepare)
    assert train(run) == 0
    assert the_end(run).outcome == "stopped" and the_end(run).step == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
