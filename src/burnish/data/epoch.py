"""Which samples an epoch learns from, where the wish mixes several sources and where it does not."""

import numpy as np

from burnish.data.account import Fate
from burnish.data.mixing import MOST_ROWS, Stop, draw_epoch, expected_rows, samples_of
from burnish.data.sources import source_labels
from burnish.data.store import TokenStore
from burnish.errors import DataError
from burnish.spec.train import SourceData


def epoch_samples(data: SourceData, store: TokenStore, fate: Fate) -> np.ndarray:
    """Numbers of the samples that an epoch learns from, in order: each once, or as its sources are drawn."""
    samples = np.flatnonzero(fate.used)
    if not is_mixed(data) or mixing_fault(data, store, fate):
        return samples
    sources, rows = _usable_rows(data, store, fate)
    drawn = draw_epoch(rows, probabilities=data.probabilities, stop=_stop(data), seed=data.seed)
    return samples_of(drawn, samples, store.rows[samples], sources[store.source_of[samples]])


def is_mixed(data: SourceData) -> bool:
    several = len(source_labels(data.splits, data.subsets)) > 1
    return several and bool(data.probabilities or data.stopping_strategy)


def mixing_fault(data: SourceData, store: TokenStore, fate: Fate) -> DataError | None:
    """Why the mixture that is asked for cannot be drawn; then `epoch_samples` takes each sample once."""
    labels, rows = source_labels(data.splits, data.subsets), _usable_rows(data, store, fate)[1]
    if 0 in rows:
        return DataError(
            f"{labels[rows.index(0)]} has no row left to draw from.", hint="Leave it out of the mixture, or mend it."
        )
    expected = expected_rows(rows, probabilities=data.probabilities, stop=_stop(data))
    if expected > MOST_ROWS:
        return DataError(
            f"With these probabilities an epoch has about {expected:,.0f} rows, as it ends when the last source does.",
            hint='Draw more often from the largest source, or set stopping_strategy = "first_exhausted".',
        )
    return None


def _usable_rows(data: SourceData, store: TokenStore, fate: Fate) -> tuple[np.ndarray, list[int]]:
    """For each source of the store its place in the wish; and how many usable rows each source of the wish has."""
    labels = source_labels(data.splits, data.subsets)
    places = np.array([labels.index(label) for label in store.sources], np.int64)
    first = np.unique(store.rows[fate.used], return_index=True)[1]
    found = places[store.source_of[fate.used][first]]
    return places, np.bincount(found, minlength=len(labels)).tolist()


def _stop(data: SourceData) -> Stop:
    return data.stopping_strategy or "all_exhausted"
