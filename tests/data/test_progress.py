"""Large data sets: what is said of them on the way, and that their size costs disk, not memory."""

import gzip
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.data import tokenise
from burnish.data.prepare import prepare_data
from burnish.data.render import bpe, vocabulary
from burnish.spec.train import Renderer, SourceData, TrainSpec

Steps = list[tuple[int, int, int, int]]


def rows(count: int) -> str:
    turns = [{"role": "user", "content": "Say it."}, {"role": "assistant", "content": "It is said, once more."}]
    return "".join(json.dumps({"messages": turns, "id": number}) + "\n" for number in range(count))


@pytest.fixture
def prepared(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[Steps, list[str]]]:
    """Prepares in small chunks; gives what was told on the way, in figures and in words."""
    monkeypatch.setattr(tokenise, "_CHUNK_LETTERS", 40_000)
    monkeypatch.setattr(tokenise, "_SAY_EVERY_SECONDS", 0.0)

    def prepare(path: Path) -> tuple[Steps, list[str]]:
        steps: Steps = []
        said: list[str] = []
        prepare_data(
            TrainSpec(model="burnish/tiny", data=SourceData(path=str(path)), steps=1),
            model_directory=tiny,
            data_path=None,
            store_directory=tmp_path / "store",
            say=said.append,
            on_progress=lambda *step: steps.append(step),
        )
        return steps, said

    return prepare


def test_bytes_rows_and_tokens_rise_to_the_whole(prepared, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "b", "c"):
        (data / f"{name}.jsonl").write_text(rows(3000))
    steps, said = prepared(data)
    total = sum(file.stat().st_size for file in data.iterdir())
    assert len(steps) > 5
    assert steps == sorted(steps) and {step[1] for step in steps} == {total}
    assert steps[0][0] < total / 2
    assert steps[-1][0] == total and steps[-1][2] == 9000
    assert re.fullmatch(
        r"Tokenised \d+%: [\d,]+ conversations, [\d,]+ tokens, [\d,]+ tokens/s, about \d+ s left", said[0]
    )


@pytest.mark.parametrize("packing", ["gz", "zip"])
def test_of_a_packed_file_the_share_is_that_of_its_own_bytes(prepared, tmp_path, packing):
    path = tmp_path / f"train.{'jsonl.gz' if packing == 'gz' else 'zip'}"
    if packing == "gz":
        path.write_bytes(gzip.compress(rows(3000).encode()))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("train.jsonl", rows(3000))
    steps, _ = prepared(path)
    assert steps[-1][0] == steps[-1][1] > 0


def test_what_is_found_again_is_not_counted_again(prepared, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(rows(3000))
    assert prepared(path)[0]
    assert prepared(path)[0] == []


PEAK = """
import resource, sys
from pathlib import Path
from burnish.data.prepare import prepare_data
from burnish.spec.train import SourceData, TrainSpec
data, model, store = map(Path, sys.argv[1:])
spec = TrainSpec(model="burnish/tiny", data=SourceData(path=str(data)), steps=1)
prepare_data(spec, model_directory=model, data_path=None, store_directory=store, say=lambda said: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.thorough
def test_a_million_rows_more_cost_less_than_a_gigabyte(tiny, tmp_path):
    peaks = []
    for count in (20_000, 100_000):
        path = tmp_path / f"{count}.jsonl"
        path.write_text(rows(count))
        ran = [sys.executable, "-c", PEAK, str(path), str(tiny), str(tmp_path / "store")]
        peaks.append(int(subprocess.run(ran, check=True, capture_output=True, text=True).stdout))
    # Bytes per row: where it lies, how long it is, its digest, and the sorting of all that into packed rows.
    assert (peaks[1] - peaks[0]) / 80_000 < 700


def test_cores_and_chunks_change_no_byte_of_the_store(bpe_folder, tmp_path, monkeypatch):
    path = tmp_path / "train.jsonl"
    path.write_text(rows(2000))
    stores = []
    for cores, block, chunk in ((1, 1 << 19, 1 << 30), (4, 1000, 1 << 30), (3, 700, 9000)):
        monkeypatch.setattr(bpe.os, "cpu_count", lambda cores=cores: cores)
        monkeypatch.setattr(bpe, "_BLOCK_LETTERS", block)
        monkeypatch.setattr(vocabulary, "_MANY_LETTERS", 0)
        monkeypatch.setattr(tokenise, "_CHUNK_LETTERS", chunk)
        prepare_data(
            TrainSpec(
                model="own", data=SourceData(path=str(path)), steps=1, renderer=Renderer(name="chatml"), row_tokens=64
            ),
            model_directory=bpe_folder(None),
            data_path=None,
            store_directory=tmp_path / f"store-{cores}",
            say=lambda said: None,
        )
        store = tmp_path / f"store-{cores}"
        files = (file for file in store.rglob("*") if file.is_file() and ".hashes" not in file.parts)
        stores.append({file.relative_to(store).as_posix(): file.read_bytes() for file in files})
    assert stores[0] == stores[1] == stores[2]
    assert any(name.endswith("tokens.u32") and len(data) > 100_000 for name, data in stores[0].items())
