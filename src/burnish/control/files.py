"""Files on a volume: list, measure, put, get, remove. A file is there whole or not at all.

A put goes to a hidden part file first, which holds its place in the volume's room by its name and its lock, and is
renamed at the end; whoever reads the old file keeps it.
"""

import errno
import fcntl
import os
import secrets
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from burnish.control import tree
from burnish.control.house import House
from burnish.control.volumes import Room, forget_measurement, live_runs, measured, volume_root
from burnish.errors import Conflict, VolumeError, VolumeFull
from burnish.literals import volume_path
from burnish.wire import CheckPutRequest, EntryList, EntryView


def list_entries(house: House, name: str, path: str = "/", recursive: bool = False) -> EntryList:
    """What is in a folder, by name, or the one file that `path` is. Symbolic links are not shown."""
    root, place = volume_root(house, name), _place(path)
    found = tree.look(root, place)
    if not found.is_folder:
        return EntryList(entries=[_view(found)])
    with tree.opened(root, place) as folder:
        return EntryList(entries=[_view(each) for each in tree.walk(folder, place, recursive=recursive)])


def measure(house: House, name: str, path: str = "/") -> EntryView:
    """The entry at `path`; a folder with the size of all that is under it."""
    return _view(tree.look(volume_root(house, name), _place(path)))


def check_put(house: House, name: str, request: CheckPutRequest) -> None:
    """`VolumeFull` or `VolumeError` unless these files may come, all together."""
    sizes = {_writable(path): size for path, size in request.sizes.items()}
    for path in sizes:
        if crossed := next((above for above in path.parents if above in sizes), None):
            raise VolumeError(f"{tree.shown(crossed)} cannot be a file and hold {tree.shown(path)}.")
    with measured(house, name) as room:
        added = sum(_added(room, path, size) for path, size in sizes.items())
        room.admit(_called(list(sizes)), added)


def put_file(house: House, name: str, path: str, chunks: Iterable[bytes], size: int | None = None) -> EntryView:
    """Write a file from its pieces; nothing is there until all of it is.

    With `size`, its place is reserved at once and exactly so many bytes must come. Without, what comes is checked
    against the room when it has come.
    """
    place = _writable(path)
    with measured(house, name) as room:
        needed = _added(room, place, size or 0)
        room.admit(tree.shown(place), needed)
        limit = room.free_bytes + (_old_size(room.root, place) or 0) if size is None else size
        part = _open_part(room, max(0, needed))
    with _discarded(part), _told_of_full_disk(place):
        written = _write(part, chunks, limit)
        if size is not None and written != size:
            fault = "was cut short" if written < size else "is longer than was said"
            raise VolumeError(
                f"The upload of {tree.shown(place)} {fault}: {written} of {size} bytes came.",
                hint="Put it again. What was there before is unchanged.",
            )
        part.file.flush()
        os.fsync(part.file.fileno())
        with measured(house, name) as room:
            _enter(room, part, place, written)
    return measure(house, name, path)


def open_file(house: House, name: str, path: str) -> tuple[BinaryIO, int]:
    """The file, open for reading, and its size now. The caller closes it."""
    file = os.fdopen(tree.open_regular(volume_root(house, name), _place(path)), "rb")
    return file, os.fstat(file.fileno()).st_size


def remove(house: House, name: str, path: str, recursive: bool = False) -> None:
    """Delete a file, or a folder where `recursive` says so. Nothing of a run that is not over."""
    root, place = volume_root(house, name), _place(path)
    if not place.parts:
        raise VolumeError(f"The root of {name} stays.", hint=f"burnish volumes delete {name} removes all of it.")
    _refuse_live_run(house, name, place)
    with tree.opened(root, PurePosixPath(tree.PRIVATE), create=True) as private:
        with tree.opened(root, place.parent) as parent:
            if tree.is_folder(parent, place) and not recursive:
                raise VolumeError(f"{tree.shown(place)} is a folder.", hint="Remove it with --recursive.")
            # Out of sight in one step; a folder may take long to delete.
            doomed = f"gone-{secrets.token_hex(8)}"
            os.rename(place.name, doomed, src_dir_fd=parent, dst_dir_fd=private)
        forget_measurement(house, name)
        tree.delete_all(private, prefix="gone-")


