"""Members of zip and tar archives, opened one at a time. Nothing is unpacked into a folder, so none lands outside."""

import io
import posixpath
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from burnish.data.files import UNPACKERS, UNPACKING_FAULTS, legible, missing, name_beside, spooled
from burnish.errors import DataError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst")
_SHORT = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
_FAULTS = (*UNPACKING_FAULTS, zipfile.BadZipFile, tarfile.TarError, NotImplementedError)
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Archive:
    path: Path
    name: str
    """Relative to the data set."""
    sizes: dict[str, int]
    """Bytes of each member that is a file, unpacked."""
    open_member: Callable[[str], IO[bytes]]

    def members(self) -> list["Member"]:
        return [Member(self, member) for member in self.sizes]


@dataclass(frozen=True)
class Member:
    """A file in an archive."""

    archive: Archive
    member: str

    @property
    def name(self) -> str:
        return f"{self.archive.name}/{legible(self.member)}"

    @property
    def path(self) -> Path:
        return self.archive.path

    @property
    def size(self) -> int:
        return self.archive.sizes[self.member]

    def open(self) -> io.BufferedReader:
        try:
            return io.BufferedReader(_Guarded(self.archive.open_member(self.member), self.name))
        except _FAULTS as error:
            raise _broken(self.name, error) from error

    def on_disk(self) -> AbstractContextManager[Path]:
        return spooled(self)

    def beside(self, reference: str) -> "Member":
        member = name_beside(self.member, reference)
        if member not in self.archive.sizes:
            raise missing(reference)
        return Member(self.archive, member)


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def open_archive(path: Path, name: str, *, most_bytes: int | None = None) -> Archive:
    """Its members by name. `DataError` for one that is broken, encrypted, unpacks to more than `most_bytes`, or holds
    what is no file of its own: a path or a link that leads out, a device.

    Unless told otherwise it may unpack to 4 GiB, and beyond that to 250 times its size: text packs tenfold.
    """
    most = most_bytes or max(4 << 30, 250 * path.stat().st_size)
    try:
        if name.lower().endswith(".zip"):
            return _open_zip(path, name, most)
        return _open_tar(path, name, most)
    except _FAULTS as error:
        raise _broken(name, error) from error


def _open_zip(path: Path, name: str, most: int) -> Archive:
    packed = zipfile.ZipFile(path)
    found: dict[str, zipfile.ZipInfo] = {}
    links: dict[str, str] = {}
    for info in packed.infolist():
        member = _safe(name, info.filename)
        if info.is_dir():
            continue
        if info.flag_bits & 1:
            raise DataError(f"{name} is encrypted.", hint="Put it without a password.")
        if stat.S_ISLNK(info.external_attr >> 16):
            links[member] = _linked(name, member, packed.open(info).read(4096).decode("utf-8", "replace"))
        else:
            found[member] = info
    _bound(name, sum(info.file_size for info in found.values()), most)
    found |= {link: found[target] for link, target in links.items() if target in found}
    sizes = {member: info.file_size for member, info in found.items()}
    return Archive(path, name, sizes, lambda member: packed.open(found[member]))


def _open_tar(path: Path, name: str, most: int) -> Archive:
    packed = tarfile.open(fileobj=_plain_tar(path, name, most), mode="r:")  # noqa: SIM115 (members are read from it)
    found: dict[str, tarfile.TarInfo] = {}
    links: dict[str, str] = {}
    for info in packed:
        member = _safe(name, info.name)
        if info.isreg():
            found[member] = info
        elif info.islnk():
            links[member] = _safe(name, info.linkname)
        elif info.issym():
            links[member] = _linked(name, member, info.linkname)
        elif not info.isdir():
            raise DataError(f"{name} holds {member!r}, which is a pipe or a device.", hint=_ONLY_FILES)
    _bound(name, sum(info.size for info in found.values()), most)
    found |= {link: found[target] for link, target in links.items() if target in found}
    sizes = {member: info.size for member, info in found.items()}

    def open_member(member: str) -> IO[bytes]:
        opened = packed.extractfile(found[member])
        assert opened is not None  # it is a regular file
        return opened

    return Archive(path, name, sizes, open_member)


def _plain_tar(path: Path, name: str, most: int) -> IO[bytes]:
    """The tar itself, unpacked where need be into a file without a name, which is gone when it is closed."""
    raw = path.open("rb")
    unpack = UNPACKERS.get(_SHORT.get(path.suffix.lower(), path.suffix.lower()))
    if unpack is None:
        return raw
    plain = tempfile.TemporaryFile(prefix="burnish-")  # noqa: SIM115 (members are read from it)
    with raw, unpack(raw) as stream:
        for piece in _pieces(stream):
            plain.write(piece)
            _bound(name, plain.tell(), most)
    plain.seek(0)
    return plain


def _pieces(stream: Any) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece


def _safe(name: str, member: str) -> str:
    """The member's name without `./`; `DataError` if it leads out of the archive."""
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member or member[1:2] == ":":
        raise DataError(f"{name} holds {member!r}, which would lie outside of it.", hint=_ONLY_FILES)
    return path.as_posix()


def _linked(name: str, member: str, target: str) -> str:
    led = posixpath.normpath(posixpath.join(posixpath.dirname(member), target))
    if led.startswith(("/", "..")):
        raise DataError(f"{name} holds {member!r}, a link that leads out of it.", hint=_ONLY_FILES)
    return led


_ONLY_FILES = "Pack the files themselves, with names relative to the data set."


def _bound(name: str, total: int, most: int) -> None:
    if total > most:
        raise DataError(
            f"{name} unpacks to more than {most / 2**30:.1f} GiB, which is refused.", hint="Put it unpacked."
        )


class _Guarded(io.RawIOBase):
    """A member's stream, in which what is broken is said by name."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except _FAULTS as error:
            raise _broken(self._name, error) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _broken(name: str, error: Exception) -> DataError:
    return DataError(
        f"{name} cannot be unpacked ({str(error) or type(error).__name__}).",
        hint="The file may have been cut off on its way; put it again.",
    )
