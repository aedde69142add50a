"""From several sources to the rows of an epoch, with an account that adds up."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from chat_folders import load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.data.account import NOT_DRAWN, TOO_LONG
from burnish.data.prepare import PreparedData, prepare_data
from burnish.data.store import open_store
from burnish.errors import DataError
from burnish.spec.train import SourceData, TrainSpec


class Mixture:
    """A data set of the subsets `a`, `b` and `c`, with so many rows each: `a0`, `a1`, ..."""

    def __init__(self, folder: Path, tiny: Path) -> None:
        self.folder, self.tiny = folder, tiny
        self.stores = folder / "stores"

    def write(self, **rows: int) -> None:
        for name, count in rows.items():
            place = self.folder / "data" / name
            place.mkdir(parents=True, exist_ok=True)
            answers = [f"{name}{row}" for row in range(count)]
            turns = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": said}] for said in answers]
            (place / "train.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in turns))

    def prepare(self, **wish) -> PreparedData:
        wish = {"subsets": ("a", "b", "c"), **wish}
        row_tokens = wish.pop("row_tokens", 64)
        spec = TrainSpec(model="t", data=SourceData(path="data", **wish), row_tokens=row_tokens, steps=1)
        return prepare_data(
            spec,
            model_directory=self.tiny,
            data_path=self.folder / "data",
            store_directory=self.stores,
            say=lambda _: None,
        )

    def said(self, prepared: PreparedData) -> list[str]:
        decode, found = load(self.tiny).decode, []
        assert prepared.source.rows is not None
        for row in range(prepared.source.rows):
            found += [decode(each.token_ids[each.loss_mask > 0]) for each in prepared.source.row(row)]
        return [text.removesuffix("<|im_end|>") for text in found]


@pytest.fixture
def mixture(tmp_path: Path, tiny: Path) -> Mixture:
    return Mixture(tmp_path, tiny)


def test_without_words_on_mixing_each_row_of_each_source_is_read_once(mixture):
    mixture.write(a=3, b=1, c=2)
    prepared = mixture.prepare()
    assert sorted(mixture.said(prepared)) == ["a0", "a1", "a2", "b0", "c0", "c1"]
    assert {name: share.samples for name, share in prepared.facts.sources.items()} == {
        "a/train": 3,
        "b/train": 1,
        "c/train": 2,
    }
    assert prepared.facts.samples_repeated == 0


def test_the_first_that_ends_may_end_the_epoch_and_the_rest_is_counted(mixture):
    mixture.write(a=3, b=1, c=2)
    facts = (prepared := mixture.prepare(stopping_strategy="first_exhausted", pack=False)).facts
    assert mixture.said(prepared) == ["a0", "b0", "c0"]
    assert facts.conversations_dropped == {NOT_DRAWN: 3} and facts.conversations_used == 3


def test_the_last_that_ends_may_end_the_epoch_and_what_is_read_again_is_counted(mixture):
    mixture.write(a=3, b=1, c=2)
    facts = (prepared := mixture.prepare(stopping_strategy="all_exhausted", pack=False)).facts
    assert mixture.said(prepared) == ["a0", "b0", "c0", "a1", "b0", "c1", "a2", "b0", "c0"]
    assert (facts.samples, facts.samples_repeated, facts.conversations_used) == (9, 3, 6)
    assert facts.sources["b/train"].samples == 3 and facts.sources["b/train"].conversations == 1


def test_probabilities_alone_go_on_until_every_row_was_read(mixture):
    mixture.write(a=5, b=40, c=10)
    prepared = mixture.prepare(probabilities=(0.6, 0.2, 0.2))
    counts = Counter(mixture.said(prepared))
    assert len(counts) == 55, "each row at least once"
    assert prepared.facts.sources["a/train"].samples > 80, "sixty in a hundred, of about two hundred"
    again = Counter(mixture.said(mixture.prepare(probabilities=(0.6, 0.2, 0.2))))
    assert again == counts
    assert Counter(mixture.said(mixture.prepare(probabilities=(0.6, 0.2, 0.2), seed=1))) != counts


def test_a_source_without_a_row_cannot_be_drawn_from(mixture):
    mixture.write(a=3, b=0, c=2)
    with pytest.raises(DataError, match=r"b/train has no row left to draw from\."):
        mixture.prepare(stopping_strategy="all_exhausted")
    assert mixture.prepare().facts.samples == 5


def test_an_epoch_without_end_is_refused_before_it_is_drawn(mixture):
    mixture.write(a=3, b=2, c=2)
    with pytest.raises(DataError, match=r"an epoch has about 2,\d+,\d+,\d+ rows"):
        mixture.prepare(probabilities=(0.5, 0.5, 1e-9))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.tuples(st.integers(1, 120), st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from(["first_exhausted", "all_exhausted", None]),
    st.sampled_from([(), (0.5, 0.3, 0.2)]),
    st.sampled_from(["drop", "truncate"]),
)
def test_the_account_adds_up_whatever_is_mixed(mixture, rows, stop, shares, overflow):
    mixture.write(**dict(zip("abc", rows, strict=True)))
    mixture.stores = Path(tempfile.mkdtemp(dir=mixture.folder))
    facts = (
        prepared := mixture.prepare(stopping_strategy=stop, probabilities=shares, overflow=overflow, row_tokens=25)
    ).facts
    (manifest,) = mixture.stores.glob("*/manifest.json")
    store = open_store(mixture.stores, manifest.parent.name)
    assert store is not None
    assert facts.conversations_read == facts.conversations_used + sum(facts.conversations_dropped.values())
    for tokens, again, cut, dropped, all_tokens in (
        (facts.tokens, facts.tokens_repeated, facts.tokens_cut, facts.tokens_dropped, store.lengths.sum()),
        (
            facts.trained_tokens,
            facts.trained_tokens_repeated,
            facts.trained_tokens_cut,
            facts.trained_tokens_dropped,
            store.trained.sum(),
        ),
        (facts.samples, facts.samples_repeated, 0, facts.samples_dropped, len(store)),
    ):
        assert tokens - again + cut + sum(dropped.values()) == all_tokens
    read = [prepared.source.row(row) for row in range(prepared.source.rows or 0)]
    assert facts.tokens == sum(len(each.token_ids) for row in read for each in row)
    assert facts.tokens == sum(share.tokens for share in facts.sources.values())
    assert (TOO_LONG in facts.samples_dropped) == (overflow == "drop" and rows[0] > 100)
