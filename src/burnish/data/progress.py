"""How far the reading of a data set has come, in bytes of its files. Knows no format."""

import io
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from burnish.data.files import DataFile

OnProgress = Callable[[int, int, int, int], None]
"""Told every so often: bytes done and bytes in all, conversations and tokens written."""


class Reading:
    """Counts bytes as files are read. A file that is mapped rather than read counts when the next is opened."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._before = 0
        self._size = 0
        self._here = 0

    def expect(self, files: Iterable[DataFile]) -> Callable[[DataFile], DataFile]:
        """Files that will be read. Gives what turns each into one that tells of it."""
        self.total_bytes = sum(file.size for file in files)
        return lambda file: _Watched(file, self)

    @property
    def done_bytes(self) -> int:
        return self._before + min(self._here, self._size)

    def begin(self, size: int) -> None:
        self._before, self._size, self._here = self._before + self._size, size, 0

    def advance(self, count: int) -> None:
        self._here += count


@dataclass(frozen=True)
class _Watched:
    file: DataFile
    reading: Reading

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def size(self) -> int:
        return self.file.size

    def open(self) -> io.BufferedReader:
        self.reading.begin(self.size)
        return io.BufferedReader(_Counted(self.file.open(), self.reading), _BUFFER_BYTES)

    def on_disk(self) -> AbstractContextManager[Path]:
        self.reading.begin(self.size)
        return self.file.on_disk()

    def beside(self, reference: str) -> DataFile:
        return self.file.beside(reference)


_BUFFER_BYTES = 1 << 18


class _Counted(io.RawIOBase):
    def __init__(self, opened: io.BufferedReader, reading: Reading) -> None:
        self._opened = opened
        self._reading = reading

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._opened.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._opened.seek(offset, whence)

    def tell(self) -> int:
        return self._opened.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._opened.readinto1(buffer)
        self._reading.advance(count)
        return count

    def close(self) -> None:
        self._opened.close()
        super().close()
