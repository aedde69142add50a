"""Files that were made to break a reader, or were broken on their way: each is a sentence with its place."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burnish.data.conversations import parse_conversation
from burnish.data.formats import LINE_BYTES, Record
from burnish.data.ledger import BadRow
from burnish.data.sources import find_sources, read_records
from burnish.errors import DataError


def _read(path: Path) -> tuple[list[Record], dict[str, str]]:
    """The records, and the bad rows by place."""
    bad: list[BadRow] = []
    records = list(read_records(path, on_bad=bad.append))
    return records, {row.where: row.reason for row in bad}


def _fault(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        list(read_records(path))
    return caught.value


def _put(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


GOOD = '{"text": "good"}'


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv", "a.parquet"])
def test_no_letter_but_the_line_feed_ends_a_line(tmp_path, name):
    odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x00h\ufeffi\r\nj\rk\tl"
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.table({"text": [odd, "good"]}), path)
    elif name in ("a.csv", "a.tsv"):
        _put(path, f'text\n"{odd}"\ngood\n')
    elif name == "a.json":
        _put(path, json.dumps([{"text": odd}, {"text": "good"}], ensure_ascii=False))
    else:
        _put(path, json.dumps({"text": odd}, ensure_ascii=False) + "\r\n" + GOOD + "\r\n")
    assert [record.value["text"] for record in _read(path)[0]] == [odd, "good"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"text": "\\ud800"}', "surrogate"),
        ('{"text": "a\x00b"}', "not valid JSON"),
        ('{"text": "a\x01b"}', "not valid JSON"),
        ('{"text": NaN}', "not valid JSON (NaN is no number there, at column 10)"),
        ('{"text": "x", "score": -Infinity}', "not valid JSON (-Infinity is no number there, at column"),
        ('{"é": [1,NaN]}', "not valid JSON (NaN is no number there, at column 10)"),
        ('{"NaN": tru}', "not valid JSON (invalid literal"),
        ('{"text": "a", "text": "b"}', "the key 'text' stands there twice"),
        ('{"text": "x", "deep": ' + "[" * 2000 + "]" * 2000 + "}", "depth"),
        ('{"text": "x", "n": 1e999}', "infinity"),
        (b'{"text": "\xff\xfe"}', "not valid JSON (byte 0xff is no UTF-8, at byte 11)"),
        (b'{"text": "\xed\xa0\x80"}', "not valid JSON"),
        ("{'text': 'x'}", "not valid JSON"),
        ('{"text": "x"} {"text": "y"}', "not valid JSON"),
        ('{"text": "x"},', "not valid JSON"),
        ("[]", "a list, not an object"),
        ("1.5", "a number, not an object"),
        ("true", "a truth value, not an object"),
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_a_line_that_is_no_row_is_named_and_the_next_is_read(tmp_path, name, line, reason):
    data = b"\n".join([GOOD.encode(), line if isinstance(line, bytes) else line.encode(), GOOD.encode()])
    records, bad = _read(_put(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data))
    assert [record.line for record in records] == [1, 3]
    assert list(bad) == [f"{name}:2"] and reason in bad[f"{name}:2"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_rows_under_the_name_of_lines_is_told_by_its_first_line(tmp_path, indent):
    _, bad = _read(_put(tmp_path / "a.jsonl", json.dumps([{"text": "a"}, {"text": "b"}], indent=indent)))
    assert [where for where, reason in bad.items() if "is to be named .json" in reason] == ["a.jsonl:1"]


@pytest.mark.parametrize(
    ("text", "lines", "bad"),
    [
        ("[]", [], {}),
        ("[ ]\n", [], {}),
        (f"\ufeff[{GOOD}\n,\n{GOOD} ]\r\n", [1, 2], {}),
        (f"[{GOOD}, 1, null, {GOOD}]", [1, 4], {2: "a number, not an object", 3: "null, not an object"}),
        (f'[{GOOD}, {{"text": 1, "text": 2}}, {GOOD}]', [1, 3], {2: "stands there twice"}),
        (f"[{GOOD}, {GOOD}", [1, 2], {3: "the list has no end"}),
        (f'[{GOOD}, {{"text": "cut', [1], {2: "Unterminated string"}),
        (f"[{GOOD}, {{]", [1], {2: "nothing after it can be read"}),
        (f"[{GOOD} {GOOD}]", [1], {2: "'{' where ',' or ']' is due"}),
        (f"[{GOOD}] x", [1], {2: "'x' after the end of the list"}),
        ("[" * 5000, [], {1: "nested too deep"}),
        (f'{{"rows": [{GOOD}, {GOOD}]}}', [1, 2], {}),
        (f'{{\n "rows": [\n{GOOD}\n]\n}}\n', [1], {}),
        (f"{GOOD}\n\n{GOOD}\n", [1, 3], {}),
        ("{", [], {1: "not valid JSON"}),
        ("null", [], {1: "null, not an object"}),
    ],
)
def test_json_is_a_list_an_object_or_lines(tmp_path, text, lines, bad):
    records, found = _read(_put(tmp_path / "a.json", text))
    assert [record.line for record in records] == lines
    assert list(found) == [f"a.json:{line}" for line in bad]
    for line, reason in bad.items():
        assert reason in found[f"a.json:{line}"]


@pytest.mark.parametrize("size", [1, 1000, (1 << 20) - 12, 1 << 20, 3 << 20])
def test_a_list_item_may_end_anywhere_in_what_is_read_at_once(tmp_path, size):
    rows = [{"text": "é" * (size // 2), "n": number} for number in (1, 23, 456)]
    path = _put(tmp_path / "a.json", json.dumps(rows, ensure_ascii=False))
    assert [record.value for record in _read(path)[0]] == rows


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.jsonl", GOOD.encode("utf-16"), "a.jsonl is UTF-16 or UTF-32 text."),
        ("a.jsonl", GOOD.encode("utf-16-le") * 9, "is UTF-16 or UTF-32 text"),
        ("a.json", GOOD.encode("utf-16-be") * 9, "is UTF-16 or UTF-32 text"),
        ("a.csv", "text\nx\n".encode("utf-32"), "is UTF-16 or UTF-32 text"),
        ("a.jsonl", gzip.compress(GOOD.encode(), mtime=0), "is compressed with gzip, not text"),
        ("a.csv", b"PK\3\4....", "is a zip archive, not text"),
        ("a.jsonl", b"PAR1....", "is parquet, not text"),
        ("a.jsonl", b"\x28\xb5\x2f\xfd....", "is compressed with zstd, not text"),
        ("a.jsonl", bytes(4096), "begins with zeros"),
        ("a.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS"),
        ("a.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS"),
        ("a.parquet", b"", "cannot be read as parquet"),
        ("a.arrow", b"ARROW1\0\0....", "cannot be read as arrow"),
        ("a.jsonl.gz", GOOD.encode(), "a.jsonl.gz cannot be read (Not a gzipped file"),
        ("a.jsonl.gz", gzip.compress(GOOD.encode() * 99, mtime=0)[:-12], "a.jsonl.gz cannot be read ("),
        ("a.jsonl.zst", GOOD.encode(), "a.jsonl.zst cannot be read ("),
        ("a.csv", b"text\nx\n\xff\n", "cannot be read as CSV"),
        ("a.csv", "text,other,text\n1,2,3\n", "the header names 'text' twice"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_named(tmp_path, name, data, reason):
    fault = _fault(_put(tmp_path / name, data))
    assert fault.message.startswith(name) and reason in fault.message and fault.hint


def test_parquet_cut_in_half_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [str(number) for number in range(5000)]}), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert _fault(path).message.startswith("a.parquet cannot be read as parquet (")


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([2**62], pa.timestamp("us")), "date value out of range"),
        (pa.array([10**9], pa.date32()), "magnitude"),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), "duplicate field names"),
    ],
)
def test_a_column_that_python_has_no_value_for_is_named(tmp_path, column, reason):
    pq.write_table(pa.table({"text": ["a"], "more": column}), tmp_path / "a.parquet")
    fault = _fault(tmp_path / "a.parquet")
    assert fault.message.startswith("a.parquet cannot be read as parquet (") and reason in fault.message


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert "two columns are called 'text'" in _fault(tmp_path / "a.parquet").message


def test_a_secret_in_a_header_is_covered(tmp_path):
    secret = "hf_" + "AbCdEf123" * 4
    fault = _fault(_put(tmp_path / "a.csv", f"{secret},{secret}\n1,2\n"))
    assert "twice" in fault.message and secret[:12] not in fault.message


def test_a_name_that_is_no_text_is_spelt_out(tmp_path):
    (tmp_path / os.fsdecode(b"tr\xffain.jsonl")).write_text(f"{GOOD}\n[]\n")
    records, bad = _read(tmp_path)
    assert [record.where for record in records] == ["tr\\xffain.jsonl:1"]
    assert list(bad) == ["tr\\xffain.jsonl:2"]


def test_csv_has_quotes_line_ends_in_fields_and_rows_that_are_cut(tmp_path):
    text = 'prompt,completion\n"a ""b"", c\nd",e\n"x"y,z\nf,\ng\nh,i,j\n"k,l\n'
    records, bad = _read(_put(tmp_path / "a.csv", text))
    assert [(record.line, record.value) for record in records] == [
        (2, {"prompt": 'a "b", c\nd', "completion": "e"}),
        (5, {"prompt": "f", "completion": ""}),
        (6, {"prompt": "g"}),
    ]
    assert bad == {
        "a.csv:4": "not valid CSV (',' expected after '\"')",
        "a.csv:7": "3 fields, but the header names 2",
        "a.csv:8": "not valid CSV (unexpected end of data)",
    }


def test_csv_without_a_header_says_what_its_first_line_is_for(tmp_path):
    path = _put(tmp_path / "a.csv", f"Hello there,{'long ' * 40}\nAgain,Hi\n")
    (record,) = _read(path)[0]
    with pytest.raises(DataError) as caught:
        parse_conversation(record)
    assert "it has Hello there, long long" in str(caught.value)
    assert "the first line of the file names its columns" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_pipe_or_a_device_under_the_name_of_data_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "train.jsonl")
    assert _fault(tmp_path / "train.jsonl").message == "train.jsonl is a pipe or a device, not a file."
    assert _fault(tmp_path).message == "train.jsonl is a pipe or a device, not a file."
    (tmp_path / "train.jsonl").unlink()
    for name in ("train.jsonl", "train.parquet", "train.zip"):
        (tmp_path / name).symlink_to("/dev/zero")
        assert _fault(tmp_path / name).message == f"{name} is a pipe or a device, not a file."
        (tmp_path / name).unlink()


def test_links_to_nowhere_and_folders_under_the_name_of_data_are_no_data(tmp_path):
    (tmp_path / "gone.jsonl").symlink_to("nowhere.jsonl")
    (tmp_path / "self.jsonl").symlink_to("self.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    _put(tmp_path / "folder.jsonl" / "train.jsonl", GOOD)
    (source,) = find_sources(tmp_path)
    assert [file.name for file in source.files] == ["folder.jsonl/train.jsonl"]
    assert "does not exist" in _fault(tmp_path / "gone.jsonl").message
    assert "does not exist" in _fault(tmp_path / ("x" * 5000)).message
    assert "does not exist" in _fault(tmp_path / "a\0b.jsonl").message


READ = """if True:
    import resource, sys
    from pathlib import Path
    from burnish.data.conversations import parse_conversation
    from burnish.data.sources import read_records
    bad, rows = [], 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for record in read_records(Path(sys.argv[1]), on_bad=bad.append):
        parse_conversation(record); rows += 1
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(rows, memory, *[row.reason for row in bad], sep="\\n")
"""


def _memory_of_reading(path: Path) -> tuple[int, int, list[str]]:
    """Rows, bytes of memory in a process of its own, and what is wrong with the bad rows."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    rows, memory, *bad = done.stdout.splitlines()
    return int(rows), int(memory), bad


