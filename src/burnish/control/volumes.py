"""Volumes: named rooms of a promised size, each a folder under the home. Says what fits; `files` moves bytes.

What is used is the sum of `st_size` of all regular files on the volume, whoever wrote them; uploads on their way
count with what they will add. Nothing stops a trainer from writing past the end, so a volume may be over-full.
"""

import fcntl
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ValidationError
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from burnish.control import tree
from burnish.control.house import House
from burnish.control.tables import RunRow, VolumeRow
from burnish.errors import Conflict, NotFound, VolumeError, VolumeFull
from burnish.literals import check_volume_name, format_size, parse_size
from burnish.run.status import RunStatus
from burnish.wire import CreateVolumeRequest, ResizeVolumeRequest, VolumeList, VolumeView

_LARGEST = 2**62
_LIVE = [status.value for status in RunStatus if not status.is_over]
_STALE_AFTER = 20
"""A measurement holds for this many times as long as it took, so measuring takes a twentieth of the time at most."""


def create_volume(house: House, request: CreateVolumeRequest) -> VolumeView:
    name, size_bytes = check_volume_name(request.name), _size(request.size)
    root = house.home.volume(name)
    if _holds_files(root) and not _row(house, name):
        raise Conflict(
            f"{root} holds files of a volume that this server does not know.",
            hint="Move that folder away, or choose another name.",
        )
    try:
        with house.database.session() as session:
            session.add(VolumeRow(name=name, size_bytes=size_bytes, created_at=house.now()))
    except IntegrityError as error:
        raise Conflict(
            f"There is a volume {name} already.", hint=f"burnish volumes resize {name} --size ... changes its size."
        ) from error
    (root / "datasets").mkdir(parents=True, exist_ok=True)
    return get_volume(house, name)


def list_volumes(house: House) -> VolumeList:
    with house.database.session(writes=False) as session:
        rows = session.scalars(select(VolumeRow).order_by(VolumeRow.name)).all()
    return VolumeList(volumes=[_view(house, row) for row in rows])


def get_volume(house: House, name: str) -> VolumeView:
    return _view(house, _known(house, name))


def resize_volume(house: House, name: str, request: ResizeVolumeRequest) -> VolumeView:
    """Grow or shrink; not below what is used and what is on its way."""
    size_bytes = _size(request.size)
    with measured(house, name, afresh=True) as room:
        if size_bytes < room.taken_bytes:
            raise VolumeError(
                f"{name} holds {format_size(room.taken_bytes)}, so it cannot shrink to {format_size(size_bytes)}.",
                hint=f"The smallest size now: {_next_size(room.taken_bytes)}. Or remove files first.",
            )
        with house.database.session() as session:
            session.execute(update(VolumeRow).where(VolumeRow.name == name).values(size_bytes=size_bytes))
    return get_volume(house, name)


def delete_volume(house: House, name: str) -> None:
    """The volume and every file on it; `Conflict` while a run uses it."""
    _known(house, name)
    root, doomed = house.home.volume(name), house.home.volumes / f".deleted-{secrets.token_hex(8)}"
    with house.database.session() as session:
        row = session.get(VolumeRow, name, with_for_update=True)
        if live := live_runs(session, name):
            raise Conflict(
                f"{name} is in use by {', '.join(live)}.", hint=f"Stop it first: burnish train stop {live[0]}"
            )
        # The folder goes before the row: a crash between them leaves a name that can be deleted again.
        with suppress(FileNotFoundError):
            root.rename(doomed)
        if row is not None:
            session.delete(row)
    shutil.rmtree(doomed, ignore_errors=True)


def volume_root(house: House, name: str) -> Path:
    _known(house, name)
    return house.home.volume(name)


def room_left(house: House, name: str) -> int:
    """Bytes that still fit; 0 on a volume that is over-full."""
    with measured(house, name, afresh=True) as room:
        return room.free_bytes


def live_runs(session: Session, volume: str) -> list[str]:
    """Ids of the runs on that volume that are not over."""
    return list(session.scalars(select(RunRow.id).where(RunRow.volume == volume, RunRow.status.in_(_LIVE))))


