"""Files between this machine and a volume: put, get, list, measure, remove.

A put asks first whether everything fits, so that a full volume is told of before the first byte. A get writes
each file whole: temporary name, then rename.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx

from burnish.errors import NotFound, VolumeError
from burnish.literals import volume_path
from burnish.sdk.transport import Transport, path_of
from burnish.wire import CheckPutRequest, EntryList, EntryView

CHUNK_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) as they go."""


@dataclass(frozen=True)
class Transfer:
    """What went where: `path` is the file or the folder it is in now."""

    path: str
    files: int
    size_bytes: int


class Files:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(self, volume: str, local: Path, remote: str, *, progress: Progress | None = None) -> Transfer:
        """A file to `remote`, or into it where that is a folder or ends in `/`; a folder's contents to `remote`.

        Raises `VolumeFull` before anything is sent where it does not all fit.
        """
        target = self._target(volume, local, remote)
        pairs = _local_files(local, target)
        sizes = {str(path): source.stat().st_size for path, source in pairs}
        self._transport.tell(
            "POST", path_of("volumes", volume, "put-check"), json=CheckPutRequest(sizes=sizes).model_dump()
        )
        meter = _Meter(sum(sizes.values()), progress)
        for path, source in pairs:
            self._put_file(volume, path, source, sizes[str(path)], meter)
        return Transfer(f"/{_plain(target)}", len(pairs), meter.total)

    def get(self, volume: str, remote: str, local: Path, *, progress: Progress | None = None) -> Transfer:
        """A file or a folder from the volume, to `local`, or into it where that is a folder."""
        found = self.measure(volume, remote)
        if (local.is_dir() or str(local).endswith("/")) and PurePosixPath(found.path).name:
            local = local / PurePosixPath(found.path).name
        meter = _Meter(found.size_bytes, progress)
        if found.kind == "file":
            self._get_file(volume, found, local, meter)
            return Transfer(str(local), 1, found.size_bytes)
        files = [entry for entry in self.list(volume, remote, recursive=True) if entry.kind == "file"]
        root = volume_path(found.path)
        for entry in files:
            self._get_file(volume, entry, local / volume_path(entry.path).relative_to(root), meter)
        local.mkdir(parents=True, exist_ok=True)
        return Transfer(str(local), len(files), sum(entry.size_bytes for entry in files))

    def list(self, volume: str, path: str = "/", *, recursive: bool = False) -> list[EntryView]:
        params = {"path": path, "recursive": recursive}
        return self._transport.ask(EntryList, "GET", path_of("volumes", volume, "entries"), params=params).entries

    def measure(self, volume: str, path: str = "/") -> EntryView:
        """The entry at `path`; of a folder, with the size of all that is under it."""
        return self._transport.ask(EntryView, "GET", path_of("volumes", volume, "usage"), params={"path": path})

    def remove(self, volume: str, path: str, *, recursive: bool = False) -> None:
        place = volume_path(path)
        if not place.parts:
            raise VolumeError(
                f"The root of {volume} stays.", hint=f"burnish volumes delete {volume} removes all of it."
            )
        self._transport.tell("DELETE", _file_path(volume, place), params={"recursive": recursive})

    def _target(self, volume: str, local: Path, remote: str) -> PurePosixPath:
        target = volume_path(remote)
        if local.is_dir():
            return target
        if remote.endswith("/") or target == PurePosixPath() or self._is_folder(volume, str(target)):
            return target / local.name
        return target

    def _is_folder(self, volume: str, path: str) -> bool:
        try:
            return self.measure(volume, path).kind == "folder"
        except NotFound:
            return False

    def _put_file(self, volume: str, path: PurePosixPath, source: Path, size: int, meter: "_Meter") -> None:
        self._transport.ask(
            EntryView,
            "PUT",
            _file_path(volume, path),
            content=_read_chunks(source, size, meter),
            headers={"Content-Length": str(size), "Content-Type": "application/octet-stream"},
            timeout=httpx.Timeout(None, connect=5.0),
        )

    def _get_file(self, volume: str, entry: EntryView, local: Path, meter: "_Meter") -> None:
        local.parent.mkdir(parents=True, exist_ok=True)
        temporary = local.with_name(f".{local.name}.part")
        try:
            address = _file_path(volume, volume_path(entry.path))
            with self._transport.stream(address) as chunks, temporary.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    meter.add(len(chunk))
            temporary.replace(local)
        finally:
            temporary.unlink(missing_ok=True)


class _Meter:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total = total
        self._done = 0
        self._progress = progress

    def add(self, size: int) -> None:
        self._done += size
        if self._progress:
            self._progress(self._done, self.total)


def _plain(path: PurePosixPath) -> str:
    return "" if path == PurePosixPath() else str(path)


def _file_path(volume: str, path: PurePosixPath) -> str:
    return path_of("volumes", volume, "files", str(path))


def _local_files(local: Path, target: PurePosixPath) -> list[tuple[PurePosixPath, Path]]:
    """Where each file goes and where it is. Links are followed, each folder once."""
    if not local.exists():
        raise NotFound(f"{local} is not there.", hint="Name a file or a folder on this machine.")
    if local.is_file():
        _check_name(local)
        return [(target, local)]
    found = list(_walk(local))
    if not found:
        raise VolumeError(f"{local} holds no files.", hint="Put a folder that has files in it.")
    return [(target / path.relative_to(local).as_posix(), path) for path in found]


def _walk(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    real = folder.resolve()
    if real in above:
        return  # a link back up: its files are on their way already
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _walk(path, (*above, real))
        elif path.is_file():
            _check_name(path)
            yield path
        else:
            raise VolumeError(f"{path} is not a file that can be read.", hint="Remove it, or mend the link.")


def _check_name(path: Path) -> None:
    try:
        path.name.encode()
    except UnicodeEncodeError:
        name = os.fsencode(path).decode(errors="replace")
        raise VolumeError(f"{name} has a name that is not UTF-8 text.", hint="Rename it, then put it.") from None


def _read_chunks(source: Path, size: int, meter: _Meter) -> Iterator[bytes]:
    """Exactly the `size` bytes that the server was told of.

    Raising before the last of them breaks the upload off, and the server keeps nothing of it.
    """
    left = size
    with source.open("rb") as file:
        while left:
            chunk = file.read(min(CHUNK_BYTES, left))
            left -= len(chunk)
            if not chunk or (left == 0 and file.read(1)):
                raise VolumeError(
                    f"{source} changed while it was being sent.", hint="Put it again when nobody writes to it."
                )
            yield chunk
            meter.add(len(chunk))
