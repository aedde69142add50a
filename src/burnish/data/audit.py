"""Reads what the rows say, apart from their tokens: repeats, rows that another split shares, secrets.

Knows conversations and where they stand; counts all, keeps the first few.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from burnish.data.conversations import Conversation
from burnish.data.duplicates import Found, NearIndex, Tally, likeness_text, sketch
from burnish.data.private_text import find_private
from burnish.run.report import SHOWN, PrivateSpot, PrivateText, Repeats, Shared

MOST_NEAR_ROWS = 200_000
"""So many rows are held against each other; a sketch takes a kilobyte."""


@dataclass
class Audit:
    """What was found among the rows that are trained."""

    duplicates: Repeats
    near_duplicates: Repeats | None
    near_rows: int
    private: PrivateText
    shared: list[Shared]


def audit_rows(
    rows: Iterable[Conversation],
    others: Iterable[tuple[str, Iterable[Conversation]]] = (),
    *,
    near_seconds: float = float("inf"),
    on_row: Callable[[int], None] = lambda count: None,
) -> Audit:
    """`others` are splits that are not trained. Near duplicates are given up after `near_seconds` spent on them."""
    seen = _Seen(near_seconds)
    exact, near, private = Tally(), Tally(), _Private()
    count = 0
    for count, row in enumerate(rows, start=1):
        private.look(row)
        if twin := seen.exact(row):
            exact.add(row.where, twin)
        elif like := seen.near(row):
            near.add(row.where, like)
        on_row(count)
    shared = [_shared(split, other, seen) for split, other in others]
    return Audit(
        duplicates=exact.report(),
        near_duplicates=None if seen.gave_up else near.report(),
        near_rows=0 if seen.gave_up else count if seen.compared < MOST_NEAR_ROWS else MOST_NEAR_ROWS,
        private=private.report(),
        shared=[each for each in shared if each.rows],
    )


class _Seen:
    """The rows so far."""

    def __init__(self, near_seconds: float) -> None:
        self._digests: dict[bytes, str] = {}
        self._index: NearIndex | None = None
        self._seconds_left = near_seconds
        self.compared = 0

    @property
    def gave_up(self) -> bool:
        return self._seconds_left <= 0

    def exact(self, row: Conversation) -> Found | None:
        """An earlier row that is the same; else the row is kept."""
        first = self._digests.setdefault(_digest(row), row.where)
        return None if first == row.where else Found(first, 1.0)

    def near(self, row: Conversation) -> Found | None:
        if self.compared >= MOST_NEAR_ROWS:
            return None
        return self._timed(row, keeps=True)

    def holds(self, row: Conversation) -> Found | None:
        """A row like this one, which is not kept."""
        if (first := self._digests.get(_digest(row))) is not None:
            return Found(first, 1.0)
        return self._timed(row, keeps=False)

    def _timed(self, row: Conversation, *, keeps: bool) -> Found | None:
        if self.gave_up:
            return None
        self._index = self._index or NearIndex()
        started = time.monotonic()
        drawn = sketch(likeness_text(row))
        found = self._index.find(drawn) if drawn is not None else None
        if drawn is not None and keeps:
            self.compared += 1
            if found is None:
                self._index.keep(drawn, row.where)
        self._seconds_left -= time.monotonic() - started
        return found


@dataclass
class _Private:
    secrets: Counter[str] = field(default_factory=Counter)
    personal: Counter[str] = field(default_factory=Counter)
    first_secrets: list[PrivateSpot] = field(default_factory=list)
    first_personal: list[PrivateSpot] = field(default_factory=list)

    def look(self, row: Conversation) -> None:
        for role, text in _texts(row):
            for found in find_private(text):
                counts, first = (
                    (self.secrets, self.first_secrets) if found.is_secret else (self.personal, self.first_personal)
                )
                counts[found.kind] += 1
                if len(first) < SHOWN:
                    first.append(PrivateSpot(source=row.where, role=role, kind=found.kind, shown=found.shown))

    def report(self) -> PrivateText:
        first = [*self.first_secrets, *self.first_personal][:SHOWN]
        return PrivateText(secrets=dict(self.secrets), personal=dict(self.personal), first=first)


def _shared(split: str, rows: Iterable[Conversation], seen: _Seen) -> Shared:
    tally, count, exact = Tally(), 0, 0
    for row in rows:
        count += 1
        if found := seen.holds(row):
            exact += found.similarity == 1.0
            tally.add(row.where, found)
    return Shared(split=split, rows=count, exact=exact, near=tally.rows - exact, first=tally.first)


def _digest(row: Conversation) -> bytes:
    said = repr((row.messages, row.tools, row.text))
    return hashlib.blake2b(said.encode(), digest_size=16).digest()


def _texts(row: Conversation) -> Iterator[tuple[str, str]]:
    """Every text of a row with its role."""
    if row.text is not None:
        yield "text", row.text
    for message in row.messages:
        yield message.role, message.content
        if message.reasoning:
            yield message.role, message.reasoning
        for call in message.tool_calls:
            yield from ((message.role, text) for text in _strings(call.arguments))


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case list() | tuple():
            for inner in value:
                yield from _strings(inner)
        case _:
            pass
