"""This reader's rows of an optimizer step, as `Batch`es. The one place where tokens shift.

Its whole state is the step number, so a run resumes exactly, on any number of readers.
"""

# T tokens of a micro-batch, D conversations in it.

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from burnish.data import stream
from burnish.data.rows import Rows
from burnish.data.store import Stored, TokenStore

IGNORED = -100
"""A target where nothing is learned."""


@dataclass(frozen=True)
class Batch:
    """Some rows as one flat stream without padding. All arrays are int64."""

    inputs_T: np.ndarray
    targets_T: np.ndarray
    """The token after each input, where that is trained and of the same conversation; else `IGNORED`."""
    positions_T: np.ndarray
    """0, 1, 2, ... within each conversation."""
    lengths_D: np.ndarray
    """Tokens of each conversation; attention does not reach over their edges."""

    @property
    def tokens(self) -> int:
        return len(self.inputs_T)

    @property
    def trained_tokens(self) -> int:
        return int(np.count_nonzero(self.targets_T != IGNORED))

    def stream(self) -> np.ndarray:
        """Sum of its conversations' digests, taken back from what the model is given."""
        mask_T = np.roll(self.targets_T != IGNORED, 1).astype(np.uint8)
        ids_T = self.inputs_T.astype(np.uint32)
        return stream.added(stream.digests(ids_T, mask_T, self.lengths_D))


class RowSource(Protocol):
    """Rows of conversations, by number."""

    @property
    def rows(self) -> int | None:
        """Rows in an epoch; None where there is no end."""
        ...

    def row(self, number: int) -> list[Stored]:
        """The conversations of a row, in order."""
        ...


@dataclass(frozen=True)
class RowLoader:
    """Step s (1-based) is in epoch `(s-1) // steps_per_epoch`; no step reaches over an epoch's end.

    The last step of an epoch may be short, so a reader may then have fewer rows than others, or none.
    """

    source: RowSource
    rows_per_step: int
    rows_per_device: int
    readers: int = 1
    reader: int = 0
    """Which of the readers this is, from 0: it takes every `readers`-th row of a step."""
    shuffle: bool = True
    seed: int = 0

    def step(self, number: int) -> list[Batch]:
        """The micro-batches of this reader in optimizer step `number`."""
        mine = self.rows_of_step(number)[self.reader :: self.readers]
        starts = range(0, len(mine), self.rows_per_device)
        return [self._batch(mine[start : start + self.rows_per_device]) for start in starts]

    def rows_of_step(self, number: int) -> np.ndarray:
        """Row numbers of the whole step, over all readers."""
        if self.source.rows is None:
            return np.arange((number - 1) * self.rows_per_step, number * self.rows_per_step)
        epoch, place = divmod(number - 1, -(-self.source.rows // self.rows_per_step))
        order = epoch_order(self.source.rows, seed=self.seed, epoch=epoch if self.shuffle else None)
        return order[place * self.rows_per_step : (place + 1) * self.rows_per_step]

    def stream_after(self, steps: int) -> np.ndarray | None:
        """The stream of the first `steps` steps, over all readers; None where rows have no digests in advance."""
        if not isinstance(self.source, StoredRows):
            return None
        of_rows = self.source.row_streams()
        times = np.zeros(len(of_rows), np.uint32)
        epochs, rest = divmod(steps, -(-self.source.rows // self.rows_per_step))
        times += np.uint32(epochs)
        for place in range(rest):
            times[self.rows_of_step(steps - place)] += 1
        return (of_rows * times[:, None]).sum(axis=0, dtype=np.uint32)

    def _batch(self, rows: np.ndarray) -> Batch:
        return shift([document for row in rows.tolist() for document in self.source.row(row)])


@lru_cache(maxsize=2)
def epoch_order(rows: int, *, seed: int, epoch: int | None) -> np.ndarray:
    """The order of an epoch's rows; None is the order of the file.

    Sorted by raw draws of PCG64, whose stream numpy promises not to change: a run resumed under a later numpy
    goes on where it was.
    """
    if epoch is None:
        return np.arange(rows)
    draws = np.random.PCG64(np.random.SeedSequence([seed % 2**64, epoch])).random_raw(rows)
    return np.argsort(draws, kind="stable")


def shift(documents: Sequence[Stored]) -> Batch:
    """Conversations one after the other, each token set beside the one that follows it."""
    lengths_D = np.array([len(document.token_ids) for document in documents], np.int64)
    inputs_T = np.concatenate([document.token_ids for document in documents]).astype(np.int64)
    learned_T = np.where(np.concatenate([document.loss_mask for document in documents]) > 0, inputs_T, IGNORED)
    ends_D = np.cumsum(lengths_D)
    targets_T = np.roll(learned_T, -1)
    # The last token of a conversation has no successor, so its target stays empty.
    targets_T[ends_D - 1] = IGNORED
    positions_T = np.arange(len(inputs_T)) - np.repeat(ends_D - lengths_D, lengths_D)
    return Batch(inputs_T, targets_T, positions_T, lengths_D)


@dataclass(frozen=True)
class StoredRows:
    """Rows of a token store."""

    store: TokenStore
    documents: np.ndarray
    """Numbers in the store of the conversations that are used."""
    packed: Rows
    row_tokens: int

    @property
    def rows(self) -> int:
        return len(self.packed)

    def row(self, number: int) -> list[Stored]:
        return [self._cut(int(self.documents[place])) for place in self.packed[number]]

    def row_streams(self) -> np.ndarray:
        """uint32 [rows, LANES]: the sum of each row's digests."""
        digests = self.store.digests[self.documents]
        for place in np.flatnonzero(self.store.lengths[self.documents] > self.row_tokens).tolist():
            digests[place] = stream.digest(*self._cut(int(self.documents[place])))
        return self.packed.sums(digests)

    def _cut(self, document: int) -> Stored:
        token_ids, loss_mask = self.store[document]
        return Stored(token_ids[: self.row_tokens], loss_mask[: self.row_tokens])


@dataclass(frozen=True)
class FakeRows:
    """Made-up rows without end; the same for the same seed and number, whatever else was asked before."""

    row_tokens: int
    vocabulary: int
    variable: bool = False
    random: bool = False
    seed: int = 0

    @property
    def rows(self) -> None:
        return None

    def row(self, number: int) -> list[Stored]:
        """One conversation, all of it trained: `row_tokens` long, or of any length from 2 to that."""
        length = self.length(number)
        if self.random:
            token_ids = self._draws(number, 1).integers(0, self.vocabulary, length, dtype=np.uint32)
        else:
            token_ids = (np.arange(number, number + length) % self.vocabulary).astype(np.uint32)
        loss_mask = np.ones(length, np.uint8)
        loss_mask[0] = 0
        return [Stored(token_ids, loss_mask)]

    def length(self, number: int) -> int:
        if not self.variable:
            return self.row_tokens
        return int(self._draws(number, 0).integers(min(2, self.row_tokens), self.row_tokens + 1))

    def _draws(self, number: int, purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed % 2**64, number, purpose])))