class Room:
    """How full a volume is. Exact for what goes through `files`; valid while `measured` holds the volume's lock."""

    def __init__(self, name: str, root: Path, size_bytes: int, *, afresh: bool) -> None:
        self.name, self.root, self.size_bytes = name, root, size_bytes
        self.private = root / tree.PRIVATE
        self._memo = self.private / "measured.json"
        recalled = None if afresh else self._recall()
        self._recalled = recalled is not None
        self.used_bytes = self._measure() if recalled is None else recalled
        self.reserved_bytes = sum(_reservation(path) for path in self.private.glob("put-*"))

    @property
    def taken_bytes(self) -> int:
        return self.used_bytes + self.reserved_bytes

    @property
    def free_bytes(self) -> int:
        return max(0, self.size_bytes - self.taken_bytes)

    def admit(self, what: str, needed_bytes: int) -> None:
        """`VolumeFull`, with the command that makes room, unless so many more bytes fit on volume and disk."""
        if needed_bytes > self.free_bytes and self._recalled:
            self.used_bytes, self._recalled = self._measure(), False
        if needed_bytes > self.free_bytes:
            raise VolumeFull(
                f"{what} needs {format_size(needed_bytes)}, but {self.name} has {format_size(self.free_bytes)} free "
                f"of {format_size(self.size_bytes)}.",
                hint=f"burnish volumes resize {self.name} --size {_next_size(self.taken_bytes + needed_bytes)}",
            )
        disk_bytes = shutil.disk_usage(self.root).free
        if needed_bytes > disk_bytes:
            raise VolumeFull(
                f"{what} needs {format_size(needed_bytes)}, but the server's disk has {format_size(disk_bytes)} free.",
                hint=f"Make room on the disk that holds {self.root}.",
            )

    def add(self, size_bytes: int) -> None:
        """Note what a put just added, so that the next one need not measure again."""
        self.used_bytes += size_bytes
        with suppress(OSError, ValidationError):
            memo = _Memo.model_validate_json(self._memo.read_bytes())
            self._memo.write_text(memo.model_copy(update={"used_bytes": self.used_bytes}).model_dump_json())

    def _recall(self) -> int | None:
        with suppress(OSError, ValidationError):
            memo = _Memo.model_validate_json(self._memo.read_bytes())
            if 0 <= time.time() - memo.at < memo.seconds * _STALE_AFTER:
                return memo.used_bytes
        return None

    def _measure(self) -> int:
        begun = time.monotonic()
        used = tree.look(self.root, PurePosixPath()).size_bytes
        memo = _Memo(used_bytes=used, at=time.time(), seconds=time.monotonic() - begun)
        self._memo.write_text(memo.model_dump_json())
        return used


class _Memo(BaseModel):
    used_bytes: int
    at: float
    seconds: float


@contextmanager
def measured(house: House, name: str, *, afresh: bool = False) -> Iterator[Room]:
    """The volume's room, under a lock that every put and resize takes for a moment.

    Unless `afresh`, the newest measurement may serve again, with what has been put since; but not for a refusal.
    """
    size_bytes, root = _known(house, name).size_bytes, house.home.volume(name)
    with tree.opened(root, PurePosixPath(tree.PRIVATE), create=True), _locked(root):
        _sweep(root / tree.PRIVATE)
        yield Room(name, root, size_bytes, afresh=afresh)


def forget_measurement(house: House, name: str) -> None:
    """After a removal, whose size nobody knows."""
    (house.home.volume(name) / tree.PRIVATE / "measured.json").unlink(missing_ok=True)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / tree.PRIVATE / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(private: Path) -> None:
    """Uploads whose server died: each is locked for as long as someone writes it."""
    for path in private.glob("put-*"):
        with suppress(FileNotFoundError), path.open("rb") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _reservation(part: Path) -> int:
    # put-<bytes that it will add>-<random>
    return int(part.name.split("-")[1])


def _known(house: House, name: str) -> VolumeRow:
    row = _row(house, name)
    if row is None:
        with house.database.session(writes=False) as session:
            names = list(session.scalars(select(VolumeRow.name).order_by(VolumeRow.name)))
        there = f"There is: {', '.join(names)}. " if names else ""
        raise NotFound(
            f"There is no volume {name}.", hint=f"{there}Create it: burnish volumes create {name} --size 10Gi"
        )
    return row


def _row(house: House, name: str) -> VolumeRow | None:
    check_volume_name(name)
    with house.database.session(writes=False) as session:
        return session.get(VolumeRow, name)


def _view(house: House, row: VolumeRow) -> VolumeView:
    root = house.home.volume(row.name)
    there = root.is_dir()
    return VolumeView(
        name=row.name,
        status="RUNNING" if there else "MISSING",
        size_bytes=row.size_bytes,
        used_bytes=tree.look(root, PurePosixPath()).size_bytes if there else 0,
        created_at=row.created_at,
    )


def _size(text: str) -> int:
    size_bytes = parse_size(text)
    if size_bytes > _LARGEST:
        raise VolumeError(f"{text} is more than any disk holds.", hint="Write a size such as 100Gi.")
    return size_bytes


def _next_size(size_bytes: int) -> str:
    """The next whole Gi, or Mi below one Gi: `3221225473` -> `4Gi`."""
    unit, letter = (2**30, "Gi") if size_bytes > 2**30 else (2**20, "Mi")
    return f"{max(1, math.ceil(size_bytes / unit))}{letter}"


def _holds_files(root: Path) -> bool:
    return any(files for _, _, files in os.walk(root))
