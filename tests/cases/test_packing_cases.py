"""Packing and truncation as public bug reports show them going wrong, each with the right outcome."""

import pytest

from burnish.data.loader import shift
from burnish.data.prepare import row_loader


def chat(asked: str, answer: str) -> dict:
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}


def packed_tokens(prepared) -> list[list[int]]:
    return [[len(one.token_ids) for one in prepared.source.row(row)] for row in range(prepared.source.rows)]


def test_conversations_in_one_row_keep_their_edges_and_positions(bench) -> None:
    prepared = bench.prepare([chat("The code word?", word) for word in ("Heron.", "Walrus.", "Heron.")], row_tokens=124)
    assert packed_tokens(prepared) == [[41, 42, 41]]
    batch = shift(prepared.source.row(0))
    assert batch.lengths_D.tolist() == [41, 42, 41]
    assert batch.positions_T.tolist() == [*range(41), *range(42), *range(41)]


@pytest.mark.parametrize(("overflow", "kept"), [("drop", 2), ("truncate", 3)])
def test_a_sample_longer_than_two_rows_never_makes_a_longer_row(bench, overflow: str, kept: int) -> None:
    rows = [chat("short", "one"), chat("dump", "x" * 140), chat("short", "two")]
    prepared = bench.prepare(rows, row_tokens=64, overflow=overflow)
    assert all(sum(row) <= 64 for row in packed_tokens(prepared))
    assert all(shift(prepared.source.row(row)).positions_T.max() < 64 for row in range(prepared.source.rows))
    facts = prepared.facts
    assert facts.samples == kept and facts.conversations_cut == kept - 2
    assert facts.conversations_dropped == ({"too long": 1} if overflow == "drop" else {})
    whole = [one for row in range(prepared.source.rows) for one in prepared.source.row(row) if len(one.token_ids) < 64]
    assert [int(one.loss_mask.sum()) for one in whole] == [4, 4]


def test_rows_that_are_too_long_are_counted(bench) -> None:
    rows = [chat("ok", f"fine {number}") for number in range(3)] + [chat("long", "z" * 300)] * 5
    facts = bench.prepare(rows, row_tokens=64).facts
    assert (facts.conversations_read, facts.conversations_used) == (8, 3)
    assert facts.conversations_dropped == {"too long": 5} and facts.samples_dropped == {"too long": 5}
    assert facts.tokens_dropped == {"too long": 5 * len(f"_user\nlong_\n_assistant\n{'z' * 300}_\n")}


def test_one_epoch_sees_every_row_and_the_tail_once(bench) -> None:
    rows = [chat(f"item {number}", "w" * (3 + number)) for number in range(7)]
    prepared = bench.prepare(rows, row_tokens=80, rows_per_step=2)
    assert sorted(length for row in packed_tokens(prepared) for length in row) == [30, 31, 32, 33, 34, 35, 36]
    loader = row_loader(bench.spec(row_tokens=80, rows_per_step=2), prepared)
    steps = -(-prepared.source.rows // 2)
    trained = sum(batch.trained_tokens for step in range(1, steps + 1) for batch in loader.step(step))
    assert trained == 49 == prepared.facts.trained_tokens
