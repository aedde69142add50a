"""How each file format becomes records, one at a time, with the line or row each came from."""

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from burnish.data.files import UNPACKERS, UNPACKING_FAULTS, DataFile
from burnish.data.json_text import JsonFault, read_json
from burnish.data.ledger import BadRow
from burnish.data.private_text import cover_private
from burnish.errors import DataError

LINE_BYTES = 256 << 20
"""The longest line: a file without line ends must not fill the memory."""
_OBJECT_BYTES = 1 << 30
"""The largest JSON object that holds rows: a list is read row by row, an object as a whole."""
_BATCH_ROWS = 512
_BATCH_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20

# Columns whose lists are turns of one row, not rows.
_COLUMNS = ("messages", "conversations", "prompt", "completion", "response")

OnBad = Callable[[BadRow], None]
Numbered = Iterator[tuple[dict[str, Any], int]]
"""Rows with their lines."""


@dataclass(frozen=True, slots=True)
class Record:
    """One raw row."""

    value: dict[str, Any]
    file: str
    """Relative to the dataset; of a member of an archive, `all.zip/train.jsonl`."""
    line: int
    """1-based: the line in text formats, the row in JSON lists and binary ones."""
    source: str = ""
    """The subset and split it is read for: `en/train`."""
    origin: DataFile | None = field(default=None, compare=False, repr=False)
    """The file again, for what lies beside it; None for a row that is in no file."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def is_readable(name: str) -> bool:
    return _suffixes(name)[0] in READERS


def read_file(file: DataFile, on_bad: OnBad, source: str = "") -> Iterator[Record]:
    """Every record of a file. What is none goes to `on_bad`; `DataError` for a file that is broken as a whole."""
    try:
        for value, line in READERS[_suffixes(file.name)[0]](file, on_bad):
            yield Record(value, file.name, line, source, file)
    except PermissionError as error:
        raise DataError(f"{file.name} cannot be read ({error.strerror}).", hint="Allow it to be read.") from error
    except UNPACKING_FAULTS as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{file.name} cannot be read ({reason}).", hint=_AGAIN) from error


_AGAIN = "The file may have been cut off on its way; put it again."


def _suffixes(name: str) -> tuple[str, str]:
    """`train.jsonl.gz` -> `.jsonl`, `.gz`; of formats that pack themselves, the second is empty."""
    path = PurePosixPath(name.lower())
    if path.suffix in UNPACKERS and PurePosixPath(path.stem).suffix in _TEXT_READERS:
        return PurePosixPath(path.stem).suffix, path.suffix
    return path.suffix, ""


def _open_text(file: DataFile) -> io.BufferedReader:
    """The bytes of a text file, unpacked. `DataError` for what is no UTF-8 text by its first bytes."""
    packing = _suffixes(file.name)[1]
    raw = file.open()
    opened = io.BufferedReader(UNPACKERS[packing](raw), _PIECE_BYTES) if packing else raw
    if reason := _not_text(opened.peek(64)[:64]):
        opened.close()
        raise DataError(f"{file.name} {reason[0]}.", hint=reason[1])
    return opened


def _not_text(head: bytes) -> tuple[str, str] | None:
    """What the first bytes tell, and what to do about it."""
    for mark, kind, suffix in _PACKED:
        if head.startswith(mark):
            return f"is {kind}, not text", f"Name it for what it is: {suffix}."
    if head.startswith(_GIT_LFS):
        return _IS_POINTER
    if head and not head[:8].strip(b"\0"):
        return "begins with zeros, not with text", _AGAIN
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or 0 in head[:4]:
        return "is UTF-16 or UTF-32 text", "Save it as UTF-8."
    return None


_PACKED = (
    (b"\x1f\x8b", "compressed with gzip", ".jsonl.gz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", ".jsonl.zst"),
    (b"PK\x03\x04", "a zip archive", ".zip"),
    (b"PAR1", "parquet", ".parquet"),
    (b"ARROW1", "arrow", ".arrow"),
)
_GIT_LFS = b"version https://git-lfs.github.com/spec/"
_IS_POINTER = "is a pointer of Git LFS, not the data", "Fetch the data (git lfs pull, hf download) and put it again."


def _read_jsonl(file: DataFile, on_bad: OnBad) -> Numbered:
    with _open_text(file) as opened:
        for number, line in _lines(opened):
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if text.isspace() or not text:
                continue
            if len(text) > LINE_BYTES:
                on_bad(BadRow(f"{file.name}:{number}", f"a line of more than {LINE_BYTES >> 20} MiB"))
                continue
            try:
                value = read_json(text)
            except JsonFault as fault:
                reason = _json_fault(fault, cut=not line.endswith(b"\n"))
                on_bad(BadRow(f"{file.name}:{number}", reason + _list_note(text, number)))
                continue
            if isinstance(value, dict):
                yield value, number
            else:
                on_bad(BadRow(f"{file.name}:{number}", f"{_kind(value)}, not an object{_list_note(text, number)}"))


def _list_note(text: bytes, number: int) -> str:
    begins = number == 1 and text.lstrip().startswith(b"[")
    return "; a file that is one list of rows is to be named .json" if begins else ""


def _lines(opened: io.BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Lines end at \\n alone, so U+2028 and \\r inside a string split nothing. Of one too long, the beginning."""
    number = 0
    while line := opened.readline(LINE_BYTES + 1):
        number += 1
        rest = line
        while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
            rest = opened.readline(LINE_BYTES + 1)
        yield number, line


