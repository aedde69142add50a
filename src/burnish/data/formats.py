"""How each file format becomes records, one at a time, with the line or row each came from."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from burnish.data.ledger import BadRow
from burnish.errors import DataError

_BATCH_ROWS = 512
_FIELD_BYTES = 1 << 30
# Perhaps an integer of more than 64 bits.
_LONG_NUMBER = re.compile(rb"[0-9]{19}")

# Columns whose lists are turns of one row, not rows.
_COLUMNS = ("messages", "conversations", "prompt", "completion")

OnBad = Callable[[BadRow], None]


@dataclass(frozen=True, slots=True)
class Record:
    """One raw row."""

    value: dict[str, Any]
    file: str
    """Relative to the dataset."""
    line: int
    """1-based: the line in text formats, the row in binary ones."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def is_readable(path: Path) -> bool:
    return path.suffix.lower() in READERS


def read_file(path: Path, name: str, on_bad: OnBad) -> Iterator[Record]:
    """Every record of a file, which errors call `name`. What is none goes to `on_bad`."""
    try:
        yield from READERS[path.suffix.lower()](path, name, on_bad)
    except OSError as error:
        raise DataError(f"{name} cannot be read ({error.strerror or error}).", hint="Put it again.") from error


def _read_jsonl(path: Path, name: str, on_bad: OnBad) -> Iterator[Record]:
    # Binary lines end at \n alone, so U+2028 and \r inside a string split nothing.
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.isspace() or not text:
                continue
            try:
                value = _loads(text)
            except json.JSONDecodeError as error:
                on_bad(BadRow(f"{name}:{number}", _json_fault(error, cut=not line.endswith(b"\n"))))
                continue
            if isinstance(value, dict):
                yield Record(value, name, number)
            else:
                on_bad(BadRow(f"{name}:{number}", f"{_kind(value)}, not an object"))


def _read_json(path: Path, name: str, on_bad: OnBad) -> Iterator[Record]:
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        value = _loads(data) if data.strip() else []
    except json.JSONDecodeError as error:
        if data.lstrip()[:1] == b"{" and b"\n" in data.strip():
            # JSON lines under the name of JSON are common on hubs.
            yield from _read_jsonl(path, name, on_bad)
            return
        on_bad(BadRow(f"{name}:1", _json_fault(error, cut=False)))
        return
    for number, row in enumerate(_rows_of(value), start=1):
        if isinstance(row, dict):
            yield Record(row, name, number)
        else:
            on_bad(BadRow(f"{name}:{number}", f"{_kind(row)}, not an object"))


# Arrow says OSError of a page that does not unpack, and Python finds text that is no UTF-8.
_ARROW_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)


def _read_parquet(path: Path, name: str, on_bad: OnBad) -> Iterator[Record]:
    try:
        with pq.ParquetFile(path) as file:
            yield from _numbered(file.iter_batches(batch_size=_BATCH_ROWS), name)
    except _ARROW_FAULTS as error:
        raise _broken(name, "parquet", error) from error


def _read_arrow(path: Path, name: str, on_bad: OnBad) -> Iterator[Record]:
    with pa.memory_map(str(path)) as source:
        try:
            yield from _numbered(_arrow_batches(source), name)
        except _ARROW_FAULTS as error:
            raise _broken(name, "arrow", error) from error


def _arrow_batches(source: pa.MemoryMappedFile) -> Iterator[pa.RecordBatch]:
    if source.size() == 0:
        return
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        # `Dataset.save_to_disk` writes the stream form.
        source.seek(0)
        yield from pa.ipc.open_stream(source)
        return
    for index in range(file.num_record_batches):
        yield file.get_batch(index)


def _read_csv(path: Path, name: str, on_bad: OnBad) -> Iterator[Record]:
    csv.field_size_limit(_FIELD_BYTES)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=delimiter)
            header: list[str] | None = None
            line = 1
            for row in rows:
                if row and header is None:
                    header = row
                elif row and header is not None and len(row) > len(header):
                    on_bad(BadRow(f"{name}:{line}", f"{len(row)} fields, but the header names {len(header)}"))
                elif row and header is not None:
                    yield Record(dict(zip(header, row, strict=False)), name, line)
                line = rows.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise _broken(name, "CSV", error) from error


READERS: dict[str, Callable[[Path, str, OnBad], Iterator[Record]]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".csv": _read_csv,
    ".tsv": _read_csv,
}


def _numbered(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[Record]:
    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            for row in batch.slice(start, _BATCH_ROWS).to_pylist():
                number += 1
                yield Record(row, name, number)


def _rows_of(value: Any) -> Iterable[Any]:
    """A list of rows, an object that holds one under some key, or one row."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        lists = [rows for key, rows in value.items() if key not in _COLUMNS and _is_rows(rows)]
        if len(lists) == 1:
            return lists[0]
    return [value]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _loads(text: bytes) -> Any:
    """orjson's value, which refuses what no JSON may hold; but an integer of more than 64 bits stays one."""
    value = orjson.loads(text)
    if not _LONG_NUMBER.search(text):
        return value
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as error:
        raise json.JSONDecodeError("too deep, or a number too long", "", 0) from error


def _json_fault(error: json.JSONDecodeError, *, cut: bool) -> str:
    after = "; the line has no end, as in a file that was cut off" if cut else ""
    return f"not valid JSON ({error.msg} at column {error.colno}{after})"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {str: "a string", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")


def _broken(name: str, kind: str, error: Exception) -> DataError:
    return DataError(
        f"{name} cannot be read as {kind} ({str(error).splitlines()[0]}).",
        hint="The file may have been cut off on its way; put it again.",
    )