class Part:
    """A file on its way. Its name says how many bytes it will add; its lock, that someone writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("xb")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    @property
    def reserved_bytes(self) -> int:
        return int(self.path.name.split("-")[1])


def _open_part(room: Room, added_bytes: int) -> Part:
    return Part(room.private / f"put-{added_bytes}-{secrets.token_hex(8)}")


def _write(part: Part, chunks: Iterable[bytes], limit: int) -> int:
    """How many bytes came; the first piece beyond `limit` is the last and is not written."""
    written = 0
    for chunk in chunks:
        written += len(chunk)
        if written > limit:
            break
        part.file.write(chunk)
    return written


def _enter(room: Room, part: Part, place: PurePosixPath, size: int) -> None:
    """Rename the part into place. Looks again at what it replaces, which may have changed meanwhile."""
    added = _added(room, place, size)
    room.reserved_bytes -= part.reserved_bytes
    room.admit(tree.shown(place), added)
    with tree.opened(room.root, place.parent, create=True) as parent:
        os.rename(part.path, place.name, dst_dir_fd=parent)
        os.fsync(parent)
    room.add(added)


def _added(room: Room, place: PurePosixPath, size: int) -> int:
    """What the volume will hold more: the difference, where a file is replaced."""
    if size < 0:
        raise VolumeError(f"{size} bytes is no size for {tree.shown(place)}.")
    return size - (_old_size(room.root, place) or 0)


def _old_size(root: Path, place: PurePosixPath) -> int | None:
    return tree.size_of(root, place)


@contextmanager
def _discarded(part: Part) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            part.path.unlink()  # not there any more once it was entered
        part.file.close()


@contextmanager
def _told_of_full_disk(place: PurePosixPath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise VolumeFull(
            f"The server's disk filled up while {tree.shown(place)} came.", hint="Make room on it, then put it again."
        ) from error


def _place(path: str) -> PurePosixPath:
    place = volume_path(path)
    if place.parts:
        tree.check_name(place)
    if place.parts[:1] == (tree.PRIVATE,):
        raise VolumeError(f"/{tree.PRIVATE} is the server's own.", hint="Choose another name.")
    return place


def _writable(path: str) -> PurePosixPath:
    place = _place(path)
    if not place.parts:
        raise VolumeError("A file needs a name on the volume.", hint="For example /datasets/my-data/train.jsonl")
    if any(unicodedata.category(letter) == "Cc" for letter in str(place)):
        raise VolumeError(f"{str(place)!r} holds a control code.", hint="Name the file without it.")
    if place.parts[0] == "runs":
        raise VolumeError("runs/ holds run outputs and is read-only; put elsewhere.", hint="For example /datasets.")
    return place


def _refuse_live_run(house: House, name: str, place: PurePosixPath) -> None:
    if place.parts[0] != "runs":
        return
    with house.database.session(writes=False) as session:
        live = live_runs(session, name)
    touched = [run for run in live if len(place.parts) == 1 or place.parts[1] == run]
    if touched:
        raise Conflict(
            f"{tree.shown(place)} belongs to {touched[0]}, which is not over.",
            hint=f"Stop it first: burnish train stop {touched[0]}",
        )


def _called(paths: list[PurePosixPath]) -> str:
    return tree.shown(paths[0]) if len(paths) == 1 else f"{len(paths)} files"


def _view(found: tree.Found) -> EntryView:
    return EntryView(
        path=tree.shown(found.path),
        kind="folder" if found.is_folder else "file",
        size_bytes=found.size_bytes,
        modified_at=datetime.fromtimestamp(found.modified_at, UTC),
    )
