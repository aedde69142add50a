"""A run that trains an adapter, from its config to the talk with what it left."""

import json
from pathlib import Path

import pytest

from burnish.cli.here import HereView
from burnish.wire import ModelList

CONFIG = """\
max_steps = 3
[model]
name = "{model}"
[model.lora]
rank = 4
target_modules = ["q_proj", "{second}"]
[export]
merged = true
[optim]
lr = 1e-2
[data]
type = "fake"
seq_len = 64
batch_size = 1
"""
CHAT = ("--message", "hello", "--max-tokens", "4")


def config(*, second: str = "v_proj", model: str = "burnish/tiny") -> str:
    return CONFIG.format(second=second, model=model)


@pytest.fixture(scope="module")
def at(shared):
    shared.write("lora.toml", config())
    shared.run_apart("train", "lora.toml", "--follow")
    return shared


@pytest.fixture
def run_id(at) -> str:
    return at.json("train", "list")["runs"][-1]["id"]


def test_the_catalogue_lists_the_adapter_and_the_merged_model(at, run_id):
    models = {model.id: model for model in ModelList(**at.json("models", "list")).models}
    adapter, merged = models[f"peft:burnish/tiny:{run_id}"], models[f"ft:burnish/tiny:{run_id}"]
    assert (adapter.kind, adapter.base, adapter.architecture) == ("adapter", "burnish/tiny", "LoRA of rank 4")
    assert adapter.parameters == 4 * 4 * ((64 + 64) + (64 + 32))
    assert adapter.size_bytes < merged.size_bytes
    assert merged.kind == "full" and merged.parameters == models["burnish/tiny"].parameters


def test_the_adapter_is_talked_to_by_id_run_or_folder_and_says_what_the_merged_model_says(at, run_id):
    at.run("models", "export", f"peft:burnish/tiny:{run_id}", "my-adapter")
    assert (at.folder / "my-adapter/adapter_model.safetensors").is_file()
    names = (f"peft:burnish/tiny:{run_id}", f"ft:burnish/tiny:{run_id}", run_id, "my-adapter")
    assert len({at.json("chat", name, *CHAT)["reply"] for name in names}) == 1


def test_a_target_that_means_nothing_is_refused_before_anything_is_dispatched(at, run_id):
    at.write("bad.toml", config(second="vproj"))
    refused = at.run("train", "bad.toml", code=1).stderr
    assert "model.lora.target_modules: vproj matches no module (did you mean v_proj" in refused
    assert [run["id"] for run in at.json("train", "list")["runs"]] == [run_id]


@pytest.mark.slow
def test_a_run_starts_from_the_merged_model_and_not_from_the_adapter(at, run_id):
    at.write("again.toml", config(model=f"peft:burnish/tiny:{run_id}"))
    refused = at.run("train", "again.toml", code=1).stderr
    assert "is an adapter, and a run starts from a whole model" in refused
    at.write("again.toml", config(model=f"ft:burnish/tiny:{run_id}"))
    at.run_apart("train", "again.toml", "--follow")
    newest = at.json("train", "list")["runs"]
    second = next(run["id"] for run in newest if run["id"] != run_id)
    adapter = next(model for model in at.json("models", "list")["models"] if model["id"].endswith(second))
    assert adapter["id"] == f"peft:burnish/tiny:{second}"
    assert adapter["base"] == f"ft:burnish/tiny:{run_id}"
    assert at.json("chat", second, *CHAT)["reply"] is not None


def test_an_adapter_of_a_local_model_is_talked_to_without_a_server(terminal):
    terminal.write("sft.toml", config())
    done = terminal.run_apart("train", "sft.toml", "--here", "--json")
    folder = HereView(**json.loads(done.stdout)).model_directory or ""
    assert (Path(folder) / "adapter_config.json").is_file()
    assert terminal.json("chat", folder, *CHAT)["reply"] is not None
    terminal.write("again.toml", config(model=folder))
    refused = terminal.run("train", "again.toml", "--here", code=1).stderr
    assert "is an adapter, and a run starts from a whole model" in refused
    assert not terminal.home.server.exists()
