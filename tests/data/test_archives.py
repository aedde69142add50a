"""Data sets in zip and tar files are read where they lie, and nothing leads out of them."""

import io
import json
import lzma
import stat
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burnish.data.archives import open_archive
from burnish.data.ledger import RowFault
from burnish.data.sources import find_sources, read_records
from burnish.errors import DataError

NAMES = ("all.zip", "all.tar", "all.tar.gz", "all.tgz", "all.tar.bz2", "all.tar.xz", "all.tar.zst")


def _line(text: str) -> bytes:
    return json.dumps({"text": text}).encode() + b"\n"


def _parquet(text: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": [text]}), sink)
    return sink.getvalue()


FILES = {
    "README.md": b"---\nconfigs:\n- config_name: en\n  data_files: en/*\n- config_name: fr\n  data_dir: fr\n---\n",
    "en/b.parquet": _parquet("b"),
    "en/a.jsonl": _line("a1") + b"\n" + _line("a2"),
    "en/.hidden.jsonl": _line("hidden"),
    "__MACOSX/en/._a.jsonl": b"\0\5\x16\7",
    "fr/train.csv": b"text\nc\n",
    "fr/test.arrow": b"",
}


def _pack(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, data in files.items():
                packed.writestr(name, data)
        return path
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as packed:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    if path.name.endswith(".zst"):
        path.write_bytes(pa.Codec("zstd").compress(plain.getvalue(), asbytes=True))
    else:
        kind = {".gz": "gzip", ".tgz": "gzip", ".bz2": "bz2", ".xz": "xz"}.get(path.suffix)
        with pa.output_stream(str(path)) if kind in (None, "xz") else pa.output_stream(str(path), kind) as out:
            out.write(lzma.compress(plain.getvalue()) if kind == "xz" else plain.getvalue())
    return path


def _fault(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        list(read_records(path))
    return caught.value


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nested", ["", "./my-data/"])
def test_an_archive_is_a_folder(tmp_path, name, nested):
    packed = _pack(tmp_path / name, {nested + member: data for member, data in FILES.items()})
    inner = nested.removeprefix("./")
    for path, prefix in ((packed, name), (tmp_path, name)):
        records = list(read_records(path, subsets=("en", "fr")))
        assert [(record.value["text"], record.where, record.source) for record in records] == [
            ("a1", f"{prefix}/{inner}en/a.jsonl:1", "en/train"),
            ("a2", f"{prefix}/{inner}en/a.jsonl:3", "en/train"),
            ("b", f"{prefix}/{inner}en/b.parquet:1", "en/train"),
            ("c", f"{prefix}/{inner}fr/train.csv:2", "fr/train"),
        ]


def test_a_folder_may_hold_an_archive_for_each_split(tmp_path):
    _pack(tmp_path / "train.zip", {"rows.jsonl": _line("t")})
    _pack(tmp_path / "validation.tar.gz", {"rows.jsonl": _line("v")})
    assert [record.value["text"] for record in read_records(tmp_path, ("validation",))] == ["v"]
    assert [record.where for record in read_records(tmp_path)] == ["train.zip/rows.jsonl:1"]


@pytest.mark.parametrize("member", ["../train.jsonl", "/etc/train.jsonl", "a/../../train.jsonl", "..\\train.jsonl"])
@pytest.mark.parametrize("name", ["all.zip", "all.tar"])
def test_a_member_that_would_lie_outside_is_refused(tmp_path, name, member):
    assert "would lie outside of it" in _fault(_pack(tmp_path / name, {member: _line("x")})).message


def _with_link(path: Path, target: str, kind: bytes = tarfile.SYMTYPE) -> Path:
    with tarfile.open(path, "w") as packed:
        real = tarfile.TarInfo("data/real.txt")
        real.size = len(_line("linked"))
        packed.addfile(real, io.BytesIO(_line("linked")))
        link = tarfile.TarInfo("data/train.jsonl")
        link.type, link.linkname = kind, target
        packed.addfile(link)
    return path


@pytest.mark.parametrize("target", ["/etc/hostname", "../../etc/hostname", "../../data/x"])
def test_a_link_that_leads_out_of_an_archive_is_refused(tmp_path, target):
    assert "'data/train.jsonl', a link that leads out of it" in _fault(_with_link(tmp_path / "a.tar", target)).message
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        link = zipfile.ZipInfo("data/train.jsonl")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, target)
    assert "a link that leads out of it" in _fault(tmp_path / "a.zip").message


def test_a_link_within_an_archive_is_followed(tmp_path):
    for kind, target in ((tarfile.SYMTYPE, "real.txt"), (tarfile.LNKTYPE, "data/real.txt")):
        path = _with_link(tmp_path / "a.tar", target, kind)
        assert [record.value["text"] for record in read_records(path)] == ["linked"]
    assert "holds no data files" in _fault(_with_link(tmp_path / "a.tar", "train.jsonl")).message, "to itself"


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_a_device_in_an_archive_is_refused(tmp_path, kind):
    assert "is a pipe or a device" in _fault(_with_link(tmp_path / "a.tar", "", kind)).message


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is(tmp_path):
    for name in ("all.zip", "all.tar", "all.tar.gz"):
        path = _pack(tmp_path / name, {"train.jsonl": b" " * (3 << 20)})
        open_archive(path, name, most_bytes=4 << 20)
        with pytest.raises(DataError, match=r"all\.\S+ unpacks to more than 0\.0 GiB"):
            open_archive(path, name, most_bytes=2 << 20)


def test_an_encrypted_archive_is_refused(tmp_path):
    path = _pack(tmp_path / "all.zip", {"train.jsonl": _line("x")})
    data = bytearray(path.read_bytes())
    for header, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(header) + place] |= 1
    path.write_bytes(data)
    assert _fault(path).message == "all.zip is encrypted."


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [0, 10, 0.5, 0.9])
def test_an_archive_that_was_cut_off_is_named(tmp_path, name, cut):
    noise = b"".join(_line(str(hash((name, number)))) for number in range(3000))
    path = _pack(tmp_path / name, {"a.jsonl": noise, "b.jsonl": noise})
    whole = path.read_bytes()
    path.write_bytes(whole[: cut if isinstance(cut, int) else int(len(whole) * cut)])
    assert _fault(path).message.startswith(f"{name}")


