"""From files to batches, and what is refused or counted on the way. Lengths are byte-ChatML's."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from chat_folders import load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.data.check import Setting, check_before_run
from burnish.data.loader import IGNORED, RowLoader
from burnish.data.prepare import PreparedData, prepare_data
from burnish.errors import DataError, PlanError
from burnish.run.events import Prepared
from burnish.run.plan import plan_horizon
from burnish.spec.train import FakeData, LossMask, SourceData, TrainSpec


def chat(asked: str, answer: str) -> dict:
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}


class Bench:
    """One data set on the way to batches."""

    def __init__(self, folder: Path, tiny: Path) -> None:
        self.folder, self.tiny = folder, tiny
        self.data = folder / "data.jsonl"
        self.stores = folder / "stores"
        self.said: list[str] = []

    def write(self, rows: list[dict | str]) -> None:
        self.data.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))

    def spec(self, row_tokens: int = 512, rows_per_step: int = 2, **data) -> TrainSpec:
        source = SourceData(path="datasets/data.jsonl", **data)
        return TrainSpec(model="burnish/tiny", data=source, row_tokens=row_tokens, rows_per_step=rows_per_step, steps=9)

    def prepare(self, **wish) -> PreparedData:
        return prepare_data(
            self.spec(**wish),
            model_directory=self.tiny,
            data_path=self.data,
            store_directory=self.stores,
            say=self.said.append,
        )

    def probe(self, **wish) -> None:
        """As a submission does it."""
        check_before_run(self.spec(**wish), Setting(self.tiny, self.data, self.stores, "cpu", 1, 10**6, 10**6))

    def fault(self, **wish) -> str:
        with pytest.raises(DataError) as caught:
            self.prepare(**wish)
        return caught.value.message

    def samples(self, **wish) -> list[str]:
        """The trained text of every conversation of an epoch."""
        prepared = self.prepare(**wish)
        decode = load(self.tiny).decode
        assert prepared.source.rows is not None
        found = []
        for row in range(prepared.source.rows):
            found += [decode(one.token_ids[one.loss_mask > 0]) for one in prepared.source.row(row)]
        return found


@pytest.fixture
def bench(tmp_path: Path, tiny: Path) -> Bench:
    return Bench(tmp_path, tiny)


MIXED = [
    chat("as chat", "first"),
    {"prompt": "as text", "completion": " second"},
    {
        "messages": None,
        "prompt": [{"role": "user", "content": "as lists"}],
        "completion": [{"role": "assistant", "content": "third"}],
    },
    {**chat("both", "fourth"), "prompt": None, "completion": None},
    chat("parts", [{"type": "text", "text": "fif"}, {"type": "text", "text": "th"}]),  # type: ignore[arg-type]
    {"text": "no known columns"},
]


@pytest.mark.parametrize("reverse", [False, True])
def test_layouts_may_be_mixed_but_text_among_conversations_is_a_bad_row(bench, reverse):
    bench.write(MIXED[::-1] if reverse else MIXED)
    line = 1 if reverse else 6
    assert f"1 of 6 rows cannot be used: data.jsonl:{line}: only a text column" in bench.fault()
    with pytest.raises(DataError, match=rf"data\.jsonl:{line}: only a text column"):
        bench.probe()
    expected = sorted(f"{word}<|im_end|>" for word in ("first", " second", "third", "fourth", "fifth"))
    assert sorted(bench.samples(on_bad_row="skip")) == expected
    assert bench.prepare(on_bad_row="skip").facts.conversations_dropped == {"bad row": 1}


def test_a_dataset_of_text_alone_is_trained_as_text(bench):
    bench.write([{"text": "Once"}, {"text": "more"}])
    facts = bench.prepare().facts
    assert (facts.tokens, facts.trained_tokens) == (10, 8)


BAD = [
    json.dumps(chat("ok", "yes")),
    "42",
    '"context"',
    '["text"]',
    "null",
    '{"messages":[]}',
    '{"messages":[{"role":"user","content":"no answer"}]}',
    '{"messages":[{"role":"robot","content":"x"},{"role":"assistant","content":"y"}]}',
    '{"messages":[{"role":"user","content":"cut off',
]


def test_bad_rows_refuse_the_run_by_number_or_are_counted(bench):
    bench.write(BAD)
    message = bench.fault()
    assert message.startswith("8 of 9 rows cannot be used: data.jsonl:2: a number, not an object; data.jsonl:3")
    assert all(f"data.jsonl:{line}: " in message for line in range(2, 10))
    with pytest.raises(DataError, match="8 of 9 rows cannot be used"):
        bench.probe()
    bench.probe(on_bad_row="skip")
    facts = bench.prepare(on_bad_row="skip").facts
    assert (facts.conversations_read, facts.conversations_used) == (9, 1)
    assert facts.conversations_dropped == {"bad row": 8}
    assert "8 of 9 rows dropped (bad row)" in bench.said
    assert bench.fault() == message  # and the finished store does not make them good


def test_the_first_ten_bad_rows_are_listed_and_the_rest_counted(bench):
    bench.write(["42"] * 25 + [chat("a", "b")])
    message = bench.fault()
    assert message.startswith("25 of 26 rows cannot be used")
    assert message.endswith("data.jsonl:10: a number, not an object; and 15 more.")


@pytest.mark.parametrize("rows", [[], ["", "  "]])
def test_a_dataset_without_rows_is_refused(bench, rows):
    bench.write(rows)
    for refused in (bench.prepare, bench.probe):
        with pytest.raises(DataError, match="the dataset has no rows"):
            refused()


def test_a_missing_dataset_is_named_as_the_user_wrote_it(bench):
    for refused in (bench.prepare, bench.probe):
        with pytest.raises(DataError, match=r"^datasets/data\.jsonl does not exist; datasets holds: nothing"):
            refused()


def test_too_long_conversations_are_dropped_and_counted(bench):
    bench.write([chat("ok", f"fine {number}") for number in range(3)] + [chat("long", "z" * 400)] * 5)
    facts = bench.prepare(row_tokens=64).facts
    assert (facts.conversations_read, facts.conversations_used, facts.conversations_cut) == (8, 3, 0)
    assert facts.conversations_dropped == {"too long": 5}
    assert "5 of 8 rows dropped (too long)" in bench.said


def test_a_conversation_longer_than_two_rows_is_cut_to_one_where_that_is_asked_for(bench):
    bench.write([chat("short", "one"), chat("dump", "x" * 150), chat("short", "two")])
    prepared = bench.prepare(row_tokens=64, overflow="truncate")
    facts = prepared.facts
    assert (facts.conversations_used, facts.conversations_cut, facts.conversations_dropped) == (3, 1, {})
    assert facts.tokens == 29 + 64 + 29
    batches = RowLoader(prepared.source, 1, 1, shuffle=False)
    steps = [batches.step(step)[0] for step in (1, 2)]
    assert max(batch.tokens for batch in steps) <= 64
    assert max(batch.positions_T.max() for batch in steps) < 64
    assert sum(batch.trained_tokens for batch in steps) == facts.trained_tokens == 4 + 4 + 64 - 23


def test_a_conversation_too_long_may_be_an_error_that_names_it(bench):
    bench.write([chat("short", "one"), chat("dump", "x" * 150)])
    assert "1 of 2 rows are longer than seq_len (64 tokens), the first is data.jsonl:2 with 175" in bench.fault(
        row_tokens=64, overflow="error"
    )


def test_a_cut_that_leaves_nothing_trained_drops_the_conversation(bench):
    bench.write([chat("short", "one"), chat("q" * 150, "x")])
    facts = bench.prepare(row_tokens=64, overflow="truncate").facts
    assert (facts.conversations_used, facts.conversations_cut) == (1, 0)
    assert facts.conversations_dropped == {"no trained token": 1}


def test_nothing_left_to_train_on_is_refused_with_the_counts(bench):
    bench.write([chat("long", "z" * 400)] * 2)
    assert "2 of 2 rows dropped (too long)" in bench.fault(row_tokens=64)
    with pytest.raises(DataError, match=r"2 of 2 rows dropped \(too long\)"):
        bench.probe(row_tokens=64)
    with pytest.raises(DataError, match="no trained token"):
        bench.probe(loss_mask=LossMask(assistant=False))


def test_the_last_row_and_the_last_step_are_not_lost(bench):
    bench.write([chat(f"item {number}", "w" * (3 + number)) for number in range(7)])
    prepared = bench.prepare(row_tokens=80)
    assert prepared.facts.trained_tokens == 49
    assert prepared.facts.tokens == sum(range(30, 37))
    loader = RowLoader(prepared.source, rows_per_step=2, rows_per_device=1, shuffle=False)
    steps = plan_horizon(bench.spec(row_tokens=80), rows_per_epoch=prepared.rows_per_epoch).steps_per_epoch
    trained = [sum(batch.trained_tokens for batch in loader.step(step)) for step in range(1, steps + 1)]
    assert sum(trained) == 49


def test_conversations_share_a_row_and_each_starts_anew(bench):
    bench.write([chat("The code word?", word) for word in ("Heron.", "Walrus.", "Heron.")])
    (batch,) = RowLoader(bench.prepare(row_tokens=124).source, 3, 1).step(1)
    assert batch.lengths_D.tolist() == [41, 42, 41]
    assert [int(batch.positions_T[place]) for place in (0, 40, 41, 83)] == [0, 40, 0, 0]
    assert [int(batch.targets_T[place]) for place in (40, 82, 123)] == [IGNORED] * 3


def test_the_facts_are_the_diarys_own_fields(bench):
    bench.write([chat("a", "b")])
    facts = bench.prepare().facts
    event = Prepared(**vars(facts), steps=9, steps_per_epoch=1)
    assert event.tokens == facts.tokens and event.pad_share == pytest.approx(1 - facts.tokens / 512)


def test_a_second_run_reads_the_store_and_other_wishes_do_not(bench):
    bench.write([chat("a", "b"), chat("c", "d" * 80)])

    def built(**wish) -> bool:
        bench.said.clear()
        bench.prepare(**wish)
        return any(said.startswith("Tokenised") for said in bench.said)

    assert built()
    assert not built()
    assert not built(row_tokens=64)  # packed anew, from the same tokens
    assert built(loss_mask=LossMask(user=True))
    bench.write([chat("a", "b"), chat("c", "e" * 80)])
    assert built()
    assert not built()
    assert {len(entry.name) for entry in bench.stores.iterdir()} == {32}


def test_a_store_that_was_never_finished_is_not_read(bench):
    bench.write([chat("a", "b")])
    before = bench.prepare()
    (store,) = bench.stores.iterdir()
    (store / "manifest.json").unlink()
    (store / "tokens.u32").write_bytes(b"torn")
    assert bench.prepare().facts == before.facts
    assert len(list(bench.stores.glob("[!.]*"))) == 1


PREPARE = """
import sys
from pathlib import Path
from burnish.data.prepare import prepare_data
from burnish.spec.train import SourceData, TrainSpec
data, model, stores = map(Path, sys.argv[1:])
spec = TrainSpec(model="burnish/tiny", data=SourceData(path=str(data)), steps=1)
print("ready", flush=True)
sys.stdin.readline()
facts = prepare_data(spec, model_directory=model, data_path=data, store_directory=stores, say=lambda _: None).facts
print(facts.tokens, facts.rows)
"""


def test_two_processes_preparing_the_same_data_at_once_both_end_well(bench):
    bench.write([chat(f"question {number}", "answer " * (number % 20)) for number in range(2000)])
    command = [sys.executable, "-c", PREPARE, str(bench.data), str(bench.tiny), str(bench.stores)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        assert all(process.stdout and process.stdout.readline() == b"ready\n" for process in both)
        for process in both:
            assert process.stdin
            process.stdin.write(b"\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[0] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert said[0] == said[1] != b"" and [process.returncode for process in both] == [0, 0]
    assert len(list(bench.stores.glob("[!.]*"))) == 1


ROWS = st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.integers(70, 200))
def test_neither_packing_nor_the_order_of_rows_changes_what_is_trained(bench, rows, row_tokens):
    bench.write([chat(*row) for row in rows])
    packed = bench.prepare(row_tokens=row_tokens, overflow="truncate").facts
    alone = bench.prepare(row_tokens=row_tokens, overflow="truncate", pack=False).facts
    assert (packed.tokens, packed.trained_tokens) == (alone.tokens, alone.trained_tokens)
    assert packed.rows <= alone.rows
    samples = bench.samples(row_tokens=row_tokens, overflow="truncate")
    bench.write([chat(*row) for row in rows[::-1]])
    assert sorted(bench.samples(row_tokens=row_tokens, overflow="truncate")) == sorted(samples)


def test_made_up_data_needs_no_file(bench, tiny):
    spec = TrainSpec(model="burnish/tiny", data=FakeData(length="variable"), steps=3, rows_per_step=4, row_tokens=32)
    where = {"model_directory": tiny, "data_path": None}
    prepared = prepare_data(spec, **where, store_directory=bench.stores)
    loader = RowLoader(prepared.source, 4, 1)
    batches = [batch for step in (1, 2, 3) for batch in loader.step(step)]
    assert prepared.rows_per_epoch is None and prepared.facts.rows == len(batches) == 12
    assert sum(batch.tokens for batch in batches) == prepared.facts.tokens
    assert sum(batch.trained_tokens for batch in batches) == prepared.facts.trained_tokens
    assert max(int(np.max(batch.inputs_T)) for batch in batches) < 258
    with pytest.raises(PlanError, match="no end"):
        prepare_data(spec.model_copy(update={"steps": None, "epochs": 1.0}), **where, store_directory=bench.stores)


def test_made_up_data_costs_nothing_however_many_rows_it_has(tiny: Path, tmp_path: Path) -> None:
    for length in ("fixed", "variable"):
        spec = TrainSpec(model="burnish/tiny", data=FakeData(length=length), row_tokens=64, steps=10**12)
        facts = prepare_data(spec, model_directory=tiny, data_path=None, store_directory=tmp_path).facts
        assert facts.rows == 8 * 10**12
        assert facts.tokens == 64 * facts.rows if length == "fixed" else 0.4 < facts.pad_share < 0.6
