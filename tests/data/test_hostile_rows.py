"""Rows and files that were made to break a reader, or were broken on their way: each is a sentence, none a surprise."""

import datetime
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_folders import load

from burnish.data.conversations import RowFault, parse_conversation
from burnish.data.formats import Record
from burnish.data.prepare import prepare_data
from burnish.data.sources import find_sources, read_records
from burnish.data.tools import DEEPEST
from burnish.errors import DataError, ModelError
from burnish.spec.train import FakeData, LossMask, TrainSpec

ASKED = {"role": "user", "content": "q"}


def _row(arguments: object = "{}", tools: object = None) -> Record:
    call = {"function": {"name": "f", "arguments": arguments}}
    turns = [ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}]
    return Record({"messages": turns, "tools": tools}, "train.jsonl", 1)


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("[" * 100_000, "not JSON"),
        ('{"a": "\\ud800"}', "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ("[" * 500 + "]" * 500, f"more than {DEEPEST} deep"),
        (_nested(DEEPEST + 1), f"more than {DEEPEST} deep"),
        ({"on": datetime.date(2026, 1, 1)}, "holds a date, which JSON cannot write"),
        ({"raw": b"x"}, "holds a bytes, which JSON cannot write"),
    ],
)
def test_arguments_that_no_json_holds_are_a_fault_of_their_row(arguments: object, reason: str):
    with pytest.raises(RowFault, match=reason):
        parse_conversation(_row(arguments))
    if not isinstance(arguments, str):
        with pytest.raises(RowFault, match=reason):
            parse_conversation(_row("{}", [{"function": {"name": "f", "parameters": arguments}}]))


def test_a_tools_function_that_is_no_object_is_a_fault_of_its_row():
    with pytest.raises(RowFault, match="a function that is not an object"):
        parse_conversation(_row("{}", [{"function": "f"}]))


@pytest.mark.parametrize("name", ["auto", "chatml", "smollm", "qwen3", "prime-qwen3"])
def test_the_deepest_arguments_that_are_read_can_be_rendered_or_refused(tiny, name):
    try:
        load(tiny, name).write(parse_conversation(_row(_nested(DEEPEST))), LossMask())
    except RowFault as fault:
        assert "not rendered" in str(fault) or "not an object" in str(fault)


def test_an_integer_longer_than_64_bits_is_read_as_it_is_written(tmp_path: Path):
    number = 123456789012345678901234567890
    (tmp_path / "train.jsonl").write_text(json.dumps({"n": number}) + "\n")
    (tmp_path / "other.json").write_text(json.dumps([{"n": number}]))
    assert [record.value for record in read_records(tmp_path / "train.jsonl")] == [{"n": number}]
    assert [record.value for record in read_records(tmp_path / "other.json")] == [{"n": number}]


def test_a_number_of_thousands_of_digits_is_a_fault_of_its_line(tmp_path: Path):
    (tmp_path / "train.jsonl").write_text('{"n": 1' + "0" * 5000 + "}\n")
    with pytest.raises(DataError, match=r"train\.jsonl:1: not valid JSON"):
        list(read_records(tmp_path))


def test_parquet_whose_text_or_pages_are_broken_is_named(tmp_path: Path):
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    pq.write_table(pa.table({"text": text}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"train\.parquet cannot be read as parquet"):
        list(read_records(tmp_path))
    file = tmp_path / "train.parquet"
    pq.write_table(
        pa.table({"text": [str(n) * 50 for n in range(2000)]}), file, compression="zstd", use_dictionary=False
    )
    data = bytearray(file.read_bytes())
    data[200:2000] = bytes(1800)
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"train\.parquet cannot be read as parquet"):
        list(read_records(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path):
    (tmp_path / "train.jsonl").write_text("{}\n")
    (tmp_path / "train.jsonl").chmod(0)
    with pytest.raises(DataError, match=r"train\.jsonl cannot be read \(Permission denied\)"):
        list(read_records(tmp_path))


def test_links_that_lead_back_up_are_walked_once(tmp_path: Path):
    (tmp_path / "train.jsonl").write_text("{}\n")
    for name in "abcdef":
        (tmp_path / name).symlink_to(tmp_path)
    (source,) = find_sources(tmp_path)
    assert [file.name for file in source.files] == ["train.jsonl"]


@pytest.mark.parametrize(
    ("template", "reason"),
    [("{% for m in messages %}", "cannot be read"), ("{{ 1 / 0 }}<|im_end|>", None), ("{{ m.x.y }}", None)],
)
def test_a_broken_chat_template_is_the_models_fault_or_the_rows(bpe_folder, template, reason):
    if reason:
        with pytest.raises(ModelError, match=reason):
            load(bpe_folder(template))
    else:
        with pytest.raises(RowFault):
            load(bpe_folder(template)).write(parse_conversation(_row()), LossMask())


@pytest.mark.parametrize("length", ["fixed", "variable"])
def test_made_up_data_without_measure_costs_no_memory(tiny, tmp_path, length):
    spec = TrainSpec(model="t", data=FakeData(length=length), steps=2**53, rows_per_step=2**20, row_tokens=2**24)
    facts = prepare_data(spec, model_directory=tiny, data_path=None, store_directory=tmp_path).facts
    share = facts.tokens / (2**53 * 2**20 * 2**24)
    assert share == 1 if length == "fixed" else 0.45 < share < 0.55