def _read_json(file: DataFile, on_bad: OnBad) -> Numbered:
    """A list of rows, an object that holds one under some key, one row, or JSON lines under the name of JSON."""
    with _open_text(file) as opened:
        head = opened.peek(_PIECE_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
        if head[:1] == b"[":
            yield from _rows(file.name, _list_items(opened), on_bad)
            return
        first = opened.readline(_OBJECT_BYTES)
        lines = _is_object(first.removeprefix(codecs.BOM_UTF8)) and bool(opened.peek(64).strip())
        data = b"" if lines else (first + opened.read(_OBJECT_BYTES - len(first))).removeprefix(codecs.BOM_UTF8)
    if lines:
        yield from _read_jsonl(file, on_bad)
        return
    if len(data) >= _OBJECT_BYTES - len(codecs.BOM_UTF8):
        raise DataError(f"{file.name} is one JSON object of 1 GiB or more.", hint="Write a row a line: .jsonl.")
    try:
        value = read_json(data) if data.strip() else []
    except JsonFault as fault:
        on_bad(BadRow(f"{file.name}:1", _json_fault(fault, cut=False)))
        return
    yield from _rows(file.name, iter(_rows_of(value)), on_bad)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(read_json(line), dict)
    except JsonFault:
        return False


def _rows(name: str, values: Iterator[Any], on_bad: OnBad) -> Numbered:
    number = 0
    while True:
        number += 1
        try:
            value = next(values)
        except StopIteration:
            return
        except JsonFault as fault:
            on_bad(BadRow(f"{name}:{number}", f"{_json_fault(fault, cut=False)}; nothing after it can be read"))
            return
        if isinstance(value, JsonFault):
            on_bad(BadRow(f"{name}:{number}", _json_fault(value, cut=False)))
        elif isinstance(value, dict):
            yield value, number
        else:
            on_bad(BadRow(f"{name}:{number}", f"{_kind(value)}, not an object"))


def _list_items(opened: io.BufferedReader) -> Iterator[Any]:
    """The items of a JSON list, one at a time, holding little more than one; of an item that no row may be, its fault.

    `JsonFault` where the list breaks off.
    """
    buffer = _JsonBuffer(opened)
    buffer.take("[")
    if buffer.letter() != "]":
        while True:
            yield buffer.value()
            if buffer.take(",]") == "]":
                break
    else:
        buffer.take("]")
    if rest := buffer.letter():
        raise JsonFault(f"{rest!r} after the end of the list")


class _JsonBuffer:
    """As much of a JSON text as has been read and not yet used."""

    def __init__(self, opened: io.BufferedReader) -> None:
        self._opened = opened
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False

    def letter(self) -> str:
        """The next one that is no space; nothing at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._read()

    def take(self, allowed: str) -> str:
        letter = self.letter()
        if not letter:
            raise JsonFault("the list has no end, as in a file that was cut off")
        if letter not in allowed:
            raise JsonFault(f"{letter!r} where {' or '.join(map(repr, allowed))} is due")
        self._at += 1
        return letter

    def value(self) -> Any:
        self.letter()
        while True:
            try:
                _, end = self._scan(self._text, self._at)
            except RecursionError as error:
                raise JsonFault("nested too deep") from error
            except json.JSONDecodeError as error:
                waits = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _LONGEST_WORD
                if self._ended or not waits or len(self._text) > LINE_BYTES:
                    raise JsonFault(error.msg) from error
            else:
                if end < len(self._text) or self._ended:  # else a number may go on
                    text, self._at = self._text[self._at : end], end
                    try:
                        return read_json(text.encode())
                    except JsonFault as fault:
                        return fault
            self._read()

    def _read(self) -> None:
        # A value is begun again when more of it is there, so each time as much again is read.
        piece = self._opened.read(max(_PIECE_BYTES, len(self._text) - self._at))
        self._ended = not piece
        try:
            self._text = self._text[self._at :] + self._decode(piece, final=self._ended)
        except UnicodeDecodeError as error:
            raise JsonFault(f"not UTF-8 ({error.reason})") from error
        self._at = 0


_LONGEST_WORD = len("-Infinity")


# Arrow says OSError of a page that does not unpack; Python finds text that is no UTF-8, dates that it cannot count to
# and fields that are there twice.
_ARROW_FAULTS = (pa.ArrowException, OSError, ValueError, OverflowError)


def _read_parquet(file: DataFile, on_bad: OnBad) -> Numbered:
    with _on_disk(file) as path:
        try:
            with pq.ParquetFile(path) as opened:
                facts = opened.metadata
                size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
                rows = _rows_at_once(size, facts.num_rows)
                yield from _numbered(opened.iter_batches(batch_size=rows))
        except _ARROW_FAULTS as error:
            raise _broken(file.name, "parquet", error) from error


def _read_arrow(file: DataFile, on_bad: OnBad) -> Numbered:
    with _on_disk(file) as path:
        if path.stat().st_size == 0:
            return
        try:
            with pa.memory_map(str(path)) as source:
                yield from _numbered(_arrow_batches(source))
        except _ARROW_FAULTS as error:
            raise _broken(file.name, "arrow", error) from error


@contextmanager
def _on_disk(file: DataFile) -> Iterator[Path]:
    with file.open() as opened:
        if opened.peek(64).startswith(_GIT_LFS):
            raise DataError(f"{file.name} {_IS_POINTER[0]}.", hint=_IS_POINTER[1])
    with file.on_disk() as path:
        yield path


def _arrow_batches(source: pa.MemoryMappedFile) -> Iterator[pa.RecordBatch]:
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        # `Dataset.save_to_disk` writes the stream form.
        source.seek(0)
        yield from pa.ipc.open_stream(source)
        return
    for index in range(file.num_record_batches):
        yield file.get_batch(index)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Numbered:
    number = 0
    for batch in batches:
        if double := _double(batch.schema.names):
            raise ValueError(f"two columns are called {double[:40]!r}")
        rows = _rows_at_once(batch.nbytes, batch.num_rows)
        for start in range(0, batch.num_rows, rows):
            for row in batch.slice(start, rows).to_pylist():
                number += 1
                yield _without_added_nulls(row), number


def _rows_at_once(size: int, rows: int) -> int:
    """As many as are a moment's memory, be they pictures."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // size if size else _BATCH_ROWS))


def _without_added_nulls(value: Any) -> Any:
    """Columns of objects have the keys of all rows in each, null where a row has none: those vanish."""
    if isinstance(value, dict):
        return {key: _without_added_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_added_nulls(each) for each in value]
    return value


def _read_csv(file: DataFile, on_bad: OnBad) -> Numbered:
    csv.field_size_limit(LINE_BYTES)
    delimiter = "\t" if _suffixes(file.name)[0] == ".tsv" else ","
    with _open_text(file) as opened:
        lines = io.TextIOWrapper(opened, encoding="utf-8-sig", newline="")
        rows = csv.reader(lines, delimiter=delimiter, strict=True)
        header: list[str] | None = None
        while True:
            line = rows.line_num + 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                on_bad(BadRow(f"{file.name}:{line}", f"not valid CSV ({error})"))
                continue
            except UnicodeDecodeError as error:
                raise _broken(file.name, "CSV", error) from error
            if not row:
                continue
            if header is None:
                header = _header(row, file.name)
            elif len(row) > len(header):
                on_bad(BadRow(f"{file.name}:{line}", f"{len(row)} fields, but the header names {len(header)}"))
            else:
                yield dict(zip(header, row, strict=False)), line


def _header(row: list[str], name: str) -> list[str]:
    if double := _double(row):
        raise DataError(
            f"{name}: the header names {cover_private(double)[:40]!r} twice.",
            hint="The first line of a CSV file names its columns.",
        )
    return row


def _double(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


_TEXT_READERS: dict[str, Callable[[DataFile, OnBad], Numbered]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_csv,
}
READERS: dict[str, Callable[[DataFile, OnBad], Numbered]] = {
    **_TEXT_READERS,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
}
"""By suffix. Text may be compressed as well: `.jsonl.gz`."""


def _rows_of(value: Any) -> Iterable[Any]:
    """A list of rows, an object that holds one under some key, or one row."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        lists = [rows for key, rows in value.items() if key not in _COLUMNS and _is_rows(rows)]
        if len(lists) == 1 and not any(value.get(column) is not None for column in (*_COLUMNS, "text", "output")):
            return lists[0]
    return [value]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _json_fault(fault: JsonFault, *, cut: bool) -> str:
    after = "; the line has no end, as in a file that was cut off" if cut else ""
    return f"not valid JSON ({fault}{after})"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {str: "a string", bool: "a truth value", int: "a number", list: "a list"}
    return names.get(type(value), "a number" if isinstance(value, float) else f"a {type(value).__name__}")


def _broken(name: str, kind: str, error: Exception) -> DataError:
    said = (str(error) or type(error).__name__).splitlines()[0]
    return DataError(f"{name} cannot be read as {kind} ({said}).", hint=_AGAIN)
