"""Files on a volume are whole or absent, and in their place."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_runs import add_run

from burnish.control.files import check_put, list_entries, measure, open_file, put_file, remove
from burnish.control.house import House
from burnish.control.tree import PRIVATE
from burnish.control.volumes import get_volume
from burnish.errors import BurnishError, Conflict, NotFound, VolumeError
from burnish.run.status import RunStatus
from burnish.wire import CheckPutRequest


def put(house: House, path: str, data: bytes) -> None:
    put_file(house, "research", path, [data], len(data))


def get(house: House, path: str) -> bytes:
    file, size = open_file(house, "research", path)
    with file:
        data = file.read()
    assert len(data) == size
    return data


def shown(house: House, path: str = "/") -> dict[str, int]:
    return {each.path: each.size_bytes for each in list_entries(house, "research", path, True).entries}


def test_what_was_put_is_what_is_got_under_every_way_to_write_its_path(house: House, root: Path):
    entry = put_file(house, "research", "/volume/datasets/my-data/train.jsonl", [b"one\n", b"", b"two\n"], 8)
    assert (entry.path, entry.kind, entry.size_bytes) == ("/datasets/my-data/train.jsonl", "file", 8)
    for path in (
        "datasets/my-data/train.jsonl",
        "/datasets/./my-data//train.jsonl",
        "/volume/datasets/my-data/train.jsonl",
    ):
        assert get(house, path) == b"one\ntwo\n"
        assert measure(house, "research", path) == entry


def test_a_listing_is_by_name_and_folders_have_the_size_of_what_is_in_them(house: House, root: Path):
    put(house, "datasets/b/2", b"22")
    put(house, "datasets/b/1", b"1")
    put(house, "datasets/a", b"333")
    assert shown(house) == {"/datasets": 6, "/datasets/a": 3, "/datasets/b": 3, "/datasets/b/1": 1, "/datasets/b/2": 2}
    assert list(shown(house)) == sorted(shown(house))
    assert [entry.path for entry in list_entries(house, "research", "datasets").entries] == [
        "/datasets/a",
        "/datasets/b",
    ]
    assert [entry.path for entry in list_entries(house, "research", "datasets/a").entries] == ["/datasets/a"]
    assert measure(house, "research").size_bytes == get_volume(house, "research").used_bytes == 6


def test_a_path_that_is_not_there_tells_what_is(house: House, root: Path):
    put(house, "datasets/reverse-text/train.jsonl", b"x")
    for ask in (measure, open_file, remove):
        with pytest.raises(NotFound, match=r"/datasets/reverse-txt is not on the volume") as refused:
            ask(house, "research", "datasets/reverse-txt")
        assert "In /datasets there is: reverse-text" in refused.value.hint


def test_an_upload_cut_short_leaves_the_old_file_or_none(house: House, root: Path):
    put(house, "datasets/old", b"old")
    for path in ("datasets/old", "datasets/new", "fresh/folder/new"):
        with pytest.raises(VolumeError, match="cut short: 600 of 1000 bytes came"):
            put_file(house, "research", path, [b"x" * 600], 1000)
    assert shown(house) == {"/datasets": 3, "/datasets/old": 3}
    assert parts(root) == []
    put_file(house, "research", "datasets/new", [b"x" * 600, b"x" * 400], 1000)
    assert get(house, "datasets/new") == b"x" * 1000


def test_an_upload_longer_than_it_said_is_refused(house: House, root: Path):
    with pytest.raises(VolumeError, match="longer than was said"):
        put_file(house, "research", "datasets/new", [b"x" * 6, b"x" * 6], 10)
    assert shown(house) == {"/datasets": 0}
    assert parts(root) == []


def test_a_sender_that_breaks_leaves_nothing(house: House, root: Path):
    def pieces() -> Iterator[bytes]:
        yield b"x" * 10
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError):
        put_file(house, "research", "datasets/new", pieces(), 1000)
    assert shown(house) == {"/datasets": 0}
    assert parts(root) == []


def test_nothing_is_seen_of_an_upload_until_it_is_whole(house: House, root: Path):
    put(house, "datasets/a", b"old")

    def pieces() -> Iterator[bytes]:
        yield b"new"
        assert get(house, "datasets/a") == b"old"
        assert shown(house) == {"/datasets": 3, "/datasets/a": 3}
        yield b"er"

    put_file(house, "research", "datasets/a", pieces(), 5)
    assert get(house, "datasets/a") == b"newer"


def test_whoever_reads_a_file_keeps_it_while_it_is_replaced_or_removed(house: House, root: Path):
    put(house, "datasets/a", b"old")
    reader, _ = open_file(house, "research", "datasets/a")
    put(house, "datasets/a", b"new")
    second, _ = open_file(house, "research", "datasets/a")
    remove(house, "research", "datasets/a")
    with reader, second:
        assert (reader.read(), second.read()) == (b"old", b"new")


def test_a_file_cannot_take_the_place_of_a_folder_nor_lie_under_a_file(house: House, root: Path):
    put(house, "datasets/a/b", b"x")
    for path, words in (("datasets/a", "is a folder"), ("datasets/a/b/c", "is a file, so nothing is below it")):
        with pytest.raises(VolumeError, match=words):
            put(house, path, b"y")
        with pytest.raises(VolumeError, match=words):
            check_put(house, "research", CheckPutRequest(sizes={path: 1}))
    with pytest.raises(VolumeError, match="cannot be a file and hold"):
        check_put(house, "research", CheckPutRequest(sizes={"datasets/n": 1, "datasets/n/m": 1}))


def test_run_outputs_are_not_written_by_hand(house: House, root: Path):
    for path in ("runs", "runs/x", "/volume/runs/job_0123456789abcdef/events.jsonl"):
        with pytest.raises(VolumeError, match="runs/ holds run outputs and is read-only; put elsewhere"):
            put(house, path, b"x")
    put(house, "datasets/runs/x", b"x")


def test_a_folder_is_removed_only_when_that_is_said(house: House, root: Path):
    put(house, "datasets/a/b", b"x")
    with pytest.raises(VolumeError, match="/datasets/a is a folder") as refused:
        remove(house, "research", "datasets/a")
    assert "--recursive" in refused.value.hint
    remove(house, "research", "datasets/a", recursive=True)
    assert shown(house) == {"/datasets": 0}
    assert parts(root) == []
    with pytest.raises(VolumeError, match="root of research stays"):
        remove(house, "research", "/", recursive=True)


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.COMPLETED])
def test_files_of_a_run_stay_until_it_is_over(house: House, root: Path, status: RunStatus):
    run_id = add_run(house, volume="research", status=status)
    other = add_run(house, volume="research", status=RunStatus.STOPPED)
    for each in (run_id, other):
        (root / "runs" / each / "logs").mkdir(parents=True)
        (root / "runs" / each / "logs" / "trainer.log").write_text("x")
    remove(house, "research", f"runs/{other}", recursive=True)
    for path in (f"runs/{run_id}/logs/trainer.log", f"runs/{run_id}", "runs"):
        if status.is_over:
            remove(house, "research", path, recursive=True)
        else:
            with pytest.raises(Conflict, match=f"belongs to {run_id}, which is not over"):
                remove(house, "research", path, recursive=True)
            assert (root / path).exists()


def test_the_servers_own_folder_is_neither_shown_nor_touched(house: House, root: Path):
    put(house, "datasets/a", b"x")
    assert (root / PRIVATE).is_dir()
    assert set(shown(house)) == {"/datasets", "/datasets/a"}
    for ask in (measure, open_file, remove):
        with pytest.raises(VolumeError, match="server's own"):
            ask(house, "research", PRIVATE)
    with pytest.raises(VolumeError, match="server's own"):
        put(house, f"{PRIVATE}/lock", b"x")


names = st.text(min_size=1, max_size=40).filter(lambda name: name not in (".", "..") and not set(name) & set("/\\\0"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names, data=st.binary(max_size=50))
def test_any_name_is_kept_as_it_is_or_refused_in_a_sentence(house: House, root: Path, name: str, data: bytes):
    path = f"datasets/{name}"
    try:
        put(house, path, data)
    except VolumeError as refused:
        control_codes = any(unicodedata.category(letter) == "Cc" for letter in name)
        assert (control_codes or len(name.encode()) > 255) and refused.hint
        return
    assert get(house, path) == data
    assert shown(house, "datasets") == {f"/{path}": len(data)}
    remove(house, "research", path)
    assert shown(house, "datasets") == {}


@pytest.mark.parametrize(
    "path", ["datasets/" + "x" * 256, "datasets/\ud800", "a/" * 101 + "b", "datasets/é" + "é" * 127]
)
def test_names_that_no_disk_can_hold_are_refused_in_a_sentence(house: House, root: Path, path: str):
    with pytest.raises(VolumeError) as refused:
        put(house, path, b"x")
    assert refused.value.hint
    with pytest.raises(BurnishError):
        measure(house, "research", path)


def test_a_name_that_is_no_text_is_listed_all_the_same(house: House, root: Path):
    (root / "datasets" / b"caf\xe9".decode(errors="surrogateescape")).write_bytes(b"x")
    listing = list_entries(house, "research", "datasets")
    assert [entry.path for entry in listing.entries] == ["/datasets/caf\ufffd"]
    listing.model_dump_json()


def parts(root: Path) -> list[str]:
    """What is left of uploads and removals."""
    return [path.name for path in (root / PRIVATE).iterdir() if path.name.startswith(("put-", "gone-"))]


def test_an_empty_file_is_a_file(house: House, root: Path):
    put_file(house, "research", "datasets/empty", [], 0)
    assert measure(house, "research", "datasets/empty").size_bytes == 0
    assert get(house, "datasets/empty") == b""


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\x7f", "a\x9b"])
def test_a_name_with_control_codes_is_not_put(house: House, root: Path, name: str):
    with pytest.raises(VolumeError, match="holds a control code"):
        put_file(house, "research", f"datasets/{name}", [b"x"], 1)
