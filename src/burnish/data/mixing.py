"""In what proportion and for how long an epoch draws from several sources. Knows numbers of rows, not what they hold.

Means what `datasets.interleave_datasets` means by the same words.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

Stop = Literal["first_exhausted", "all_exhausted"]

MOST_ROWS = 200_000_000
"""In an epoch: a source that is hardly ever drawn makes one without end."""

_DRAWS = 1 << 16


class Drawn(NamedTuple):
    """An epoch, row by row."""

    sources: np.ndarray
    """Which source each row is of."""
    rows: np.ndarray
    """Which of that source's rows, from 0."""


def draw_epoch(rows: Sequence[int], *, probabilities: Sequence[float] = (), stop: Stop, seed: int) -> Drawn:
    """The rows of an epoch of sources that have so many; none may be empty.

    With probabilities each row is of a source drawn at random, else the sources take turns. Rows of a source come in
    their order. `first_exhausted` ends with the last row of the first source that has no more; `all_exhausted` when
    each source was read to its end, others beginning again. Without probabilities whole turns are taken.
    """
    sizes = np.array(rows, np.int64)
    assert len(sizes) and sizes.min() > 0, rows
    if not probabilities:
        turns = int(sizes.min() if stop == "first_exhausted" else sizes.max())
        sources = np.tile(np.arange(len(sizes)), turns)
        return Drawn(sources, np.repeat(np.arange(turns), len(sizes)) % sizes[sources])
    parts, left = [], sizes.copy()
    """`left` is how many draws of each source are missing to its end; below 1 it is exhausted."""
    for drawn in _draw_sources(probabilities, seed):
        counts = np.bincount(drawn, minlength=len(sizes))
        ended = (left - counts) < 1
        if ended.all() if stop == "all_exhausted" else ended.any():
            parts.append(drawn[: _end(drawn, left, stop)])
            break
        parts.append(drawn)
        left -= counts
    sources = np.concatenate(parts)
    return Drawn(sources, _place_among_equals(sources, len(sizes)) % sizes[sources])


def expected_rows(rows: Sequence[int], *, probabilities: Sequence[float] = (), stop: Stop) -> float:
    """About how long such an epoch is."""
    shares = probabilities or [1.0] * len(rows)
    each = [size * sum(shares) / share for size, share in zip(rows, shares, strict=True)]
    return min(each) if stop == "first_exhausted" else max(each)


def samples_of(drawn: Drawn, samples: np.ndarray, row_of: np.ndarray, source_of: np.ndarray) -> np.ndarray:
    """Numbers of the samples that the drawn rows hold, in order.

    `samples` are all that may be used; `row_of` and `source_of` tell of each the row it is part of, by any number,
    and the source. The samples of a row follow one another.
    """
    order = np.lexsort((samples, row_of))
    _, starts, counts = np.unique(row_of[order], return_index=True, return_counts=True)
    sources = source_of[order][starts]
    rows = np.empty(len(drawn.rows), np.int64)
    for source in np.unique(drawn.sources).tolist():
        mine = drawn.sources == source
        rows[mine] = np.flatnonzero(sources == source)[drawn.rows[mine]]
    counts = counts[rows]
    before = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) - np.repeat(before, counts) + np.repeat(starts[rows], counts)
    return samples[order][places]


def _draw_sources(probabilities: Sequence[float], seed: int) -> Iterator[np.ndarray]:
    """Without end. Raw draws of PCG64, whose stream numpy promises not to change: a resumed run goes on as it began."""
    edges = np.cumsum(probabilities) / sum(probabilities)
    bits = np.random.PCG64(np.random.SeedSequence([seed % 2**64, len(probabilities)]))
    while True:
        uniform = (bits.random_raw(_DRAWS) >> np.uint64(11)) * 2.0**-53
        yield np.searchsorted(edges[:-1], uniform, side="right")


def _end(drawn: np.ndarray, left: np.ndarray, stop: Stop) -> int:
    """How many draws it takes until no draws are left of one source, or of any."""
    ends = []
    for source, missing in enumerate(left.tolist()):
        places = np.flatnonzero(drawn == source)
        if missing < 1:
            ends.append(0)
        elif missing <= len(places):
            ends.append(int(places[missing - 1]) + 1)
    return min(ends) if stop == "first_exhausted" else max(ends)


def _place_among_equals(values: np.ndarray, kinds: int) -> np.ndarray:
    """`[1, 0, 1, 1]` -> `[0, 0, 1, 2]`."""
    places = np.empty(len(values), np.int64)
    for kind in range(kinds):
        mine = np.flatnonzero(values == kind)
        places[mine] = np.arange(len(mine))
    return places
