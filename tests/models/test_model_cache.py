"""A model is in the cache whole or not at all, under the name and from the source that were asked for."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from burnish.errors import BurnishError, Conflict, ModelError
from burnish.models.cache import ModelCache
from burnish.models.names import check_model_name


def test_the_tiny_model_is_there_before_anybody_added_it(cache: ModelCache):
    assert cache.list() == []
    model = cache.find("burnish/tiny")
    assert (model.id, model.source) == ("burnish/tiny", "burnish/tiny")
    assert cache.list() == [model] == [cache.find("burnish/tiny")]


def test_no_other_model_is_built_by_asking(cache: ModelCache):
    with pytest.raises(ModelError, match="acme/triage is not in the model cache") as refused:
        cache.find("acme/triage")
    assert "burnish models add acme/triage" in refused.value.hint


def test_a_mistyped_model_is_answered_with_the_one_that_was_meant(cache: ModelCache):
    with pytest.raises(ModelError) as refused:
        cache.find("burnish/tinny")
    assert refused.value.hint.startswith("Did you mean burnish/tiny? burnish models list shows all.")


def test_a_folder_is_copied_and_may_go_away(cache: ModelCache, model_folder: Path):
    wanted = {path.name: path.read_bytes() for path in model_folder.iterdir()}
    model = cache.add(str(model_folder))
    for path in model_folder.iterdir():
        path.unlink()
    assert model.id == "triage"
    assert {name: (model.directory / name).read_bytes() for name in wanted} == wanted
    assert model.size_bytes == sum(len(data) for data in wanted.values())


def test_links_in_a_folder_become_files(cache: ModelCache, model_folder: Path):
    # The hub client's own cache is made of links.
    weights = model_folder / "model.safetensors"
    moved = weights.rename(model_folder.parent / "blob")
    weights.symlink_to(moved)
    copied = cache.add(str(model_folder)).directory / "model.safetensors"
    assert not copied.is_symlink()
    assert copied.read_bytes() == moved.read_bytes()


def test_a_name_with_an_owner_is_one_folder(cache: ModelCache, model_folder: Path):
    model = cache.add(str(model_folder), "acme/triage")
    assert model.directory == cache.root / "acme--triage"
    assert cache.find("acme/triage") == model


def test_adding_the_same_again_is_no_work(cache: ModelCache, model_folder: Path):
    first = cache.add(str(model_folder))
    assert cache.add(str(model_folder) + "/") == first


def test_a_name_that_is_taken_from_elsewhere_is_a_conflict(cache: ModelCache, model_folder: Path, tmp_path: Path):
    cache.add(str(model_folder))
    other = model_folder.rename(tmp_path / "other")
    with pytest.raises(Conflict, match="triage is in the model cache already, from"):
        cache.add(str(other), "triage")


def test_the_tiny_name_is_nobody_elses(cache: ModelCache, model_folder: Path):
    for source, name in ((str(model_folder), "burnish/tiny"), ("burnish/tiny", "mine")):
        with pytest.raises(ModelError, match="built in"):
            cache.add(source, name)


def test_a_removed_model_is_gone(cache: ModelCache, model_folder: Path):
    model = cache.add(str(model_folder))
    cache.remove("triage")
    assert cache.list() == []
    assert not model.directory.exists()
    with pytest.raises(ModelError, match="not in the model cache"):
        cache.remove("triage")


def test_a_model_that_was_damaged_later_says_so(cache: ModelCache, model_folder: Path):
    model = cache.add(str(model_folder))
    (model.directory / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"damaged.*model\.safetensors") as refused:
        cache.find("triage")
    assert "burnish models remove triage" in refused.value.hint


@pytest.mark.parametrize(
    "source", ["/nowhere/at/all", "a/b/c", "", "acme/ triage", "-x", "acme/--x", "acme/..", "nul\0"]
)
def test_a_source_that_is_nothing_is_refused(cache: ModelCache, source: str):
    with pytest.raises(BurnishError) as refused:
        cache.add(source)
    assert refused.value.hint


def test_a_file_that_is_no_model_is_refused(cache: ModelCache, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match="neither a folder nor a GGUF file"):
        cache.add(str(tmp_path / "notes.txt"))


@pytest.mark.parametrize(
    "name", ["..", ".", ".hidden", "a/../b", "a//b", "a/b/c", "a--b", "/a", "a/", "ä", "a b", "a\n"]
)
def test_names_that_could_climb_or_collide_are_refused(name: str):
    with pytest.raises(ModelError, match="cannot name a model"):
        check_model_name(name)


def test_a_broken_gguf_is_told_by_its_converter_and_leaves_nothing(cache: ModelCache, tmp_path: Path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing")
    with pytest.raises(ModelError, match=r"broken\.gguf is not a whole GGUF file") as refused:
        cache.add(str(tmp_path / "broken.gguf"))
    assert "\n" not in refused.value.message and "Traceback" not in refused.value.message
    assert [path.name for path in cache.root.iterdir()] == [".lock"]


def test_many_who_add_one_model_at_once_get_one(cache: ModelCache, model_folder: Path):
    found: list[object] = []
    adders = [
        threading.Thread(target=lambda: found.append(ModelCache(cache.root).add(str(model_folder)))) for _ in range(8)
    ]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    assert found == [cache.find("triage")] * 8
    assert sorted(path.name for path in cache.root.iterdir()) == [".lock", "triage"]


def test_what_a_killed_adder_left_is_swept_and_what_a_living_one_builds_is_not(cache: ModelCache, model_folder: Path):
    adder = subprocess.Popen([sys.executable, "-c", SLOW_ADD, str(cache.root), str(model_folder)])
    try:
        half_built = await_half_built(cache.root)
        cache.add("burnish/tiny")
        assert half_built.exists()
    finally:
        adder.send_signal(signal.SIGKILL)
        adder.wait()
    assert half_built.exists()
    cache.add(str(model_folder))
    assert not half_built.exists()
    assert [model.id for model in cache.list()] == ["burnish/tiny", "triage"]


SLOW_ADD = """
import sys
from pathlib import Path
import burnish.models.cache as cache

# A build that never ends: what is tested is what becomes of it when its process dies.
def build(wanted, directory, lock):
    (directory / "half.safetensors").write_bytes(b"half")
    import time
    time.sleep(60)

cache._build = build
cache.ModelCache(Path(sys.argv[1])).add(sys.argv[2])
"""


def await_half_built(root: Path) -> Path:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if found := list(root.glob(".adding-*/half.safetensors")):
            return found[0].parent
        time.sleep(0.01)
    raise AssertionError("the other process never began")
