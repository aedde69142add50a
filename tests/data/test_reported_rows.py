"""Inputs made after public bug reports, with the right outcome of each."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_folders import load

from burnish.data.conversations import Conversation, parse_conversation
from burnish.data.json_text import write_json
from burnish.data.prepare import PreparedData, prepare_data
from burnish.data.sources import read_records
from burnish.errors import DataError
from burnish.spec.train import LossMask, SourceData, TrainSpec


class Bench:
    """A data set on its way to rows of `burnish/tiny`."""

    def __init__(self, folder: Path, tiny: Path) -> None:
        self.folder, self.tiny = folder, tiny
        self.file = folder / "data.jsonl"
        self.told: list[str] = []

    def write(self, *rows: object) -> None:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        self.file.write_text("".join(line + "\n" for line in lines))

    def spec(self, **wish) -> TrainSpec:
        data = SourceData(path="data.jsonl", shuffle=False, **wish)
        return TrainSpec(model="burnish/tiny", data=data, row_tokens=512, rows_per_step=4, steps=2)

    def prepare(self, file: Path | None = None, **wish) -> PreparedData:
        stores, path = self.folder / "stores", file or self.file
        return prepare_data(
            self.spec(**wish),
            model_directory=self.tiny,
            data_path=path,
            store_directory=stores,
            say=self.told.append,
        )

    def refusal(self, **wish) -> str:
        with pytest.raises(DataError) as prepared:
            self.prepare(**wish)
        return prepared.value.message

    def trained(self, prepared: PreparedData) -> list[str]:
        decode, found = load(self.tiny).decode, []
        for row in range(prepared.source.rows or 0):
            found += [decode(each.token_ids[each.loss_mask > 0]) for each in prepared.source.row(row)]
        return found


@pytest.fixture
def bench(tmp_path: Path, tiny: Path) -> Bench:
    return Bench(tmp_path, tiny)


def _chat(asked: str, answer: str) -> dict:
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}


def test_f01_a_byte_order_mark_crlf_and_blank_lines_change_nothing(bench):
    rows = [_chat(f"{number}?", f"answer {number}") for number in range(4)]
    bench.write(*rows)
    clean = bench.prepare(pack=False)
    lines = [json.dumps(row).encode() for row in rows]
    dirty = bench.folder / "dirty.jsonl"
    dirty.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([lines[0], lines[1], b"", lines[2], b"   ", lines[3]]))
    read = bench.prepare(dirty, pack=False)
    assert read.facts.stream == clean.facts.stream and read.facts.samples == 4
    for row in range(4):
        text = load(bench.tiny).decode(read.source.row(row)[0].token_ids)
        assert "\r" not in text and "\ufeff" not in text


BAD_LINES = (
    _chat("ok", "yes"),
    "42",
    '"context"',
    '["text"]',
    "null",
    {"messages": []},
    {"messages": [{"role": "user", "content": "no answer"}]},
    {"messages": [{"role": "robot", "content": "x"}, {"role": "assistant", "content": "y"}]},
    '{"messages":[{"role":"user","content":"cut off',
)


def test_f03_bad_lines_are_named_with_their_reasons_and_skipped_if_that_is_allowed(bench):
    bench.write(*BAD_LINES)
    message = bench.refusal()
    assert message.startswith("8 of 9 rows cannot be used: data.jsonl:2: a number, not an object; ")
    for line, reason in {
        3: "a string, not an object",
        4: "a list, not an object",
        5: "null, not an object",
        6: "messages is empty",
        7: "no assistant turn",
        8: "the unknown role 'robot'",
        9: "not valid JSON",
    }.items():
        place = message.index(f"data.jsonl:{line}: ")
        assert reason in message[place : place + 120]
    facts = bench.prepare(on_bad_row="skip").facts
    assert (facts.conversations_read, facts.conversations_used) == (9, 1)
    assert facts.conversations_dropped == {"bad row": 8}
    assert "8 of 9 rows dropped (bad row)" in bench.told


def test_of_many_bad_rows_the_first_ten_are_named_and_the_rest_counted(bench):
    bench.write(*["null"] * 12, _chat("ok", "yes"), *["[]"] * 20)
    with pytest.raises(DataError) as caught:
        bench.prepare()
    assert caught.value.message.startswith("32 of 33 rows cannot be used: data.jsonl:1, ")
    assert caught.value.message.endswith("data.jsonl:10: null, not an object; and 22 more.")
    assert bench.prepare(on_bad_row="skip").facts.conversations_dropped == {"bad row": 32}


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (json.dumps({"messages": [{"role": "user"}]}, indent=2).split("\n"), "Each line of a .jsonl file is a row"),
        (['{"question": "a"}'], "Correct these rows; docs/data.md"),
        (['{"question": "a"}', _chat("ok", "yes")], 'Correct these rows, or set on_bad_row = "skip"'),
    ],
)
def test_the_way_out_of_bad_rows_is_one_that_there_is(bench, lines, hint: str):
    bench.write(*lines)
    with pytest.raises(DataError) as caught:
        bench.prepare()
    assert caught.value.hint.startswith(hint)


MIXED = (
    _chat("as chat", "first"),
    {"prompt": "as text", "completion": " second"},
    {
        "messages": None,
        "prompt": [{"role": "user", "content": "as lists"}],
        "completion": [{"role": "assistant", "content": "third"}],
    },
    {**_chat("both", "fourth"), "prompt": None, "completion": None},
    {
        "messages": [
            {"role": "user", "content": "parts"},
            {"role": "assistant", "content": [{"type": "text", "text": "fif"}, {"type": "text", "text": "th"}]},
        ]
    },
    {"text": "no known columns"},
)


def test_f04_each_row_may_have_its_own_layout_in_any_order(bench):
    found = []
    for rows in (MIXED, MIXED[::-1]):
        bench.write(*rows)
        assert f"data.jsonl:{rows.index(MIXED[5]) + 1}: only a text column" in bench.refusal()
        prepared = bench.prepare(on_bad_row="skip")
        assert prepared.facts.conversations_dropped == {"bad row": 1}
        found.append(sorted(bench.trained(prepared)))
    assert found[0] == found[1] == [f"{text}<|im_end|>" for text in (" second", "fifth", "first", "fourth", "third")]


@pytest.mark.parametrize("text", ["", "\n\n  \n", "\ufeff", "\r\n\r\n"])
def test_f09_a_data_set_without_rows_is_refused(bench, text):
    bench.file.write_text(text)
    assert "the dataset has no rows" in bench.refusal()


SCHEMA = {
    "name": "find_bus",
    "description": "Finds.",
    "parameters": {"type": "object", "properties": {"stop": {"type": "string"}}, "required": ["stop"]},
}
TOOL = {"type": "function", "function": SCHEMA}


def _called(arguments: object, **more: object) -> dict:
    return {"id": "c1", "type": "function", "function": {"name": "find_bus", "arguments": arguments}, **more}


NULLS = (
    {
        "tools": [TOOL],
        "messages": [
            {"role": "user", "content": "Next bus?"},
            {"role": "assistant", "content": None, "tool_calls": [_called('{"stop": "Tarn"}')]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"due": 4}'},
            {"role": "assistant", "content": "Four minutes.", "tool_calls": None},
        ],
    },
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Any time.", "tool_calls": None}]},
    {"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "Sure.", "tool_calls": []}]},
)


def _files(folder: Path, rows: tuple[dict, ...]) -> list[Path]:
    lines, table = folder / "rows.jsonl", folder / "rows.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(list(rows)), table)
    return [lines, table]


def _written(tiny: Path, conversation: Conversation) -> tuple[str, str]:
    """All of it as text, and the trained part."""
    renderer = load(tiny, "qwen3")
    rendered = renderer.render(conversation, LossMask())
    return renderer.decode(rendered.token_ids), renderer.decode(rendered.token_ids[rendered.loss_mask > 0])


def test_m10_null_content_and_null_calls_are_nothing(tmp_path, tiny):
    for file in _files(tmp_path, NULLS):
        (whole, trained), *plain = [_written(tiny, parse_conversation(record)) for record in read_records(file)]
        assert "None" not in whole and "null" not in whole
        assert all(text in trained for text in ("find_bus", "Tarn", "Four minutes."))
        assert "due" in whole and "due" not in trained and "Next bus" not in trained
        for (text, learnt), said in zip(plain, ("Any time.", "Sure."), strict=True):
            assert said in learnt and "None" not in text and "tool_call" not in text


def test_m11_arguments_as_text_or_as_an_object_are_the_same_tokens(tmp_path, tiny):
    rows = [
        {
            "tools": [TOOL],
            "messages": [
                {"role": "user", "content": "Dial to 3."},
                {"role": "assistant", "content": None, "tool_calls": [_called(arguments)]},
            ],
        }
        for arguments in ('{"level": 3}', {"level": 3}, '{"level":3}')
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    written = {_written(tiny, parse_conversation(record)) for record in read_records(tmp_path / "rows.jsonl")}
    ((whole, trained),) = written
    assert '"arguments": {"level": 3}' in trained
    assert '\\"level\\"' not in whole and "{'level'" not in whole


def test_nulls_that_columns_add_vanish_and_true_ones_in_text_stay(tmp_path):
    """Parquet gives each row's objects the keys of all rows' objects."""
    other = {
        **TOOL,
        "function": {
            **SCHEMA,
            "name": "set",
            "parameters": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
    }
    text = '{"stop": null, "near": [null, {"deep": null}]}'
    rows = (
        {"tools": [TOOL], **_calling({"stop": "Tarn"})},
        {"tools": [other], **_calling({"x": 1.5, "list": ["a"]}), "note": "only here"},
        {"tools": None, **_calling({})},
    )
    lines, table = _files(tmp_path, rows)
    for number, (plain, columnar) in enumerate(zip(read_records(lines), read_records(table), strict=True)):
        assert parse_conversation(plain).messages == parse_conversation(columnar).messages, number
    tools = [parse_conversation(record).tools for record in read_records(table)]
    assert tools[0] == (TOOL,) and tools[2] == ()
    assert "stop" not in json.dumps(tools[1])
    in_text = ({"tools": '[{"type": "function", "function": {"name": "f", "default": null}}]', **_calling(text)},)
    for file in _files(tmp_path, in_text):
        (record,) = read_records(file)
        conversation = parse_conversation(record)
        assert write_json(conversation.messages[1].tool_calls[0].arguments) == text
        assert conversation.tools[0]["function"] == {"name": "f", "default": None}


def _calling(arguments: object) -> dict:
    return {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [_called(arguments)]},
        ]
    }


def test_nulls_in_the_arguments_of_json_lines_are_true(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps(_calling({"stop": None, "deep": [{"x": None}]})) + "\n")
    (record,) = read_records(tmp_path / "rows.jsonl")
    assert parse_conversation(record).messages[1].tool_calls[0].arguments == {"stop": None, "deep": [{"x": None}]}
