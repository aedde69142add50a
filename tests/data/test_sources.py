import json
import tracemalloc
from pathlib import Path, PurePosixPath

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from burnish.data.ledger import BadRow
from burnish.data.sources import find_sources, read_records, split_of
from burnish.errors import DataError

ROWS = [{"text": "alpha"}, {"text": "beta\u2028still beta"}, {"text": "gamma\r\n"}]


def _write_jsonl(path: Path, rows=ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def _values(path: Path, splits=("train",)) -> list[dict]:
    return [record.value for record in read_records(path, splits)]


def _fault(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        list(read_records(path))
    return caught.value


def test_every_format_holds_the_same_rows(tmp_path):
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(tmp_path / "stream.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    (tmp_path / "list.json").write_text(json.dumps(ROWS))
    (tmp_path / "object.json").write_text(json.dumps({"version": 1, "data": ROWS}))
    (tmp_path / "lines.json").write_bytes(_write_jsonl(tmp_path / "a.jsonl").read_bytes())
    (tmp_path / "a.csv").write_text("text\nalpha\nbeta\u2028still beta\n" + '"gamma\r\n"\n', newline="")
    for file in sorted(tmp_path.iterdir()):
        assert _values(file) == ROWS, file.name


def test_a_byte_order_mark_crlf_and_blank_lines_are_no_part_of_any_row(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"text": "alpha?"}\r\n{"text": "beta?"}\r\n\r\n{"text": "gamma?"}\r\n   \n{"text": "delta?"}'
    )
    records = list(read_records(path))
    assert [record.value["text"] for record in records] == ["alpha?", "beta?", "gamma?", "delta?"]
    assert [record.where for record in records] == ["data.jsonl:1", "data.jsonl:2", "data.jsonl:4", "data.jsonl:6"]


def test_lines_that_hold_no_record_are_named_by_number_and_the_rest_are_read(tmp_path):
    path = tmp_path / "data.jsonl"
    lines = [b'{"text":"ok"}', b"42", b'"context"', b'["text"]', b"null", b'{"text":"\\ud800"}', b'{"text":"cut off']
    path.write_bytes(b"\n".join(lines))
    bad: list[BadRow] = []
    assert [record.line for record in read_records(path, on_bad=bad.append)] == [1]
    assert [row.where for row in bad] == [f"data.jsonl:{line}" for line in range(2, 8)]
    assert "a number, not an object" in bad[0].reason and "null, not an object" in bad[3].reason
    assert "surrogate" in bad[4].reason
    assert "cut off" in bad[5].reason
    assert "data.jsonl:2" in _fault(path).message


def test_a_csv_row_is_named_by_the_line_it_begins_on(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\ufeffprompt,completion\n\n"two\nlines",x\nshort\na,b,c\n', encoding="utf-8")
    bad: list[BadRow] = []
    records = list(read_records(path, on_bad=bad.append))
    assert [(record.value, record.where) for record in records] == [
        ({"prompt": "two\nlines", "completion": "x"}, "a.csv:3"),
        ({"prompt": "short"}, "a.csv:5"),
    ]
    assert [row.where for row in bad] == ["a.csv:6"]


def test_a_folder_is_read_as_a_download_leaves_it_whatever_it_is_nested_in(tmp_path):
    root = tmp_path / "put" / "my-data"
    shard = root / "data" / "train-00001-of-00002.jsonl"
    _write_jsonl(shard, ROWS[2:])
    _write_jsonl(root / "data" / "train-00000-of-00002.jsonl", ROWS[:2])
    _write_jsonl(root / "data" / "test-00000-of-00001.jsonl")
    for noise in ("README.md", ".gitattributes", "dataset_infos.json", ".cache/huggingface/x.json", ".hidden.jsonl"):
        (root / noise).parent.mkdir(parents=True, exist_ok=True)
        (root / noise).write_text("{")
    for start in (tmp_path, tmp_path / "put", root, root / "data"):
        assert _values(start) == ROWS
    assert [record.where for record in read_records(root)][2] == "data/train-00001-of-00002.jsonl:1"
    assert _values(root, ("test", "train")) == ROWS + ROWS


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("data/train-00000-of-00001.parquet", "train"),
        ("train.jsonl", "train"),
        ("val.jsonl", "validation"),
        ("my-dev_set.jsonl", "validation"),
        ("test/data-00000-of-00001.arrow", "test"),
        ("data/train_sft-00000-of-00002.parquet", "train_sft"),
        ("eval/x/part.csv", "test"),
        ("training.jsonl", "train"),
        ("constraints.jsonl", None),
        ("data/rows.jsonl", None),
    ],
)
def test_a_split_is_told_from_the_file_or_its_folder(name, split):
    assert split_of(PurePosixPath(name)) == split


def test_without_any_split_name_every_file_is_train(tmp_path):
    _write_jsonl(tmp_path / "a.jsonl", ROWS[:1])
    _write_jsonl(tmp_path / "b" / "c.jsonl", ROWS[1:])
    assert _values(tmp_path) == ROWS
    with pytest.raises(DataError, match=r"no split 'validation'; it has: train"):
        find_sources(tmp_path, ("validation",))


def test_a_saved_dataset_is_read_from_its_arrow_stream(tmp_path):
    for split, rows in (("train", ROWS[:2]), ("test", ROWS[2:])):
        folder = tmp_path / split
        folder.mkdir()
        table = pa.Table.from_pylist(rows)
        with (
            pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        (folder / "state.json").write_text("{}")
        (folder / "dataset_info.json").write_text("{}")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert _values(tmp_path) == ROWS[:2]


def test_a_missing_path_is_named_as_the_user_wrote_it_with_what_is_there_instead(tmp_path):
    _write_jsonl(tmp_path / "datasets" / "reverse-text" / "train.jsonl")
    (tmp_path / "datasets" / ".hidden").write_text("")

    def message(wish: str) -> str:
        with pytest.raises(DataError) as caught:
            find_sources(tmp_path / wish.strip("/"), called=wish)
        return caught.value.message

    assert message("datasets/reversed") == "datasets/reversed does not exist; datasets holds: reverse-text/."
    assert message("/nowhere/deep/down") == "/nowhere/deep/down does not exist; / holds: datasets/."
    assert message("./mine") == "./mine does not exist; where it is looked for, there is: datasets/."
    assert "datasets/reverse-text holds: train.jsonl" in message("datasets/reverse-text/test.jsonl")


def test_an_empty_folder_has_no_rows_and_says_what_it_holds(tmp_path):
    assert "no rows. It holds: nothing." in _fault(tmp_path).message
    (tmp_path / "notes.docx").write_text("")
    assert "notes.docx" in _fault(tmp_path).message
    assert "not a data file" in _fault(tmp_path / "notes.docx").message


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv"])
def test_a_file_cut_off_on_its_way_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1\xff\xfe" if name != "a.csv" else b"a,b\n\xff\xfe")
    assert _fault(tmp_path / name).message.startswith(f"{name} cannot be read as ")


def test_reading_holds_one_row_at_a_time(tmp_path):
    path = tmp_path / "big.jsonl"
    path.write_bytes((b'{"text": "' + b"x" * 10_000 + b'"}\n') * 2000)
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 10
