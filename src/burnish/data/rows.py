"""Which conversations share a row. Decided from lengths alone, so it costs nothing to redo."""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

Row = np.ndarray
"""The numbers of the conversations in a row, rising."""


class Rows(Sequence[Row]):
    """All rows, held as two arrays so that a million cost megabytes."""

    def __init__(self, members: np.ndarray, starts: np.ndarray) -> None:
        self._members = members
        self._starts = starts

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """What it was made of: members of all rows, and where each row starts among them; int64."""
        return self._members, self._starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Of each row, the sum of its conversations' values; values are [conversations, ...], sums wrap around."""
        return np.add.reduceat(values[self._members], self._starts[:-1], axis=0, dtype=values.dtype)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return self._members[self._starts[place] : self._starts[place + 1]]

    def __iter__(self) -> Iterator[Row]:
        return (self[place] for place in range(len(self)))


def pack_rows(lengths: Sequence[int] | np.ndarray, *, row_tokens: int, pack: bool = True) -> Rows:
    """Best-fit decreasing: longest first, each into the fullest row that still has room.

    Every conversation is used exactly once. Rows are in the order of their first conversation, and so are
    conversations within a row. The result depends on nothing but its arguments, so every rank works it out for
    itself and no rank has to be told. Lengths are from 1 to `row_tokens`.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if len(sizes) == 0:
        return Rows(np.empty(0, np.int64), np.zeros(1, np.int64))
    if sizes.min() < 1 or sizes.max() > row_tokens:
        raise ValueError(f"conversations of {sizes.min()} to {sizes.max()} tokens for rows of {row_tokens}")
    if not pack:
        return Rows(np.arange(len(sizes)), np.arange(len(sizes) + 1))
    return _in_file_order(_assign(sizes, row_tokens))


def _assign(sizes: np.ndarray, row_tokens: int) -> np.ndarray:
    """The bin of each conversation. Those of one length are placed together, many bins at a time."""
    order = np.argsort(-sizes, kind="stable")
    bins = _Bins(row_tokens)
    bin_of = np.empty(len(sizes), np.int64)
    distinct, first = np.unique(-sizes[order], return_index=True)
    edges = [*first.tolist(), len(sizes)]
    for place, length in enumerate((-distinct).tolist()):
        bin_of[order[edges[place] : edges[place + 1]]] = bins.place(length, edges[place + 1] - edges[place])
    return bin_of


class _Bins:
    """Open bins by the room they have left."""

    def __init__(self, row_tokens: int) -> None:
        self._row_tokens = row_tokens
        self._opened = 0
        self._by_room: list[list[np.ndarray]] = [[] for _ in range(row_tokens + 1)]
        # One byte per room that some bin has, so that the fullest bin with room is one memchr away.
        self._some = bytearray(row_tokens + 1)

    def place(self, length: int, count: int) -> np.ndarray:
        """Bins for `count` conversations of one length, one after the other into the fullest that has room.

        A bin that took one is fuller than its peers, so it takes the next as well, as long as it has room: bins
        of equal room are therefore filled one by one, each with as many as fit.
        """
        chosen: list[np.ndarray] = []
        while count:
            room = self._some.find(1, length)
            each = (self._row_tokens if room < 0 else room) // length
            bins = self._take(room, -(-count // each)) if room >= 0 else self._open(-(-count // each))
            placed = min(count, len(bins) * each)
            chosen.append(np.repeat(bins, each)[:placed])
            full, rest = divmod(placed, each)
            left = self._row_tokens if room < 0 else room
            self._put(left - each * length, bins[:full])
            self._put(left - rest * length, bins[full:])
            count -= placed
        return np.concatenate(chosen)

    def _open(self, count: int) -> np.ndarray:
        self._opened += count
        return np.arange(self._opened - count, self._opened)

    def _take(self, room: int, most: int) -> np.ndarray:
        groups = self._by_room[room]
        group = groups.pop()
        if len(group) > most:
            groups.append(group[most:])
            group = group[:most]
        self._some[room] = bool(groups)
        return group

    def _put(self, room: int, bins: np.ndarray) -> None:
        if len(bins) and room:
            self._by_room[room].append(bins)
            self._some[room] = 1


def _in_file_order(bin_of: np.ndarray) -> Rows:
    _, first, inverse, counts = np.unique(bin_of, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    members = np.argsort(rank[inverse], kind="stable")
    return Rows(members, np.concatenate([[0], np.cumsum(counts[order])]))
