import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.data.json_text import JsonFault, read_json, write_json

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@settings(max_examples=50)
@given(VALUES)
def test_what_is_written_reads_back(value):
    assert read_json(write_json(value).encode()) == value
    assert write_json(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"z": 1, "a": 1.0, "m": 1e5}',
        '{"a": 2.50, "b": [0.00001, 1E+3, -0.0, 12345678901234567.5, 10000000000000000.0]}',
        '{"n": 123456789012345678901234567890, "deep": {"null": null, "list": [null, {"x": null}]}}',
        '{"é": "\u2028 日本 😀", "\\"": "\\\\ \\n"}',
        "[3.14159265358979323846264338327950288]",
        '{"#0": "#1", "##": "##0", "n": [1e5, "#0"]}',
    ],
)
def test_text_survives_to_the_letter(text):
    assert write_json(read_json(text.encode())) == text
    assert write_json(pickle.loads(pickle.dumps(read_json(text.encode())))) == text
    assert write_json(read_json(text.encode()), separators=(",", ":")) == text.replace(", ", ",").replace(": ", ":")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' stands there twice"),
        ('{"a" :1, "a"\t\n: 1}', "the key 'a' stands there twice"),
        ('{"a": "x\\": y", "a": 3}', "the key 'a' stands there twice"),
        ('[{"a": 1e5, "a": 1e5}]', "the key 'a' stands there twice"),
        ('{"a": NaN}', "at column 7"),
        ("[-Infinity]", "at column"),
        ("1e999", "infinity"),
        ('"\\ud800"', "surrogate"),
        ('"\x00"', "at column"),
        ("[" * 5000 + "]" * 5000, "depth"),
        ("1" + "0" * 5000, "infinity"),
        ("", "at column 1"),
    ],
)
def test_what_is_no_json_says_why(text, reason):
    with pytest.raises(JsonFault, match=reason):
        read_json(text.encode())


@settings(max_examples=50)
@given(st.recursive(LEAVES, lambda inner: st.dictionaries(st.text(max_size=3), inner)), st.text(max_size=3))
def test_a_key_that_stands_twice_is_found_wherever_it_is(value, key):
    text = f'{{{json.dumps(key)}: {json.dumps(value)}, "other": 0, {json.dumps(key)}: 1}}'
    with pytest.raises(JsonFault, match="twice"):
        read_json(text.encode())
