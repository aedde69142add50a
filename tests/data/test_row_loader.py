import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.data.loader import IGNORED, FakeRows, RowLoader, epoch_order, shift
from burnish.data.store import Stored


class Numbered:
    """Row n is one conversation of the tokens n, n, n+1."""

    def __init__(self, rows: int | None) -> None:
        self.rows = rows

    def row(self, number: int) -> list[Stored]:
        return [Stored(np.array([number, number, number + 1], np.uint32), np.array([0, 0, 1], np.uint8))]


def _rows(loader: RowLoader, step: int) -> list[int]:
    return [int(token) for batch in loader.step(step) for token in batch.inputs_T[::3]]


def test_the_shift_worked_out_by_hand():
    one = Stored(np.array([5, 6, 7], np.uint32), np.array([0, 1, 1], np.uint8))
    two = Stored(np.array([8, 9], np.uint32), np.array([0, 1], np.uint8))
    three = Stored(np.array([4], np.uint32), np.array([0], np.uint8))
    batch = shift([one, two, three])
    assert batch.inputs_T.tolist() == [5, 6, 7, 8, 9, 4]
    assert batch.targets_T.tolist() == [6, 7, IGNORED, 9, IGNORED, IGNORED]
    assert batch.positions_T.tolist() == [0, 1, 2, 0, 1, 0]
    assert batch.lengths_D.tolist() == [3, 2, 1]
    assert (batch.tokens, batch.trained_tokens) == (6, 3)
    assert batch.inputs_T.dtype == batch.targets_T.dtype == batch.positions_T.dtype == np.int64


DOCUMENTS = st.lists(
    st.lists(st.tuples(st.integers(0, 300), st.booleans()), min_size=1, max_size=9), min_size=1, max_size=6
)


@given(DOCUMENTS)
def test_every_trained_token_is_the_target_of_the_token_before_it(documents):
    stored = [
        Stored(
            np.array([token for token, _ in document], np.uint32),
            np.array([trained and place > 0 for place, (_, trained) in enumerate(document)], np.uint8),
        )
        for document in documents
    ]
    batch, start = shift(stored), 0
    for each in stored:
        for place in range(len(each.token_ids)):
            learned = place + 1 < len(each.token_ids) and each.loss_mask[place + 1]
            target = int(each.token_ids[place + 1]) if learned else IGNORED
            assert batch.targets_T[start + place] == target
        start += len(each.token_ids)
    assert batch.trained_tokens == sum(int(each.loss_mask.sum()) for each in stored)


CASES = st.tuples(st.integers(1, 30), st.integers(1, 8), st.integers(1, 3), st.integers(1, 4), st.booleans())


@settings(deadline=None)
@given(CASES, st.integers(0, 3))
def test_an_epoch_visits_every_row_once_and_readers_share_it_out(case, epoch):
    rows, per_step, per_device, readers, shuffle = case
    loaders = [
        RowLoader(Numbered(rows), per_step, per_device, readers=readers, reader=reader, shuffle=shuffle)
        for reader in range(readers)
    ]
    steps = -(-rows // per_step)
    seen = []
    for step in range(epoch * steps + 1, (epoch + 1) * steps + 1):
        shares = [_rows(loader, step) for loader in loaders]
        whole = loaders[0].rows_of_step(step).tolist()
        assert sorted(row for share in shares for row in share) == sorted(whole)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert all(len(batch.lengths_D) <= per_device for loader in loaders for batch in loader.step(step))
        seen += whole
    assert sorted(seen) == list(range(rows))


def test_the_tail_of_an_epoch_is_a_short_step_of_its_own():
    loader = RowLoader(Numbered(10), 4, 1, shuffle=False)
    assert [len(loader.step(step)) for step in (1, 2, 3, 4)] == [4, 4, 2, 4]
    assert [sum(batch.trained_tokens for batch in loader.step(step)) for step in (1, 2, 3)] == [4, 4, 2]


def test_fewer_rows_than_a_step_holds_are_a_step():
    loader = RowLoader(Numbered(3), 8, 1, shuffle=False)
    assert _rows(loader, 1) == _rows(loader, 2) == [0, 1, 2]


def test_a_loader_made_later_goes_on_where_the_first_would_be():
    first = RowLoader(Numbered(12), 2, 1, seed=7)
    assert [_rows(RowLoader(Numbered(12), 2, 1, seed=7), step) for step in range(4, 20)] == [
        _rows(first, step) for step in range(4, 20)
    ]
    in_order = RowLoader(Numbered(12), 2, 1, shuffle=False)
    assert [_rows(in_order, step) for step in (4, 5, 6)] == [[6, 7], [8, 9], [10, 11]]


def test_more_readers_read_the_same_rows_in_the_same_steps():
    alone = RowLoader(Numbered(23), 6, 1, seed=3)
    for step in range(1, 9):
        shares = [_rows(RowLoader(Numbered(23), 6, 1, readers=3, reader=reader, seed=3), step) for reader in range(3)]
        assert sorted(row for share in shares for row in share) == sorted(_rows(alone, step))


def test_epochs_have_different_orders_that_only_the_seed_decides():
    orders = [tuple(epoch_order(8, seed=7, epoch=epoch).tolist()) for epoch in range(3)]
    assert len(set(orders)) == 3 and all(sorted(order) == list(range(8)) for order in orders)
    assert tuple(epoch_order(8, seed=8, epoch=0).tolist()) not in orders
    epoch_order.cache_clear()
    assert orders == [tuple(epoch_order(8, seed=7, epoch=epoch).tolist()) for epoch in range(3)]


def test_the_order_is_the_same_on_every_machine_and_numpy():
    assert epoch_order(6, seed=0, epoch=0).tolist() == epoch_order(6, seed=2**64, epoch=0).tolist()
    assert epoch_order(6, seed=-1, epoch=1).tolist() == STORED_ORDER


STORED_ORDER = [3, 2, 0, 5, 1, 4]


@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("random", [True, False])
def test_made_up_rows_fit_are_all_trained_and_depend_on_their_number_alone(variable, random):
    source = FakeRows(row_tokens=32, vocabulary=258, variable=variable, random=random, seed=1)
    rows = [source.row(number) for number in range(20)]
    lengths = {len(one.token_ids) for (one,) in rows}
    assert max(lengths) <= 32 and (lengths == {32}) is not variable
    assert all(one.token_ids.max() < 258 for (one,) in rows)
    assert all(shift(row).trained_tokens == shift(row).tokens - 1 for row in rows)
    again = source.row(7)[0]
    assert again.token_ids.tolist() == rows[7][0].token_ids.tolist()
    other = FakeRows(row_tokens=32, vocabulary=258, variable=variable, random=random, seed=2).row(7)[0]
    assert (other.token_ids.tolist() == again.token_ids.tolist()) is (not variable and not random)


def test_made_up_data_has_no_end():
    loader = RowLoader(FakeRows(row_tokens=8, vocabulary=100), 4, 2, readers=2, reader=1)
    batches = loader.step(1000)
    assert [len(batch.lengths_D) for batch in batches] == [2]
    assert batches[0].inputs_T[0] == 3997 % 100
