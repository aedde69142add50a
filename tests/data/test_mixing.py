import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.data.mixing import Drawn, Stop, draw_epoch, expected_rows, samples_of

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)
STOPS: st.SearchStrategy[Stop] = st.sampled_from(["first_exhausted", "all_exhausted"])


def _told(drawn: Drawn) -> list[tuple[int, int]]:
    return list(zip(drawn.sources.tolist(), drawn.rows.tolist(), strict=True))


def _one_by_one(sizes: list[int], sources: list[int], stop: Stop) -> list[tuple[int, int]]:
    """The meaning, spelt out: take a row of each drawn source until one, or all, were at their end."""
    told, at, ended = [], [0] * len(sizes), [False] * len(sizes)
    for source in sources:
        told.append((source, at[source]))
        at[source] += 1
        if at[source] == sizes[source]:
            at[source], ended[source] = 0, True
        if all(ended) if stop == "all_exhausted" else any(ended):
            return told
    raise AssertionError("the draws do not reach the end")


@given(SIZES, STOPS, st.integers(-5, 2**70), st.data())
def test_an_epoch_ends_where_its_words_say(sizes, stop, seed, data):
    shares = data.draw(st.lists(st.floats(0.05, 1), min_size=len(sizes), max_size=len(sizes)))
    drawn = draw_epoch(sizes, probabilities=shares, stop=stop, seed=seed)
    assert _told(drawn) == _one_by_one(sizes, drawn.sources.tolist(), stop)
    again = draw_epoch(sizes, probabilities=[3 * share for share in shares], stop=stop, seed=seed)
    assert _told(again) == _told(drawn), "neither chance nor scale decides"


@given(SIZES, STOPS)
def test_without_probabilities_the_sources_take_turns(sizes, stop):
    drawn = draw_epoch(sizes, stop=stop, seed=0)
    turns = min(sizes) if stop == "first_exhausted" else max(sizes)
    assert _told(drawn) == [(source, turn % size) for turn in range(turns) for source, size in enumerate(sizes)]
    assert len(drawn.sources) == expected_rows(sizes, stop=stop)


@pytest.mark.parametrize(
    ("stop", "rows"),
    [
        ("first_exhausted", [0, 3, 7, 1, 4, 8, 2, 5, 9]),
        ("all_exhausted", [0, 3, 7, 1, 4, 8, 2, 5, 9, 0, 6, 10, 1, 3, 11]),
    ],
)
def test_turns_are_those_of_interleave_datasets(stop, rows):
    """The worked example of its documentation: sizes 3, 4 and 5."""
    drawn = draw_epoch([3, 4, 5], stop=stop, seed=0)
    assert (np.array([0, 3, 7])[drawn.sources] + drawn.rows).tolist() == rows


def test_sources_are_drawn_as_often_as_asked_and_the_draws_never_change():
    drawn = draw_epoch([200_000, 200_000], probabilities=[0.7, 0.3], stop="first_exhausted", seed=0)
    assert abs(np.mean(drawn.sources == 0) - 0.7) < 0.005
    assert abs(len(drawn.sources) - 200_000 / 0.7) < 2000
    assert expected_rows([200_000, 200_000], probabilities=[0.7, 0.3], stop="first_exhausted") == 200_000 / 0.7
    assert draw_epoch([9, 9], probabilities=[0.5, 0.5], stop="first_exhausted", seed=1).sources.tolist() == STREAM
    assert draw_epoch([9, 9], probabilities=[0.5, 0.5], stop="first_exhausted", seed=2).sources.tolist() != STREAM


STREAM = [0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0]


@given(SIZES, STOPS, st.data())
def test_a_row_that_is_drawn_brings_all_its_samples(sizes, stop, data):
    each = [data.draw(st.lists(st.integers(1, 3), min_size=size, max_size=size)) for size in sizes]
    row_of = [(source, row) for source, rows in enumerate(each) for row, many in enumerate(rows) for _ in range(many)]
    numbers = {row: 10 * place for place, row in enumerate(dict.fromkeys(row_of))}
    samples = np.arange(len(row_of)) * 3 + 1  # others in between may not be used
    drawn = draw_epoch(sizes, stop=stop, seed=0)
    found = samples_of(
        drawn, samples, np.array([numbers[row] for row in row_of]), np.array([source for source, _ in row_of])
    )
    wanted = [place for row in _told(drawn) for place, of in enumerate(row_of) if of == row]
    assert found.tolist() == samples[wanted].tolist()