def test_a_line_of_100_megabytes_costs_a_few_times_its_size(tmp_path):
    line = b'{"text": "' + b"x" * (100 << 20) + b'"}\n'
    path = _put(tmp_path / "train.jsonl", line + GOOD.encode() + b"\n" + line[: 10 << 20])
    rows, memory, bad = _memory_of_reading(path)
    assert (rows, len(bad)) == (2, 1)
    assert memory < 4.5 * len(line)


def test_a_line_without_end_is_a_bad_row_and_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "train.jsonl"
    with path.open("wb") as file:
        file.write(GOOD.encode() + b"\n")
        file.seek(LINE_BYTES + (20 << 20))
        file.write(b"\n" + GOOD.encode() + b"\n")
    rows, memory, bad = _memory_of_reading(path)
    assert (rows, bad) == (2, ["a line of more than 256 MiB"])
    assert memory < 3 * LINE_BYTES


@pytest.mark.parametrize("name", ["train.jsonl", "train.json", "train.csv", "train.parquet", "train.arrow"])
def test_memory_does_not_grow_with_rows(tmp_path, name):
    rows = [{"prompt": f"Say {number}, and some words more.", "completion": "y" * 400} for number in range(20_000)]
    path = tmp_path / name
    if name == "train.parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=5000)
    elif name == "train.arrow":
        table = pa.Table.from_pylist(rows)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    elif name == "train.csv":
        _put(path, "prompt,completion\n" + "".join(f'"{row["prompt"]}",{row["completion"]}\n' for row in rows))
    elif name == "train.json":
        _put(path, json.dumps(rows))
    else:
        _put(path, "".join(json.dumps(row) + "\n" for row in rows))
    # A mapped file's pages are the system's to take back; they are counted all the same.
    mapped = path.stat().st_size if name == "train.arrow" else 0
    count, memory, bad = _memory_of_reading(path)
    assert (count, bad) == (20_000, [])
    assert memory - mapped < 25 << 20
