"""A folder that nobody leaves: every step down is a descriptor, and no symbolic link is followed.

Knows no volume, no size limit and no database; a path here is relative to the root it is given.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from burnish.errors import NotFound, VolumeError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO would make a plain open wait for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

PRIVATE = ".burnish"
"""At the root: uploads on their way and what is being deleted. Never listed, never measured."""

DEEPEST = 100
"""Folders above a file. Far beyond what people make, far below what the walk can hold open."""


@dataclass(frozen=True)
class Found:
    """A file or a folder, as it was when it was looked at."""

    path: PurePosixPath
    is_folder: bool
    size_bytes: int
    """Of a folder: of all regular files under it."""
    modified_at: float
    """Seconds since 1970."""


@contextmanager
def opened(root: Path, path: PurePosixPath, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder at `path`, made with those above it where `create` says so."""
    folder = _open_root(root)
    try:
        for depth, name in enumerate(path.parts, start=1):
            below = _step(folder, name, PurePosixPath(*path.parts[:depth]), create=create)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def look(root: Path, path: PurePosixPath) -> Found:
    """What is at `path`, measured; `NotFound` if nothing is, `VolumeError` if it is a link or a device."""
    if not path.parts:
        with opened(root, path) as folder:
            return _found_folder(folder, path)
    with opened(root, path.parent) as parent:
        entry = _entry(parent, path)
        if stat.S_ISDIR(entry.st_mode):
            with opened(root, path) as folder:
                return _found_folder(folder, path)
        return _found_file(entry, path)


def size_of(root: Path, path: PurePosixPath) -> int | None:
    """Bytes of the file at `path`, None if there is nothing; `VolumeError` if a file cannot go there."""
    with suppress(NotFound), opened(root, path.parent) as parent:
        entry = _entry(parent, path)
        if stat.S_ISDIR(entry.st_mode):
            raise VolumeError(f"{shown(path)} is a folder.", hint=f"Name the file in it: {shown(path)}/NAME")
        return entry.st_size
    return None


def open_regular(root: Path, path: PurePosixPath) -> int:
    """A descriptor to read the file at `path`."""
    with opened(root, path.parent) as parent:
        entry = _entry(parent, path)
        if stat.S_ISDIR(entry.st_mode):
            raise VolumeError(f"{shown(path)} is a folder, not a file.", hint="Get it file by file.")
        file = os.open(path.name, _FILE, dir_fd=parent)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise VolumeError(f"{shown(path)} is not a file that can be read.")
        return file


def walk(folder: int, above: PurePosixPath, *, recursive: bool) -> Iterator[Found]:
    """What is in an open folder, by name. Links, devices and what vanishes meanwhile are left out."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if above.parts or entry.name != PRIVATE)
    for name in names:
        path = above / name
        with suppress(FileNotFoundError, NotADirectoryError):
            entry = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(entry.st_mode):
                yield Found(path, False, entry.st_size, entry.st_mtime)
            elif stat.S_ISDIR(entry.st_mode):
                below = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    yield _found_folder(below, path)
                    if recursive:
                        yield from walk(below, path, recursive=True)
                finally:
                    os.close(below)


def measure(folder: int, *, leaving_out: str = "") -> int:
    """Bytes of all regular files under an open folder, as `st_size` tells; links and devices count nothing."""
    total = 0
    with os.scandir(folder) as entries:
        for each in entries:
            with suppress(FileNotFoundError, NotADirectoryError):
                if each.is_file(follow_symlinks=False):
                    total += each.stat(follow_symlinks=False).st_size
                elif each.is_dir(follow_symlinks=False) and each.name != leaving_out:
                    below = os.open(each.name, _FOLDER, dir_fd=folder)
                    try:
                        total += measure(below)
                    finally:
                        os.close(below)
    return total


def check_name(path: PurePosixPath) -> None:
    """`VolumeError` for a path that no file system here can hold."""
    try:
        longest = max(len(os.fsencode(part)) for part in path.parts)
    except UnicodeEncodeError as error:
        raise VolumeError(f"{str(path)!r} is not text that can name a file.", hint="Use plain Unicode.") from error
    if longest > 255:
        raise VolumeError(f"A name in {str(path)[:60]}... is {longest} bytes long.", hint="255 is the most.")
    if len(path.parts) > DEEPEST:
        raise VolumeError(f"The path lies {len(path.parts)} folders deep.", hint=f"{DEEPEST} is the most.")


def shown(path: PurePosixPath) -> str:
    """From the volume's root; bytes that are no UTF-8 become question marks."""
    return "/" + os.fsencode(str(path)).decode(errors="replace") if path.parts else "/"


def is_folder(parent: int, path: PurePosixPath) -> bool:
    """Of whatever is at `path` in its open parent, be it a link; `NotFound` if nothing is."""
    try:
        return stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError as error:
        raise _absent(parent, path) from error


def delete_all(parent: int, *, prefix: str) -> None:
    """All that is so named in an open folder, with what is in it; links are removed, not followed."""
    with os.scandir(parent) as entries:
        doomed = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries if each.name.startswith(prefix)]
    for name, folder in doomed:
        with suppress(FileNotFoundError):
            shutil.rmtree(name, dir_fd=parent, ignore_errors=True) if folder else os.unlink(name, dir_fd=parent)


def _open_root(root: Path) -> int:
    # The root itself may be a link: an operator puts a volume on another disk so.
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise VolumeError(
            f"The volume's folder {root} is gone.", hint="Put it back, or delete the volume and make it anew."
        ) from error


def _step(folder: int, name: str, path: PurePosixPath, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError as error:
        raise _absent(folder, path) from error
    except NotADirectoryError as error:
        _entry(folder, path)  # a link is told of as a link
        raise VolumeError(f"{shown(path)} is a file, so nothing is below it.") from error


def _entry(folder: int, path: PurePosixPath) -> os.stat_result:
    try:
        entry = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError as error:
        raise _absent(folder, path) from error
    if stat.S_ISLNK(entry.st_mode):
        raise VolumeError(f"{shown(path)} is a symbolic link, and those are not followed.", hint="Put the file itself.")
    if not (stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode)):
        raise VolumeError(f"{shown(path)} is neither a file nor a folder.")
    return entry


def _absent(folder: int, path: PurePosixPath) -> NotFound:
    with os.scandir(folder) as entries:
        names = sorted(shown(PurePosixPath(entry.name))[1:] for entry in entries if entry.name != PRIVATE)
    there = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "nothing"
    return NotFound(f"{shown(path)} is not on the volume.", hint=f"In {shown(path.parent)} there is: {there}")


def _found_file(entry: os.stat_result, path: PurePosixPath) -> Found:
    return Found(path, False, entry.st_size, entry.st_mtime)


def _found_folder(folder: int, path: PurePosixPath) -> Found:
    leaving_out = "" if path.parts else PRIVATE
    return Found(path, True, measure(folder, leaving_out=leaving_out), os.fstat(folder).st_mtime)
