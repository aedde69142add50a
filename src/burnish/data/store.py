"""Tokenised conversations in flat memory-mapped files, kept under the hash of everything that went into them.

Written once, read by every rank and every later run. Knows nothing of rows: one store serves any row length.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from burnish.data.ledger import BadRow, Ledger
from burnish.data.stream import LANES, digests
from burnish.errors import DataError

FORMAT = 3
"""Raised whenever the same data would come out as other tokens, or the files change shape."""

_MANIFEST = "manifest.json"
_DOCUMENT = np.dtype(
    [
        ("start", "<i8"),
        ("length", "<i8"),
        ("trained", "<i8"),
        ("row", "<i8"),
        ("line", "<i8"),
        ("file", "<i4"),
        ("source", "<i4"),
        ("thoughts_lost", "<i4"),
        ("images", "<i4"),
        ("digest", "<u4", (LANES,)),
    ]
)
_WRITE_BYTES = 1 << 20


class Place(NamedTuple):
    """Where a sample comes from."""

    file: str
    line: int
    row: int
    """Which row of the data, from 0; the samples of one conversation share it."""
    source: str = ""
    """The subset or split it was read for."""
    thoughts_lost: int = 0
    """Of its trained turns, how many stand there without their thoughts."""
    images: int = 0
    """How many it shows."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


class Stored(NamedTuple):
    """Views of one conversation's tokens; nothing is copied."""

    token_ids: np.ndarray
    """uint32"""
    loss_mask: np.ndarray
    """uint8"""


class TokenStore:
    """A finished store, opened for reading. `ValueError` for one of which a part is missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest = json.loads((folder / _MANIFEST).read_text())
        self._documents = _map(folder / "documents.bin", _DOCUMENT)
        self._token_ids = _map(folder / "tokens.u32", np.dtype("<u4"))
        self._loss_mask = _map(folder / "trained.u8", np.dtype("u1"))
        there = [len(self._documents), len(self._token_ids), len(self._loss_mask)]
        if there != self._manifest["lengths"]:
            raise ValueError(f"{folder} is not whole: {there}")

    def __len__(self) -> int:
        return len(self._documents)

    def __getitem__(self, index: int) -> Stored:
        document = self._documents[index]
        span = slice(int(document["start"]), int(document["start"] + document["length"]))
        return Stored(self._token_ids[span], self._loss_mask[span])

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each conversation."""
        return self._documents["length"]

    @property
    def trained(self) -> np.ndarray:
        """Trained tokens of each conversation."""
        return self._documents["trained"]

    @property
    def rows(self) -> np.ndarray:
        """The row of the data that each conversation comes from."""
        return self._documents["row"]

    @property
    def thoughts_lost(self) -> np.ndarray:
        return self._documents["thoughts_lost"]

    @property
    def images(self) -> np.ndarray:
        """How many images each conversation shows."""
        return self._documents["images"]

    @property
    def digests(self) -> np.ndarray:
        """uint32 [conversations, LANES], of whole conversations."""
        return self._documents["digest"]

    @property
    def source_of(self) -> np.ndarray:
        """Of each conversation, the place of its source in `sources`."""
        return self._documents["source"]

    @property
    def sources(self) -> list[str]:
        return self._manifest["sources"]

    def where(self, index: int) -> str:
        document = self._documents[index]
        return f"{self._manifest['files'][document['file']]}:{document['line']}"

    @property
    def ledger(self) -> Ledger:
        """What became of the rows when they were read. A copy: rows may still be lost to their length."""
        kept = self._manifest["ledger"]
        return Ledger(
            read=kept["read"],
            used=kept["used"],
            dropped=Counter(kept["dropped"]),
            bad_rows=[BadRow(*row) for row in kept["bad_rows"]],
            cut_short=kept["cut_short"],
        )


