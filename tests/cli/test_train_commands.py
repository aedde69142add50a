"""`burnish train` and its verbs, with a real server and the real trainer on `burnish/tiny`."""

import json
import os
import signal
from pathlib import Path

import pytest

from burnish.literals import is_run_id
from burnish.run.directory import RunDirectory
from burnish.wire import CheckpointList, LogView, MetricsView, ModelList, ModelView, RunDetail, RunList, RunView

CONFIG = """\
max_steps = {steps}
[ckpt]
[model]
name = "{model}"
[data]
type = "fake"
seq_len = 64
batch_size = 1
"""


def config(*, steps: int = 10, model: str = "burnish/tiny") -> str:
    return CONFIG.format(steps=steps, model=model)


@pytest.fixture(scope="module")
def at(shared):
    """A home in which one run has been dispatched and watched to its end, from a process of its own."""
    shared.write("sft.toml", config())
    shared.dispatched = shared.run_apart("train", "sft.toml", "--name", "first", "--follow")
    return shared


@pytest.fixture
def run_id(at) -> str:
    return at.json("train", "list")["runs"][-1]["id"]


def log_of(at, run_id: str) -> Path:
    return RunDirectory.on_volume(at.home.scratch, run_id).log


def test_a_dispatch_prints_the_run_the_page_and_its_log_to_the_end(at, run_id):
    lines = at.dispatched.stdout.splitlines()
    assert lines[0].startswith("Using the local server (")
    assert lines[1] == f"Dispatched run {run_id}" and is_run_id(run_id)
    assert lines[4].startswith("  http://127.0.0.1:") and f"/runs/{run_id}?key=" in lines[4]
    assert log_of(at, run_id).read_text() in at.dispatched.stdout
    assert f"Run {run_id} COMPLETED: 10 steps, loss " in at.dispatched.stdout
    assert f"  Chat with it: burnish chat {run_id}" in at.dispatched.stdout


def test_get_shows_the_run_as_the_walkthrough_does(at, run_id):
    shown = at.run("train", "get", run_id).stdout
    assert shown.startswith(f"Run {run_id}\n\n  Status: COMPLETED\n")
    for line in ("  Name: first", "  Model: burnish/tiny", "  Max Steps: 10", "  Step: 10"):
        assert line + "\n" in shown
    run = RunDetail(**at.json("train", "get", run_id))
    assert f"  Usage: {run.usage.tokens:,} tokens ({run.usage.trained_tokens:,} trained) in " in shown
    assert run.usage.tokens == 640


def test_metrics_print_every_step_once(at, run_id):
    view = MetricsView(**at.json("train", "metrics", run_id))
    assert view.steps == list(range(1, 11))
    lines = at.run("train", "metrics", run_id).stdout.splitlines()
    values = {name: json.loads(numbers) for name, numbers in (line.split(":", 1) for line in lines)}
    assert list(values) == ["step", "loss/mean", "loss/perplexity"]
    assert values["step"] == view.steps
    assert values["loss/mean"] == [round(value or 0, 4) for value in view.series["loss/mean"]]
    assert len({line.index("[") for line in lines}) == 1
    every = at.run("train", "metrics", run_id, "--all").stdout
    assert all(f"\n{name}:" in every for name in view.series)


def test_the_log_is_the_file_followed_or_not(at, run_id):
    text = log_of(at, run_id).read_text()
    assert at.run("train", "logs", run_id).stdout == text
    assert at.run("train", "logs", run_id, "-f").stdout == text
    view = LogView(**at.json("train", "logs", run_id))
    assert (view.text, view.next_offset, view.over) == (text, len(text.encode()), True)


def test_lists_and_checkpoints_hold_what_the_run_left(at, run_id):
    assert run_id in at.run("train", "list").stdout
    assert run_id in [run.id for run in RunList(**at.json("train", "list")).runs]
    found = CheckpointList(**at.json("train", "checkpoints", run_id)).checkpoints
    assert [each.step for each in found] == [10]
    assert found[0].path in at.run("train", "checkpoints", run_id).stdout
    models = ModelList(**at.json("train", "models")).models
    assert f"ft:burnish/tiny:{run_id}" in [model.id for model in models]
    assert models == ModelList(**at.json("models", "list")).models
    assert ModelView(**at.json("models", "show", run_id)).run_id == run_id


def test_the_trained_model_is_exported_and_talked_to_by_run_id_or_folder(at, run_id):
    at.run("models", "export", run_id, "my-model")
    assert (at.folder / "my-model/model.safetensors").is_file()
    again = at.run("models", "export", run_id, "my-model", code=1)
    assert again.stderr == "Error: my-model is there already.\nHint: Name a folder that is new or empty.\n"
    chat = ("--message", "hello", "--max-tokens", "3")
    assert at.json("chat", run_id, *chat)["reply"] == at.json("chat", "my-model", *chat)["reply"]
    assert at.run("chat", "nobody/nothing", *chat, code=1).stderr.startswith("Error: nobody/nothing is not")


