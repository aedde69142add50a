from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.data.rows import pack_rows


def _plain_best_fit(lengths: list[int], row_tokens: int) -> int:
    """Rows that the textbook's best-fit decreasing needs, one conversation at a time."""
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
            rooms.append(min(fitting) - length)
        else:
            rooms.append(row_tokens - length)
    return len(rooms)


LENGTHS = st.integers(1, 40).flatmap(lambda most: st.tuples(st.lists(st.integers(1, most), max_size=60), st.just(most)))


@given(LENGTHS)
def test_every_conversation_is_in_one_row_and_no_row_is_too_long(case):
    lengths, row_tokens = case
    rows = pack_rows(lengths, row_tokens=row_tokens)
    assert sorted(number for row in rows for number in row.tolist()) == list(range(len(lengths)))
    assert all(sum(lengths[number] for number in row.tolist()) <= row_tokens for row in rows)


@given(LENGTHS)
def test_many_at_once_need_no_more_rows_than_one_by_one(case):
    lengths, row_tokens = case
    assert len(pack_rows(lengths, row_tokens=row_tokens)) == _plain_best_fit(lengths, row_tokens)


@given(LENGTHS)
def test_rows_and_what_is_in_them_follow_the_order_of_the_file(case):
    lengths, row_tokens = case
    rows = [row.tolist() for row in pack_rows(lengths, row_tokens=row_tokens)]
    assert rows == sorted(rows) and all(row == sorted(row) for row in rows)


def test_three_that_fill_a_row_exactly_share_it():
    assert [row.tolist() for row in pack_rows([41, 42, 41], row_tokens=124)] == [[0, 1, 2]]
    assert len(pack_rows([41, 42, 42], row_tokens=124)) == 2


def test_without_packing_each_has_its_own_row():
    rows = pack_rows([3, 1, 2], row_tokens=8, pack=False)
    assert [row.tolist() for row in rows] == [[0], [1], [2]]
    assert rows[-1].tolist() == [2] and [row.tolist() for row in rows[1:]] == [[1], [2]]


def test_nothing_packs_into_nothing():
    assert list(pack_rows([], row_tokens=8)) == []


@pytest.mark.parametrize("lengths", [[9], [0], [4, -1]])
def test_a_length_that_no_row_can_hold_is_refused(lengths):
    with pytest.raises(ValueError, match="for rows of 8"):
        pack_rows(lengths, row_tokens=8)


def test_typical_lengths_fill_rows_to_the_last_thousandth():
    lengths = np.random.default_rng(0).lognormal(5.3, 0.8, 50_000).astype(int).clip(1, 2048)
    rows = pack_rows(lengths, row_tokens=2048)
    assert lengths.sum() / (len(rows) * 2048) > 0.999


def test_packing_grows_no_faster_than_the_data():
    lengths = np.random.default_rng(0).integers(1, 1025, 200_000)

    def seconds(count: int) -> float:
        started = perf_counter()
        pack_rows(lengths[:count], row_tokens=1024)
        return perf_counter() - started

    assert min(seconds(200_000) for _ in range(3)) < 40 * min(seconds(20_000) for _ in range(3))