class StoreWriter:
    """Appends conversations to a store that nobody sees until it is finished."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tokens = (folder / "tokens.u32").open("wb", buffering=_WRITE_BYTES)
        self._masks = (folder / "trained.u8").open("wb", buffering=_WRITE_BYTES)
        self._documents: list[np.ndarray] = []
        self._files: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._written = 0

    def append(
        self, token_ids: np.ndarray, loss_mask: np.ndarray, lengths: np.ndarray, places: Sequence[Place]
    ) -> None:
        """Conversations one after the other, with where each came from."""
        self._tokens.write(token_ids.astype("<u4", copy=False).tobytes())
        self._masks.write(loss_mask.astype("u1", copy=False).tobytes())
        documents = np.empty(len(lengths), _DOCUMENT)
        ends = np.cumsum(lengths)
        documents["length"] = lengths
        documents["start"] = self._written + ends - lengths
        totals = np.concatenate([[0], np.cumsum(loss_mask, dtype=np.int64)])
        documents["trained"] = totals[ends] - totals[ends - lengths]
        documents["digest"] = digests(token_ids, loss_mask, lengths)
        documents["file"] = [self._files.setdefault(place.file, len(self._files)) for place in places]
        documents["source"] = [self._sources.setdefault(place.source, len(self._sources)) for place in places]
        for name in ("row", "line", "thoughts_lost", "images"):
            documents[name] = [getattr(place, name) for place in places]
        self._documents.append(documents)
        self._written += int(lengths.sum())

    def where(self, index: int) -> str:
        """`file:line` of a conversation that was appended."""
        document = self._all_documents()[index]
        return f"{list(self._files)[document['file']]}:{document['line']}"

    def finish(self, ledger: Ledger, *, keep: np.ndarray | None = None) -> None:
        """Close the files and write the manifest last. `keep` lists the conversations that are part of the store."""
        self.close()
        documents = self._all_documents() if keep is None else self._all_documents()[keep]
        documents.tofile(self._folder / "documents.bin")
        counts = {
            "read": ledger.read,
            "used": ledger.used,
            "dropped": ledger.dropped,
            "bad_rows": ledger.bad_rows,
            "cut_short": ledger.cut_short,
        }
        manifest = {
            "format": FORMAT,
            "files": list(self._files),
            "sources": list(self._sources),
            "lengths": [len(documents), self._written, self._written],
            "ledger": counts,
        }
        (self._folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))

    def _all_documents(self) -> np.ndarray:
        if len(self._documents) != 1:
            self._documents = [np.concatenate([np.empty(0, _DOCUMENT), *self._documents])]
        return self._documents[0]

    def close(self) -> None:
        self._tokens.close()
        self._masks.close()


def store_key(files: Iterable[tuple[str, str]], parts: dict[str, Any]) -> str:
    """Hash of the files' names and hashes, and of all else that decides the tokens."""
    digest = hashlib.sha256(json.dumps([FORMAT, parts], sort_keys=True).encode())
    for name, content in files:
        digest.update(f"\n{name}\n{content}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def open_store(directory: Path, key: str) -> TokenStore | None:
    """The finished store of that key, if there is one; one that is damaged, as by a full disk or a loss of power,
    is put away, so that it is made again."""
    folder = directory / key
    if not (folder / _MANIFEST).is_file():
        return None
    try:
        return TokenStore(folder)
    except (OSError, ValueError, KeyError):
        discard_store(directory, key)
        return None


@contextmanager
def new_store(directory: Path, key: str) -> Iterator[StoreWriter]:
    """Yields a `StoreWriter`; when the block ends well, the store is there under its key."""
    with new_folder(directory / key) as folder:
        writer = StoreWriter(folder)
        try:
            yield writer
        finally:
            writer.close()


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """Yields a temporary folder beside the place, which takes the place when the block ends well.

    Two processes may fill one at once: each its own, the first to finish gives it, and the other's equal one is
    thrown away. `DataError` if there is nowhere to write.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise DataError(f"Tokenised data cannot be kept in {place.parent} ({error.strerror}).") from error
    try:
        yield temporary
        _settle(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def discard_store(directory: Path, key: str) -> None:
    """At once out of everybody's sight, then off the disk."""
    folder = directory / key
    with suppress(OSError):
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        folder.rename(aside / folder.name)
        shutil.rmtree(aside, ignore_errors=True)


def _settle(temporary: Path, place: Path) -> None:
    names = {each.name for each in temporary.iterdir()}
    try:
        os.rename(temporary, place)  # noqa: PTH104 (Path.rename says no more)
    except OSError:
        # A folder is there already: another process's equal one, or the remains of a broken one.
        if names <= {each.name for each in place.iterdir()}:
            return
        shutil.rmtree(place, ignore_errors=True)
        temporary.rename(place)


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    # mmap refuses an empty file.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if path.stat().st_size else np.empty(0, dtype)
