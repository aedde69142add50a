"""Models from a hub: fetched whole over real HTTP, or not at all and with one sentence."""

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from fake_hub import FakeHub, running_hub
from huggingface_hub import snapshot_download

from burnish.errors import ModelError
from burnish.models.cache import ModelCache


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        # The machine's own hub cache must not answer for the hub.
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        yield hub


def test_a_model_from_the_hub_is_the_folder_that_was_published(hub: FakeHub, cache: ModelCache, model_folder: Path):
    hub.repositories["acme/triage"] = model_folder
    model = cache.add("acme/triage")
    assert (model.id, model.source, model.architecture) == ("acme/triage", "acme/triage", "Qwen3ForCausalLM")
    for file in model_folder.iterdir():
        assert (model.directory / file.name).read_bytes() == file.read_bytes()
    assert not (model.directory / ".cache").exists()


def test_only_what_makes_up_the_model_is_fetched(hub: FakeHub, cache: ModelCache, model_folder: Path):
    hub.repositories["acme/triage"] = model_folder
    (model_folder / "onnx").mkdir()
    for name in ("pytorch_model.bin", "run_me.py", "onnx/config.json", "consolidated.safetensors"):
        (model_folder / name).write_bytes(b"not wanted")
    model = cache.add("acme/triage")
    wanted = {"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors"}
    assert set(hub.served) == wanted | {"tokenizer.json", "tokenizer_config.json"}
    assert "run_me.py" not in {path.name for path in model.directory.rglob("*")}


def test_a_name_may_be_given(hub: FakeHub, cache: ModelCache, model_folder: Path):
    hub.repositories["acme/triage"] = model_folder
    assert cache.add("acme/triage", "triage").id == "triage"
    assert cache.find("triage").source == "acme/triage"


def test_a_model_that_the_hub_does_not_know(hub: FakeHub, cache: ModelCache):
    assert_refused(cache, "acme/nothing", "has no model acme/nothing")


def test_a_gated_model_says_whom_to_ask(hub: FakeHub, cache: ModelCache, model_folder: Path):
    hub.repositories["acme/secret"] = model_folder
    hub.gated.add("acme/secret")
    refusal = assert_refused(cache, "acme/secret", "gated")
    assert "HF_TOKEN" in refusal.hint


def test_a_private_model_opens_to_the_key_of_the_environment(
    hub: FakeHub, cache: ModelCache, model_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.repositories["acme/ours"] = model_folder
    hub.private["acme/ours"] = "hf_0123456789"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refusal = assert_refused(cache, "acme/ours", "has no model acme/ours, or it is private")
    assert "HF_TOKEN" in refusal.hint and "hf_wrong" not in refusal.message + refusal.hint
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    model = cache.add("acme/ours")
    assert not any(b"hf_0123456789" in file.read_bytes() for file in model.directory.iterdir())


def test_a_copy_that_the_hub_client_kept_serves_while_the_hub_is_away(
    hub: FakeHub, cache: ModelCache, model_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.repositories["acme/triage"] = model_folder
    snapshot_download("acme/triage", endpoint=hub.url, cache_dir=huggingface_hub.constants.HF_HUB_CACHE)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    model = cache.add("acme/triage")
    for file in model_folder.iterdir():
        assert (model.directory / file.name).read_bytes() == file.read_bytes()


def test_a_hub_that_cannot_be_reached(hub: FakeHub, cache: ModelCache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    refusal = assert_refused(cache, "acme/triage", "cannot be reached")
    assert "burnish models add /path/to/folder --name acme/triage" in refusal.hint


def test_a_hub_that_fails(hub: FakeHub, cache: ModelCache):
    hub.failing = True
    assert_refused(cache, "acme/triage", hub.url)


def test_a_download_that_is_cut_short_leaves_nothing(hub: FakeHub, cache: ModelCache, model_folder: Path):
    hub.repositories["acme/triage"] = model_folder
    hub.cut.add("tokenizer.json")
    assert_refused(cache, "acme/triage", "did not come whole")
    hub.cut.clear()
    assert cache.add("acme/triage").id == "acme/triage"


def test_a_hub_model_without_safetensors_is_refused(hub: FakeHub, cache: ModelCache, model_folder: Path):
    (model_folder / "model.safetensors").rename(model_folder / "pytorch_model.bin")
    hub.repositories["acme/pickled"] = model_folder
    refusal = assert_refused(cache, "acme/pickled", "safetensors")
    assert str(cache.root) not in refusal.message


def assert_refused(cache: ModelCache, source: str, words: str) -> ModelError:
    """One sentence that says so, and nothing left behind."""
    with pytest.raises(ModelError) as refused:
        cache.add(source)
    assert words in refused.value.message
    assert "\n" not in refused.value.message and refused.value.hint
    assert cache.list() == []
    assert [path.name for path in cache.root.iterdir()] == [".lock"]
    return refused.value