def test_a_broken_member_is_named(tmp_path):
    path = _pack(tmp_path / "all.zip", {"a.jsonl": _line("x" * 5000)})
    data = bytearray(path.read_bytes())
    data[45:60] = bytes(15)
    path.write_bytes(data)
    assert _fault(path).message.startswith("all.zip/a.jsonl cannot be unpacked (")


def test_what_lies_beside_a_member_is_a_member(tmp_path):
    path = _pack(tmp_path / "all.zip", {"data/train.jsonl": _line("x"), "data/i/1.png": b"1", "2.png": b"2"})
    (tmp_path / "3.png").write_bytes(b"3")
    (source,) = find_sources(path)
    (file,) = source.files
    for reference, data in (("i/1.png", b"1"), ("./i/../i/1.png", b"1"), ("../2.png", b"2")):
        with file.beside(reference).open() as opened:
            assert opened.read() == data
    for reference, reason in (("../../3.png", "outside the data set"), ("3.png", "is missing")):
        with pytest.raises(RowFault, match=reason):
            file.beside(reference)


@pytest.mark.parametrize(
    "name", ["big.zip", "big.tar.gz", "big.jsonl.gz", "big.jsonl.zst", "big.csv.bz2", "big.json.xz"]
)
def test_reading_what_is_packed_holds_little_of_it(tmp_path, name):
    line = _line("x" * 10_000)
    if ".csv" in name:
        data = b"text\n" + (b"x" * 10_000 + b"\n") * 2000
    elif ".json." in name:
        data = b"[" + b",\n".join([line] * 2000) + b"]"
    else:
        data = line * 2000
    path = tmp_path / name
    if name in ("big.zip", "big.tar.gz"):
        _pack(path, {"train.jsonl": data})
    elif name.endswith(".xz"):
        path.write_bytes(lzma.compress(data, preset=0))
    else:
        kind = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}[path.suffix]
        with pa.output_stream(str(path), kind) as out:
            out.write(data)
    size = len(data)
    del data
    tracemalloc.start()
    assert [len(record.value["text"]) for record in read_records(path)] == [10_000] * 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size / 2


def test_a_nameless_copy_is_all_that_is_left_on_the_disk(tmp_path):
    path = _pack(tmp_path / "all.tar.gz", FILES)
    script = f"""if True:
    import tempfile; from pathlib import Path; from burnish.data.sources import read_records
    tempfile.tempdir = {str(tmp_path / "temporary")!r}
    for record in read_records(Path({str(path)!r}), subsets=("en",)): pass
    print(len(list(Path(tempfile.tempdir).iterdir())))
    """
    (tmp_path / "temporary").mkdir()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
