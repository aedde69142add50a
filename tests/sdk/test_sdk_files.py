"""Files that go to a volume and come back, over a real socket."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from burnish.errors import NotFound, VolumeError, VolumeFull
from burnish.sdk.files import CHUNK_BYTES

NAMES = some.text(
    some.characters(exclude_characters="/\\\0", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12
).filter(lambda name: name.strip(".") and name != "volume")
TREES = some.dictionaries(
    some.tuples(some.sampled_from(["", "a/", "a b/c/", "é?#%/"]), NAMES).map("".join), some.binary()
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=TREES.filter(lambda tree: tree and not {"a", "a b", "é?#%"} & set(tree)))
def test_any_folder_comes_back_as_it_was(client, tmp_path_factory, tree):
    local, back = tmp_path_factory.mktemp("local"), tmp_path_factory.mktemp("back") / "new"
    for name, content in tree.items():
        path = local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    put = client.files.put("research", local, "/tree")
    assert (put.path, put.files, put.size_bytes) == ("/tree", len(tree), sum(map(len, tree.values())))
    client.files.get("research", "tree", back)
    assert {path.relative_to(back).as_posix(): path.read_bytes() for path in back.rglob("*") if path.is_file()} == tree
    client.files.remove("research", "/tree", recursive=True)


def test_progress_counts_every_byte_up_to_the_whole(client, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"x" * (2 * CHUNK_BYTES + 5))
    told = []
    client.files.put("research", tmp_path, "/counted", progress=lambda done, total: told.append((done, total)))
    size = 2 * CHUNK_BYTES + 5
    assert told == [(CHUNK_BYTES, size), (2 * CHUNK_BYTES, size), (size, size)]
    told.clear()
    client.files.get("research", "/counted", tmp_path / "back", progress=lambda *counts: told.append(counts))
    assert told[-1] == (size, size) and [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_does_not_fit_is_refused_before_the_first_byte(client, tmp_path):
    for name in ("a", "b"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(60 * 1024**2)
    told = []
    with pytest.raises(VolumeFull, match="research"):
        client.files.put("research", tmp_path, "/big", progress=lambda *counts: told.append(counts))
    assert told == []
    with pytest.raises(NotFound):
        client.files.measure("research", "/big")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shorten(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(CHUNK_BYTES + 1)


@pytest.mark.parametrize("change", [append, shorten])
def test_a_file_that_changes_on_the_way_is_not_left_half_written(client, tmp_path, change: Callable[[Path], None]):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * (3 * CHUNK_BYTES))
    with pytest.raises(VolumeError, match=r"log\.txt changed while it was being sent"):
        client.files.put("research", path, "/growing.txt", progress=lambda *counts: change(path))
    with pytest.raises(NotFound):
        client.files.measure("research", "/growing.txt")


def test_links_are_followed_and_a_circle_ends(client, tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/one").write_text("1")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot/file").symlink_to("../blobs/one")
    (tmp_path / "snapshot/folder").symlink_to("../blobs")
    (tmp_path / "snapshot/up").symlink_to("..")
    client.files.put("research", tmp_path / "snapshot", "/linked")
    found = {entry.path for entry in client.files.list("research", "/linked", recursive=True) if entry.kind == "file"}
    assert {"/linked/file", "/linked/folder/one", "/linked/up/blobs/one"} == found


def test_a_link_to_nowhere_is_named(client, tmp_path):
    (tmp_path / "broken").symlink_to("nowhere")
    with pytest.raises(VolumeError, match="broken is not a file"):
        client.files.put("research", tmp_path, "/x")


def test_a_get_that_fails_leaves_no_part_behind(client, tmp_path):
    (tmp_path / "one").write_text("1")
    client.files.put("research", tmp_path / "one", "/one")
    (tmp_path / "to/one").mkdir(parents=True)
    (tmp_path / "to/one/one").mkdir()
    with pytest.raises(IsADirectoryError):
        client.files.get("research", "/one", tmp_path / "to/one")
    assert [path.name for path in (tmp_path / "to/one").iterdir()] == ["one"]


def test_a_local_name_that_is_no_text_is_refused_before_anything_is_sent(client, tmp_path):
    (tmp_path / b"caf\xe9".decode(errors="surrogateescape")).write_bytes(b"x")
    with pytest.raises(VolumeError, match="not UTF-8 text"):
        client.files.put("research", tmp_path, "/odd")
    with pytest.raises(NotFound):
        client.files.measure("research", "/odd")


@pytest.mark.parametrize("path", ["/", "", "/volume/", "."])
def test_the_root_of_a_volume_is_not_removed(client, path):
    with pytest.raises(VolumeError, match="The root of research stays"):
        client.files.remove("research", path, recursive=True)