def test_a_trained_model_is_written_as_gguf_and_added_again(at, run_id):
    said = at.run("models", "export", run_id, "model.gguf", "--gguf", "q8_0").stdout
    assert f"Exported ft:burnish/tiny:{run_id}" in said
    at.run("models", "add", "./model.gguf", "--name", "mine/gguf")
    assert ModelView(**at.json("models", "show", "mine/gguf")).architecture == "Qwen3ForCausalLM"
    again = at.run("models", "export", run_id, "model.gguf", "--gguf", "f16", code=1)
    assert again.stderr == "Error: model.gguf is there already.\nHint: Name a file that is not there.\n"
    unsaid = at.run("models", "export", run_id, "other.gguf", code=1)
    assert "add --gguf f16" in unsaid.stderr and not (at.folder / "other.gguf").exists()


def test_a_model_is_added_and_removed_under_a_name_of_ones_own(at, run_id):
    at.run("models", "export", "burnish/tiny", "folder")
    assert ModelView(**at.json("models", "add", "./folder", "--name", "mine/copy")).kind == "base"
    assert "mine/copy" in at.run("models", "list").stdout
    at.run("models", "remove", "mine/copy")
    assert "mine/copy" not in at.run("models", "list").stdout


@pytest.mark.slow
def test_a_followed_log_loses_and_repeats_nothing_when_the_server_is_killed(at):
    at.write("long.toml", config(steps=300))
    run = RunDetail(**at.json("train", "long.toml"))
    process = at.start("train", "logs", run.id, "-f")
    at.wait_for(lambda: at.json("train", "get", run.id)["step"] >= 5)
    os.kill(at.server_pid(), signal.SIGKILL)
    at.run("up")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out == log_of(at, run.id).read_text()
    assert len(MetricsView(**at.json("train", "metrics", run.id)).steps) == 300


@pytest.mark.slow
def test_ctrl_c_leaves_a_followed_run_be_and_stop_ends_it(at):
    at.write("endless.toml", config(steps=100_000))
    process = at.start("train", "endless.toml", "--name", "endless", "--follow")
    run_id = at.wait_for(lambda: started_run(at, "endless"))
    assert "has not ended" in at.run("train", "delete", run_id, "-y", code=1).stderr
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert f"run {run_id} goes on" in err and "Traceback" not in err
    assert at.json("train", "get", run_id)["status"] == "RUNNING"
    assert RunView(**at.json("train", "stop", run_id)).status == "STOPPING"
    at.wait_for(lambda: at.json("train", "get", run_id)["status"] == "STOPPED")
    assert CheckpointList(**at.json("train", "checkpoints", run_id)).checkpoints
    assert f"Deleted run {run_id}." in at.run("train", "delete", run_id, "-y").stdout
    assert at.run("train", "get", run_id, code=1).stderr.startswith(f"Error: There is no run {run_id}.")


def started_run(at, name: str) -> str | None:
    runs = at.json("train", "list")["runs"]
    return next((run["id"] for run in runs if run["name"] == name and run["step"]), None)


def test_following_a_run_that_fails_exits_with_1_and_says_why(at):
    at.run("volumes", "create", "research", "--size", "10Mi")
    row = '{"messages": [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]}\n'
    at.write("bad/train.jsonl", row * 40)
    at.run("volumes", "put", "research", "bad", "/datasets/bad")
    at.write("doomed.toml", config().replace('type = "fake"', 'name = "datasets/bad"'))
    at.write("long.toml", config(steps=100_000))
    before = at.json("train", "long.toml")["id"]
    waiting = at.start("train", "doomed.toml", "--volume", "research", "--follow", "--json")
    at.wait_for(lambda: at.json("train", "list")["runs"][0]["id"] != before)
    # What was sound at submission is not when its turn comes.
    (at.home.volume("research") / "datasets/bad/train.jsonl").write_text(row + '{"messages": 7}\n')
    at.run("train", "stop", before)
    out, err = waiting.communicate(timeout=120)
    run = RunDetail.model_validate_json(out)
    assert waiting.returncode == 1 and run.status == "FAILED" and "train.jsonl:2" in run.reason
    assert f"Run {run.id} FAILED\n  Reason: {run.reason}\n" in err
    shown = at.run("train", "get", run.id).stdout
    assert f"\n  Status: FAILED\n  Reason: {run.reason}\n" in shown
