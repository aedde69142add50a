"""Finds rows that repeat earlier ones, exactly or nearly, in time that grows with the rows and not with their pairs.

Nearly is by MinHash (datasketch): two rows are alike as far as their letters' five-grams are the same (Jaccard). A row
is compared with those alone that share a band of its sketch. The bands are looked up here and not by `MinHashLSH`,
which compares a row with all that share a band: too many, where all rows are written around one text. Knows no file
and no token.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from burnish.data.conversations import Conversation, Message
from burnish.run.report import SHOWN, Repeats, RowPair

if TYPE_CHECKING:
    from datasketch import MinHash

ALIKE = 0.8
"""Similarity from which on a row counts as nearly the same."""
_GRAM = 5
_HASHES = 128
_BANDS, _BAND_ROWS = 16, 8
"""At a similarity of 0.8 a pair shares a band in 95 of 100 cases, at 0.5 in 6."""
_SPACE = re.compile(r"\s+")
_FIXED_SEED = 20_240_607


@dataclass
class Found:
    """The earlier row that one repeats."""

    source: str
    similarity: float


@dataclass
class Tally:
    """Counts what is found, and keeps the first of it."""

    rows: int = 0
    first: list[RowPair] = field(default_factory=list)
    _repeated: set[str] = field(default_factory=set)

    def add(self, row: str, found: Found) -> None:
        self.rows += 1
        self._repeated.add(found.source)
        if len(self.first) < SHOWN:
            self.first.append(RowPair(row=row, earlier=found.source, similarity=round(found.similarity, 3)))

    def report(self) -> Repeats:
        return Repeats(rows=self.rows, groups=len(self._repeated), first=self.first)


class NearIndex:
    """The first row of each group of like ones. Deterministic: the hash functions are drawn from a fixed seed.

    A band that several rows share leads to the first of them alone: rows that are written around one text share those
    bands that lie within it, and a pair that is more alike than that has others.
    """

    def __init__(self) -> None:
        self._first: list[dict[int, int]] = [{} for _ in range(_BANDS)]
        self._sketches: list[np.ndarray] = []
        self._sources: list[str] = []
        self.comparisons = 0
        """Pairs of sketches held against each other so far."""

    def find(self, sketch: np.ndarray) -> Found | None:
        """The most similar row that is kept, if it is alike."""
        led = (first.get(band) for first, band in zip(self._first, _bands(sketch), strict=True))
        places = sorted({place for place in led if place is not None})
        self.comparisons += len(places)
        alike = [(float(np.mean(self._sketches[place] == sketch)), -place) for place in places]
        if not alike or max(alike)[0] < ALIKE:
            return None
        similarity, place = max(alike)
        return Found(self._sources[-place], similarity)

    def keep(self, sketch: np.ndarray, source: str) -> None:
        for first, band in zip(self._first, _bands(sketch), strict=True):
            first.setdefault(band, len(self._sources))
        self._sketches.append(sketch)
        self._sources.append(source)


def _bands(sketch: np.ndarray) -> list[int]:
    """A number for what stands in each band."""
    values = sketch.astype(np.uint64).reshape(_BANDS, _BAND_ROWS)
    return _mixed((values * _BAND_FACTORS).sum(axis=1, dtype=np.uint64)).tolist()


def likeness_text(conversation: Conversation) -> str:
    """What two rows are held against each other by: what was said, without the system turn that many rows share."""
    if conversation.text is not None:
        return conversation.text
    spoken = [message for message in conversation.messages if message.role != "system"]
    return "\n".join(part for message in spoken for part in _said(message) if part)


def _said(message: Message) -> Iterator[str]:
    yield message.reasoning or ""
    yield message.content
    yield from (f"{call.name} {call.arguments}" for call in message.tool_calls)
    # One question asked of many pictures is asked many times, and is no repeat.
    for image in message.images:
        source = image.source if isinstance(image.source, bytes) else str(image.source).encode()
        yield hashlib.blake2b(source).hexdigest()


def sketch(text: str) -> np.ndarray | None:
    """uint32 [_HASHES]: the least values that hash functions have of the text's five-grams; None of too short a text.

    Case and runs of white space do not count.
    """
    letters = np.frombuffer(_SPACE.sub(" ", text.casefold().strip()).encode("utf-32-le", "surrogatepass"), "<u4")
    if len(letters) < 2 * _GRAM:
        return None
    grams = np.zeros(len(letters) - _GRAM + 1, np.uint64)
    for place in range(_GRAM):
        grams = _mixed(grams + letters[place : place + len(grams)].astype(np.uint64))
    least = _empty().copy()
    numbers = (grams >> np.uint64(32)).tolist()
    for start in range(0, len(numbers), _BATCH_GRAMS):
        least.update_batch(numbers[start : start + _BATCH_GRAMS])
    return least.hashvalues


@cache
def _empty() -> "MinHash":
    """Of no gram, with the hash functions of the fixed seed."""
    # It brings scipy with it, a second to import, for which the first verdict of a check does not wait.
    from datasketch import MinHash

    return MinHash(_HASHES, _FIXED_SEED, hashfunc=int, scheme="affine32")


def _mixed(values: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit numbers that spreads near ones far apart (the finisher of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_BATCH_GRAMS = 1 << 14
"""Hashed at once: 16 MiB of intermediate values, however long a row is."""
_BAND_FACTORS = np.random.PCG64(_FIXED_SEED + 1).random_raw(_BAND_ROWS) | np.uint64(1)
