"""The files of a data set, on the disk or in an archive: opens them, finds what lies beside them. Knows no format."""

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import pyarrow as pa

from burnish.data.ledger import RowFault
from burnish.errors import DataError

UNPACKERS: dict[str, Callable[[io.BufferedReader], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": lambda raw: pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"),
}
"""By suffix, what reads a compressed file as a stream."""

_BUFFER_BYTES = 1 << 18

UNPACKING_FAULTS = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""What they say of a file that is cut off or was never compressed."""


class DataFile(Protocol):
    @property
    def name(self) -> str:
        """Relative to the data set, as errors name it: `data/train.jsonl`, `all.zip/train.jsonl`."""
        ...

    @property
    def path(self) -> Path:
        """What holds its bytes on the disk: the file itself, or its archive."""
        ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    def open(self) -> io.BufferedReader: ...

    def on_disk(self) -> AbstractContextManager[Path]:
        """A file that holds just its bytes, for as long as it is read."""
        ...

    def beside(self, reference: str) -> "DataFile":
        """What a row of this file calls `reference`: relative to its folder. `RowFault` if that is no file of the
        data set; nothing outside is opened."""
        ...


@dataclass(frozen=True)
class DiskFile:
    root: Path
    """The folder of the data set."""
    name: str
    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def open(self) -> io.BufferedReader:
        # A pipe would wait for a writer for ever, and a device may have no end.
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise DataError(f"{self.name} is a pipe or a device, not a file.", hint="Put a file there.")
        return io.BufferedReader(self.path.open("rb", buffering=0), _BUFFER_BYTES)

    def on_disk(self) -> AbstractContextManager[Path]:
        return nullcontext(self.path)

    def beside(self, reference: str) -> "DiskFile":
        name = name_beside(self.name, reference)
        try:
            real = (self.root / name).resolve()
            kind = real.stat().st_mode
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise missing(reference) from error
        if not any(real.is_relative_to(wall) for wall in _walls(self.root)):
            raise outside(reference)
        if not stat.S_ISREG(kind):
            raise RowFault(f"{shown(reference)} is not a file")
        return DiskFile(self.root, name, real)


@contextmanager
def spooled(file: DataFile) -> Iterator[Path]:
    """A copy of a member for as long as it is read, for formats that jump about in it."""
    with tempfile.NamedTemporaryFile(prefix="burnish-") as copy:
        with file.open() as packed:
            shutil.copyfileobj(packed, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


def file_stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time of every file below, sorted: what tells that an image has changed, without reading it."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place) / name
            with suppress(OSError):  # a link to nowhere
                facts = path.stat()
                found.append((path.relative_to(folder).as_posix(), facts.st_size, facts.st_mtime_ns))
    return sorted(found)


def legible(name: str) -> str:
    """The name, with bytes that are no UTF-8 spelt out, as reports and databases hold text alone: `tr\\xffain`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def name_beside(name: str, reference: str) -> str:
    """Where a reference leads from the file `name`, told from the letters alone. `RowFault` if that is outside."""
    if re.match(r"https?://", reference, re.IGNORECASE):
        raise RowFault(f"{shown(reference)} is an address, and nothing is fetched; put the file into the data set")
    if reference.startswith(("/", "\\")) or re.match(r"[A-Za-z][\w+.-]*:", reference):
        raise outside(reference)
    parts = list(PurePosixPath(name).parent.parts)
    for part in PurePosixPath(reference).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise outside(reference)
    if "\0" in reference or not reference:
        raise missing(reference)
    return "/".join(parts)


def outside(reference: str) -> RowFault:
    return RowFault(f"{shown(reference)} lies outside the data set")


def missing(reference: str) -> RowFault:
    return RowFault(f"{shown(reference)} is missing: there is no such file beside the data file")


def shown(reference: str, most: int = 80) -> str:
    return repr(reference if len(reference) <= most else reference[:most] + "...")


@lru_cache(maxsize=64)
def _walls(root: Path) -> tuple[Path, ...]:
    """Folders that are part of the data set. In the hub's cache a snapshot is a folder of links to blobs beside it."""
    real = root.resolve()
    for folder in (real, *real.parents):
        if folder.name == "snapshots" and (folder.parent / "blobs").is_dir():
            return (real, folder.parent / "blobs")
    return (real,)
