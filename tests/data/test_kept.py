"""What a second run finds: hashes of files that stayed as they were, and rows that were packed before."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnish.data import content, prepare
from burnish.data.content import content_hash
from burnish.data.prepare import prepare_data, row_loader
from burnish.errors import DataError
from burnish.spec.train import SourceData, TrainSpec

BYTES = b"0123456789abcdef" * 8192


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read to be hashed."""
    read: list[Path] = []
    true = content._hash
    monkeypatch.setattr(content, "_hash", lambda path: read.append(path) or true(path))
    return read


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been there for a while."""
    monkeypatch.setattr(content.time, "time", lambda now=time.time: now() + 60)


def test_a_file_that_stays_is_read_once(tmp_path: Path, hashed: list[Path], settled: None) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(BYTES)
    first = content_hash(file, tmp_path / "memory")
    assert content_hash(file, tmp_path / "memory") == first
    assert hashed == [file]


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path, hashed: list[Path]) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(BYTES)
    content_hash(file, tmp_path / "memory")
    content_hash(file, tmp_path / "memory")
    assert hashed == [file, file]


@pytest.mark.parametrize("way", ["same size and time", "another file in its place", "one byte more"])
def test_a_file_that_changes_is_read_again(tmp_path: Path, settled: None, way: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(BYTES)
    before, times = content_hash(file, tmp_path / "memory"), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    changed = BYTES[:-1] + b"!"
    match way:
        case "same size and time":
            file.write_bytes(changed)
            os.utime(file, ns=times)
        case "another file in its place":
            (tmp_path / "b").write_bytes(changed)
            os.utime(tmp_path / "b", ns=times)
            (tmp_path / "b").replace(file)
        case _:
            file.write_bytes(BYTES + b"!")
    assert content_hash(file, tmp_path / "memory") != before


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"stamp": 1}'])
def test_a_memory_that_is_damaged_is_written_anew(tmp_path: Path, settled: None, damage: bytes) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(BYTES)
    before = content_hash(file, tmp_path / "memory")
    [note] = (tmp_path / "memory").iterdir()
    note.write_bytes(damage)
    assert content_hash(file, tmp_path / "memory") == before


@pytest.fixture
def prepared(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Prepare the same rows under a wish; counts how often rows were packed."""
    rows = (f"item {number}" for number in range(30))
    lines = ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": row}]} for row in rows)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    packed: list[int] = []
    true = prepare.pack_rows
    monkeypatch.setattr(prepare, "pack_rows", lambda *args, **wish: packed.append(1) or true(*args, **wish))

    def run(row_tokens: int = 64, shuffle: bool = False, **data):
        spec = TrainSpec(
            model="burnish/tiny",
            data=SourceData(path="train.jsonl", shuffle=shuffle, **data),
            row_tokens=row_tokens,
            steps=5,
        )
        place: dict[str, Any] = {
            "model_directory": tiny,
            "data_path": tmp_path / "train.jsonl",
            "store_directory": tmp_path / "stores",
        }
        found = prepare_data(spec, **place, say=lambda _: None)
        batches = [batch.inputs_T for step in range(1, 6) for batch in row_loader(spec, found).step(step)]
        return found.facts, np.concatenate(batches), len(packed)

    return run


def test_a_second_run_packs_nothing_and_learns_the_same(prepared) -> None:
    first, again = prepared(), prepared()
    assert first[0] == again[0] and (first[1] == again[1]).all()
    assert (first[2], again[2]) == (1, 1)


def test_the_order_of_rows_asks_for_no_other_packing(prepared) -> None:
    assert prepared(shuffle=True)[2] == prepared(shuffle=False)[2] == 1


@pytest.mark.parametrize("wish", [{"row_tokens": 96}, {"pack": False}, {"overflow": "truncate"}])
def test_another_wish_is_packed_anew(prepared, wish: dict) -> None:
    prepared()
    assert prepared(**wish)[2] == 2


@pytest.mark.parametrize("name", ["facts.json", "documents.npy", "starts.npy"])
def test_kept_rows_that_are_damaged_are_packed_anew(prepared, tmp_path: Path, name: str) -> None:
    first = prepared()
    [kept] = (tmp_path / "stores").glob(f"*/rows-*/{name}")
    kept.write_bytes(b"")
    again = prepared()
    assert again[2] == 2 and again[0] == first[0] and (again[1] == first[1]).all()


@pytest.mark.parametrize("name", ["tokens.u32", "trained.u8", "documents.bin", "manifest.json"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_store_of_which_a_part_is_missing_is_made_again(prepared, tmp_path: Path, name: str, gone: bool) -> None:
    whole = prepared()
    (part,) = (tmp_path / "stores").glob(f"*/{name}")
    size = part.stat().st_size
    if gone:
        part.unlink()
    else:
        os.truncate(part, size // 2)
    again = prepared()
    assert whole[0] == again[0] and (whole[1] == again[1]).all()
    assert part.stat().st_size == size
    assert [each.name for each in (tmp_path / "stores").iterdir()] == [part.parent.name]


def test_a_file_that_changes_while_it_is_read_is_not_kept_under_its_old_hash(
    prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, data = prepare.build_store, tmp_path / "train.jsonl"

    def build_while_it_grows(*args, **wish) -> None:
        data.write_text(data.read_text() * 2)
        build(*args, **wish)

    before = data.read_text()
    with monkeypatch.context() as patch, pytest.raises(DataError, match="was changed while it was read"):
        patch.setattr(prepare, "build_store", build_while_it_grows)
        prepared()
    data.write_text(before)
    assert prepared()[0].conversations_read == 30
