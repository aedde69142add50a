"""JSON as it was written: numbers keep their spelling, and no key is lost to its double. Knows nothing of rows."""

import json
import re
from typing import Any

import orjson

# An integer of more than 64 bits, or a number that Python would print otherwise: `1e5`, `2.50`, `0.00001`.
_ODD_NUMBER = re.compile(rb"[0-9](?:[0-9]{16}|[eE][-+]?[0-9]|\.(?:0000|[0-9]+0(?![0-9.])))")


class SpeltNumber(float):
    """A number that Python would print otherwise than it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "SpeltNumber":
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type["SpeltNumber"], tuple[str]]:
        return SpeltNumber, (self.text,)


class JsonFault(ValueError):
    """Why a text is no JSON that can be used."""


def read_json(text: bytes) -> Any:
    """The value. `JsonFault` for what no JSON may hold (NaN, half a surrogate pair) and for a key that stands twice."""
    try:
        value = orjson.loads(text)
        if _ODD_NUMBER.search(text) or _has_doubles(text, value):
            return json.loads(text, parse_float=_number, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise JsonFault(_why(text, error)) from error
    except RecursionError as error:
        raise JsonFault("nested too deep") from error
    return value


def _why(text: bytes, error: json.JSONDecodeError) -> str:
    """In the words of whoever wrote the text by hand or by a program, where the fault is one that many make."""
    try:
        text.decode()
    except UnicodeDecodeError as fault:
        return f"byte {fault.object[fault.start]:#04x} is no UTF-8, at byte {fault.start + 1}"
    if found := _NO_NUMBER.match(error.doc, max(0, error.pos - 1)):
        return f"{found[1]} is no number there, at column {error.colno}"
    return f"{error.msg} at column {error.colno}"


_NO_NUMBER = re.compile(r"[^\w\"-]?(-?(?:NaN|Infinity))\b")
"""As Python writes them. A sign may be the letter before the fault."""


def write_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As `json.dumps` does, in any script, with numbers as they were written."""

    def dump(each: Any) -> str:
        return json.dumps(each, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    text = dump(value)
    if not _holds_spelt(value):
        return text
    mark = "#"
    while mark in text:
        mark += "#"
    numbers: list[str] = []
    marked = dump(_marked(value, mark, numbers))
    return re.sub(f'"{mark}([0-9]+)"', lambda found: numbers[int(found[1])], marked)


def _marked(value: Any, mark: str, numbers: list[str]) -> Any:
    """The value with a text of its own in the place of each spelt number."""
    match value:
        case SpeltNumber():
            numbers.append(value.text)
            return f"{mark}{len(numbers) - 1}"
        case dict():
            return {key: _marked(each, mark, numbers) for key, each in value.items()}
        case list() | tuple():
            return [_marked(each, mark, numbers) for each in value]
        case _:
            return value


def _holds_spelt(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_holds_spelt, value.values()))
        case list() | tuple():
            return any(map(_holds_spelt, value))
        case _:
            return isinstance(value, SpeltNumber)


def _has_doubles(text: bytes, value: Any) -> bool:
    """Whether more keys may have been written than were kept.

    `":` ends a key, or stands in a string, where its quote is escaped on both sides: what is written again holds as
    many, unless a key is gone. Much cheaper than hearing of every key.
    """
    try:
        again = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True  # nested deeper than orjson writes
    if b"\\u" not in text:
        # Then no colon in a string was written otherwise, and counting all colons is quicker.
        return text.count(b":") > again.count(b":")
    return len(_KEY_END.findall(text)) > len(_KEY_END.findall(again))


_KEY_END = re.compile(rb'"[ \t\r\n]*:')


def _number(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else SpeltNumber(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise JsonFault(f"the key {double[:40]!r} stands there twice")
    return made
