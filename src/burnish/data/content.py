"""The hash of a file's bytes, worked out once for as long as the file stays as it is.

What tells that it did: its inode, size, and times of content and of status, to the nanosecond. The time of status
cannot be set back. A file that changed within the last two seconds is not remembered, as it may change again
within one tick of its clock.
"""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

_SETTLED_SECONDS = 2.0
_SMALL_BYTES = 1 << 16
"""A smaller file is hashed sooner than it is looked up."""


def content_hash(path: Path, memory: Path) -> str:
    """SHA-256 of the file, in hexadecimal. `memory` is a folder where hashes are kept; it may be lost at any time."""
    before = path.stat()
    if before.st_size < _SMALL_BYTES:
        return _hash(path)
    note = memory / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    stamp = _stamp(before)
    if (known := _recall(note, stamp)) is not None:
        return known
    found = _hash(path)
    if time.time() - before.st_ctime > _SETTLED_SECONDS and _stamp(path.stat()) == stamp:
        _remember(note, stamp, found)
    return found


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _recall(note: Path, stamp: list[int]) -> str | None:
    try:
        kept = json.loads(note.read_text())
        return str(kept["sha256"]) if kept["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(note: Path, stamp: list[int], found: str) -> None:
    # Whoever cannot keep it, hashes again.
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=note.parent, delete=False) as file:
            json.dump({"stamp": stamp, "sha256": found}, file)
        Path(file.name).replace(note)
