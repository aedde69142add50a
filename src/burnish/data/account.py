"""What becomes of every sample in rows of a given length, and the sums of it. The figures add up to the last token."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from burnish.data.store import TokenStore
from burnish.run.events import DataFacts, Share

TOO_LONG = "too long"
NOTHING_TRAINED = "no trained token"
NOT_DRAWN = "not drawn"


@dataclass(frozen=True)
class Fate:
    """Of each sample in a store. All arrays are [samples]."""

    lengths: np.ndarray
    """Tokens that fit a row."""
    trained: np.ndarray
    """Trained tokens among them."""
    dropped: dict[str, np.ndarray]
    """By reason, which samples are dropped; no sample has two."""

    @property
    def used(self) -> np.ndarray:
        gone = np.zeros(len(self.lengths), bool)
        for which in self.dropped.values():
            gone |= which
        return ~gone

    def drawing(self, epoch: np.ndarray) -> "Fate":
        """The same where an epoch is of these samples alone, by number."""
        drawn = np.zeros(len(self.lengths), bool)
        drawn[epoch] = True
        return Fate(self.lengths, self.trained, {**self.dropped, NOT_DRAWN: self.used & ~drawn})


def decide_fate(store: TokenStore, *, row_tokens: int, overflow: Literal["drop", "truncate", "error"]) -> Fate:
    """Samples longer than a row are dropped or cut; those that then train nothing are dropped."""
    lengths, trained = store.lengths.copy(), store.trained.copy()
    long = lengths > row_tokens
    too_long = long if overflow == "drop" else np.zeros_like(long)
    for sample in np.flatnonzero(long & ~too_long).tolist():
        lengths[sample] = row_tokens
        trained[sample] = np.count_nonzero(store[sample].loss_mask[:row_tokens])
    return Fate(lengths, trained, {TOO_LONG: too_long, NOTHING_TRAINED: ~too_long & (trained == 0)})


def count_all(
    store: TokenStore, fate: Fate, epoch: np.ndarray, *, rows: int, row_tokens: int, stream: str
) -> DataFacts:
    """The whole account. A row of the data counts as used as long as one of its samples is.

    `epoch` are the samples that one learns from, by number; those that are in it twice count as repeated.
    """
    ledger, used = store.ledger, fate.used
    again = np.bincount(epoch, minlength=len(used)) - used
    assert again.min(initial=0) >= 0, "each used sample is in the epoch, and no other"
    counted = np.unique(store.rows[used])
    for reason, which in fate.dropped.items():
        lost = np.setdiff1d(store.rows[which], counted)
        counted = np.union1d(counted, lost)  # a row with two reasons counts under the first
        ledger.unuse(len(lost), reason)
    ledger.check()
    cut = used & (store.lengths > fate.lengths)
    tokens = int(fate.lengths[epoch].sum())
    return DataFacts(
        conversations_read=ledger.read,
        conversations_used=ledger.used,
        conversations_cut=int(cut.sum()),
        conversations_dropped={reason: count for reason, count in ledger.dropped.items() if count},
        samples=len(epoch),
        samples_dropped=_sums(fate, np.ones_like(store.lengths)),
        tokens=tokens,
        trained_tokens=int(fate.trained[epoch].sum()),
        samples_repeated=int(again.sum()),
        tokens_repeated=int((again * fate.lengths).sum()),
        trained_tokens_repeated=int((again * fate.trained).sum()),
        tokens_cut=int((store.lengths - fate.lengths)[cut].sum()),
        trained_tokens_cut=int((store.trained - fate.trained)[cut].sum()),
        tokens_dropped=_sums(fate, store.lengths),
        trained_tokens_dropped=_sums(fate, store.trained),
        thoughts_lost=int(store.thoughts_lost[used].sum()),
        sources=_shares(store, fate, epoch),
        rows=rows,
        pad_share=1 - tokens / (rows * row_tokens) if rows else 0.0,
        stream=stream,
    )


def loss_sentences(facts: DataFacts) -> list[str]:
    """What a user must know before step 1: `5 of 8 rows dropped (too long)`."""
    read, dropped = facts.conversations_read, facts.conversations_dropped
    said = [f"{count} of {read} rows dropped ({reason})" for reason, count in sorted(dropped.items())]
    parts = sum(facts.samples_dropped.values()) - sum(dropped.get(reason, 0) for reason in facts.samples_dropped)
    if parts > 0:
        said.append(f"{parts} samples more dropped, of rows that were split by turn")
    if facts.conversations_cut:
        said.append(
            f"{facts.conversations_cut} of {read} rows cut to the row's length ({facts.tokens_cut} tokens lost, "
            f"{facts.trained_tokens_cut} of them trained)"
        )
    if facts.samples_repeated:
        said.append(f"{facts.samples_repeated} of {facts.samples} samples are of rows that an epoch reads again")
    if facts.thoughts_lost:
        said.append(f"{facts.thoughts_lost} earlier turns trained without their thoughts (data.history_thinking)")
    return said


def _sums(fate: Fate, amounts: np.ndarray) -> dict[str, int]:
    """By reason, what the dropped samples amount to."""
    return {reason: int(amounts[which].sum()) for reason, which in fate.dropped.items() if which.any()}


def _shares(store: TokenStore, fate: Fate, epoch: np.ndarray) -> dict[str, Share]:
    if len(store.sources) < 2:
        return {}
    shares = {}
    for place, name in enumerate(store.sources):
        mine = epoch[store.source_of[epoch] == place]
        shares[name] = Share(
            conversations=len(np.unique(store.rows[mine])),
            samples=len(mine),
            tokens=int(fate.lengths[mine].sum()),
            trained_tokens=int(fate.trained[mine].sum()),
        )
    return shares
