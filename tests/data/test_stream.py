"""What the trainer says it learnt from is what the data said it would be given."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.data import stream
from burnish.data.loader import RowLoader, shift
from burnish.data.prepare import prepare_data, row_loader
from burnish.data.store import Stored
from burnish.spec.train import SourceData, TrainSpec

ROWS = [
    {"messages": [{"role": "user", "content": f"item {number}"}, {"role": "assistant", "content": "w" * (3 + number)}]}
    for number in range(11)
]


@pytest.fixture
def prepared(tiny: Path, tmp_path: Path):
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def prepare(**changes):
        data = SourceData(path="train.jsonl", **{"overflow": "truncate", **changes})
        spec = TrainSpec(model="burnish/tiny", data=data, row_tokens=36, rows_per_step=2, steps=9)
        place: dict[str, Any] = {
            "model_directory": tiny,
            "data_path": tmp_path / "train.jsonl",
            "store_directory": tmp_path / "stores",
        }
        return spec, prepare_data(spec, **place, say=lambda _: None)

    return prepare


def expected(loader: RowLoader, steps: int) -> str:
    total = loader.stream_after(steps)
    assert total is not None
    return stream.to_text(total)


@pytest.mark.parametrize("steps", [1, 5, 6, 9, 14])
def test_what_is_learnt_in_so_many_steps_is_known_before(prepared, steps: int) -> None:
    spec, data = prepared()
    loader = row_loader(spec, data)
    consumed = [batch.stream() for number in range(1, steps + 1) for batch in loader.step(number)]
    assert stream.to_text(stream.added(consumed)) == expected(loader, steps)


def test_readers_together_learn_the_same(prepared) -> None:
    spec, data = prepared()
    parts = [row_loader(spec, data, readers=2, reader=reader) for reader in (0, 1)]
    consumed = [batch.stream() for number in range(1, 8) for part in parts for batch in part.step(number)]
    assert stream.to_text(stream.added(consumed)) == expected(row_loader(spec, data), 7)


def test_the_epoch_has_one_hash_whatever_its_order(prepared) -> None:
    streams = {prepared(shuffle=shuffle, seed=seed)[1].facts.stream for shuffle in (True, False) for seed in (0, 1)}
    assert len(streams) == 1


def test_another_mask_is_another_stream(prepared) -> None:
    masks = ({"assistant": True}, {"assistant": True, "user": True})
    assert len({prepared(loss_mask=mask)[1].facts.stream for mask in masks}) == 2


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2**32 - 1), st.booleans()), min_size=1, max_size=9), min_size=1, max_size=5
    )
)
def test_a_batch_gives_back_ids_and_mask_of_each_conversation(documents: list[list[tuple[int, bool]]]) -> None:
    stored = []
    for document in documents:
        mask = np.array([trained for _, trained in document], np.uint8)
        mask[0] = 0  # the first token has no predecessor
        stored.append(Stored(np.array([token for token, _ in document], np.uint32), mask))
    assert (shift(stored).stream() == stream.added(stream.digest(*each) for each in stored)).all()


@given(st.binary(min_size=16, max_size=16))
def test_a_sum_survives_being_written(data: bytes) -> None:
    total = np.frombuffer(data, "<u4")
    assert (stream.to_sum(stream.to_text(total)) == total).all()
