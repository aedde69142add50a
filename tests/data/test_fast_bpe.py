"""The fast encoder against the `tokenizers` library, which it must match token by token or leave alone."""

import sysconfig
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC, Lowercase
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split
from tokenizers.trainers import BpeTrainer

from burnish.data.render import bpe
from burnish.data.render.bpe import FastBPE, load_fast_bpe
from burnish.data.render.vocabulary import Vocabulary
from fetch import Unreachable, fetch_family, fetch_smollm2

ALPHABET = sorted(ByteLevel.alphabet())
FAST_FAMILIES = ("qwen3", "llama3", "gptoss", "mistral_nemo", "smollm2")
FAMILIES = (*FAST_FAMILIES, "deepseek_v3")
TRICKY = st.text("ab <>|/\n\r\t'1é漢アー・゛\x07\u0301ſ¼\u200d🙂\u00a0S") | st.text()


def tokenizer(merges: list[tuple[str, str]], *, ignore_merges: bool = False, more: tuple[str, ...] = ()) -> Tokenizer:
    tokens = dict.fromkeys([*ALPHABET, *map("".join, merges), *more])
    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(BPE(vocabulary, merges, ignore_merges=ignore_merges))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return made


def plain(made: Tokenizer, texts: list[str]) -> list[list[int]]:
    made.encode_special_tokens = True
    return [each.ids for each in made.encode_batch(texts, add_special_tokens=False)]


def fast_of(made: Tokenizer) -> FastBPE:
    return FastBPE(made.to_str().encode(), lambda texts: plain(made, list(texts)))


def encoded(fast: FastBPE, texts: list[str]) -> list[list[int]]:
    ids, lengths = fast.encode(texts)
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if texts else []


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Any merges in any order, most of which no training would come to."""
    tokens, merges = ["a", "b", "c"], []
    for _ in range(draw(st.integers(1, 12))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        if pair not in merges and len("".join(pair)) < 8:
            merges.append(pair)
            tokens.append("".join(pair))
    return draw(st.permutations(merges)) if draw(st.booleans()) else merges


@settings(max_examples=500, deadline=None)
@given(merge_lists(), st.booleans(), st.lists(st.text("abc", max_size=12), min_size=1, max_size=20))
def test_whatever_the_merges_either_the_tokens_are_the_same_or_the_vocabulary_is_refused(merges, whole, texts):
    made = tokenizer(merges, ignore_merges=whole)
    try:
        fast = fast_of(made)
    except LookupError:
        return
    assert encoded(fast, texts) == plain(made, texts)


@given(st.lists(st.text("abc", min_size=1, max_size=30), min_size=1, max_size=9), st.integers(1, 30))
def test_merges_that_come_of_training_are_never_refused(texts, size):
    made = tokenizer([])
    trainer = BpeTrainer(vocab_size=256 + size, initial_alphabet=ALPHABET, show_progress=False)
    made.train_from_iterator(texts, trainer)
    assert encoded(fast_of(made), texts) == plain(made, texts)


@settings(max_examples=500, deadline=None)
@given(merge_lists(), st.lists(st.text("abc", max_size=12), min_size=1, max_size=20))
def test_where_all_pairs_are_listed_in_any_order_of_their_tokens_nothing_is_refused(merges, texts):
    tokens = dict.fromkeys(map("".join, merges))
    known = {*"abc", *tokens}
    every = [(t[:at], t[at:]) for t in tokens for at in range(1, len(t)) if t[:at] in known and t[at:] in known]
    made = tokenizer(every, ignore_merges=True)
    if len(every) > len(tokens):
        assert encoded(fast_of(made), texts) == plain(made, texts)


def test_a_token_that_merging_never_reaches_is_never_made():
    # In "abc", (b, c) is due before (a, b) is, so "abc" by (ab, c) never comes to be.
    made = tokenizer([("b", "c"), ("a", "b"), ("ab", "c")])
    assert encoded(fast_of(made), ["abc", "ab", "abcabc"]) == plain(made, ["abc", "ab", "abcabc"])
    assert made.token_to_id("abc") not in encoded(fast_of(made), ["abc"])[0]
    found_whole = tokenizer([("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")], ignore_merges=True)
    assert encoded(fast_of(found_whole), ["abc", "abcabc"]) == plain(found_whole, ["abc", "abcabc"])


def test_of_equal_pairs_the_one_further_left_is_merged_first():
    made = tokenizer([("a", "a"), ("aa", "a"), ("a", "aa")], ignore_merges=True)
    texts = ["a" * length for length in range(1, 12)]
    assert encoded(fast_of(made), texts) == plain(made, texts)


@given(st.lists(TRICKY | st.sampled_from(["a<think>b", "<think></think>", "x<|end|>y<think>", "<think>\u0338"])))
def test_added_tokens_are_found_and_special_ones_are_letters(texts):
    made = tokenizer([("a", "b"), ("t", "h")])
    made.normalizer = NFC()
    made.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    made.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    assert encoded(fast_of(made), texts) == plain(made, texts)


@given(st.lists(TRICKY))
def test_digits_that_are_cut_out_first_stay_alone(texts):
    made = tokenizer([("Ġ", "a"), ("Ġ", "Ġ"), ("a", "b")])
    made.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    texts = [*texts, "  5", "a  5", "  a", "5  ", "x55", "  ½"]
    assert encoded(fast_of(made), texts) == plain(made, texts)


@given(st.lists(TRICKY))
def test_letters_in_a_gap_of_the_pattern_are_not_lost(texts):
    made = tokenizer([("a", "b"), ("<", ">")])
    split = Split(Regex(r"\p{L}+|\p{N}"), "isolated")
    made.pre_tokenizer = Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
    texts = [*texts, "ab", "ab <> ab", "1 2"]
    assert encoded(fast_of(made), texts) == plain(made, texts)


@given(st.lists(TRICKY))
def test_a_byte_that_the_vocabulary_lacks_is_left_to_the_library(texts):
    tokens = [token for token in ALPHABET if token not in ("b", "é", "Ċ")]
    made = Tokenizer(BPE({token: number for number, token in enumerate([*tokens, "aa"])}, [("a", "a")]))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    texts = [*texts, "ab", "aba", "a\na", "aa"]
    assert encoded(fast_of(made), texts) == plain(made, texts)


def _with(**changes: Any) -> Tokenizer:
    made = tokenizer([("a", "b")])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _with_added(*tokens: AddedToken, composed: bool = False) -> Tokenizer:
    made = _with(normalizer=NFC()) if composed else tokenizer([("a", "b")])
    made.add_tokens(list(tokens))
    return made


def _split(pattern: Any, behavior: str = "isolated", *, invert: bool = False) -> Sequence:
    return Sequence([Split(pattern, behavior, invert), ByteLevel(add_prefix_space=False, use_regex=False)])


@pytest.mark.parametrize(
    "made",
    [
        _with(normalizer=Lowercase()),
        _with(pre_tokenizer=ByteLevel(add_prefix_space=True)),
        _with(pre_tokenizer=_split(Regex(r"\p{L}+"), "removed")),
        _with(pre_tokenizer=_split(Regex(r"\p{L}+"), invert=True)),
        _with(pre_tokenizer=_split(Regex(r"^\w+"))),
        _with(pre_tokenizer=_split(Regex(r"\p{N}{1,3}+|\p{L}+"))),
        _with(pre_tokenizer=_split("a")),
        _with(pre_tokenizer=Digits()),
        _with_added(AddedToken("<x>", lstrip=True)),
        _with_added(AddedToken("<x>", rstrip=True)),
        _with_added(AddedToken("<x>", single_word=True)),
        _with_added(AddedToken("<x>", normalized=True), composed=True),
        _with_added(AddedToken("<x>"), AddedToken("<x><y>")),
        _with_added(AddedToken("<x><"), AddedToken("<y>")),
        Tokenizer(BPE({"a": 0, "<unk>": 1}, [], unk_token="<unk>")),
    ],
)
def test_what_is_not_known_to_come_out_the_same_is_left_to_the_library(made):
    assert load_fast_bpe(made.to_str().encode(), lambda texts: plain(made, list(texts))) is None


def test_tokenizers_of_other_kinds_are_left_to_the_library(tiny):
    Vocabulary(tiny / "tokenizer.json").encode_many(["a" * (3 << 20)])
    for raw in (b"{}", b"[]", b'{"model": {"type": "Unigram"}, "normalizer": null, "pre_tokenizer": null}'):
        assert load_fast_bpe(raw, lambda texts: []) is None


def test_one_that_differs_on_a_probe_is_not_used():
    made = tokenizer([("a", "b")])
    assert load_fast_bpe(made.to_str().encode(), lambda texts: plain(made, list(texts))) is not None
    assert load_fast_bpe(made.to_str().encode(), lambda texts: [[*ids, 0] for ids in plain(made, list(texts))]) is None


@pytest.mark.parametrize("unit", ["a", " ", "1", "漢", "=", "\n"])
def test_a_million_letters_without_a_break_come_out_the_same(unit):
    made = tokenizer([("a", "a"), ("aa", "aa"), ("Ġ", "Ġ"), ("=", "=")])
    text = unit * (1_000_000 // len(unit))
    assert encoded(fast_of(made), [text, "a", text[:50_000]]) == plain(made, [text, "a", text[:50_000]])


def test_many_texts_on_many_threads_stay_in_order(monkeypatch):
    monkeypatch.setattr(bpe, "_BLOCK_LETTERS", 64)
    made = tokenizer([("a", "b"), ("1", "2")])
    texts = [f"text {number} ab" * (number % 7) + ("\ue000" if number % 11 == 0 else "") for number in range(2000)]
    assert encoded(fast_of(made), texts) == plain(made, texts)
    assert encoded(fast_of(made), []) == []


def test_little_text_is_not_worth_getting_ready_for(bpe_folder):
    vocabulary = Vocabulary(bpe_folder(None) / "tokenizer.json")
    vocabulary.encode_many(["a few words"] * 10)
    assert "_fast" not in vars(vocabulary)
    ids, lengths = vocabulary.encode_many(["many words "] * 300_000)
    assert vars(vocabulary)["_fast"] is not None
    assert ids[: lengths[0]].tolist() == vocabulary.encode_plain(["many words "])[0]


def _folder(family: str) -> Path:
    try:
        return fetch_smollm2() if family == "smollm2" else fetch_family(family)
    except Unreachable as reason:
        pytest.skip(f"{family}: {reason}")


def _corpus() -> Iterator[str]:
    """Python's own sources in pieces of up to 50 letters, many of which end within a word."""
    for file in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        text = file.read_text(encoding="utf-8", errors="ignore")
        yield from (text[start : start + 50] for start in range(0, len(text), 50))


@pytest.fixture(params=FAMILIES)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return Vocabulary(_folder(request.param) / "tokenizer.json")


def _same(vocabulary: Vocabulary, texts: list[str]) -> bool:
    fast = vocabulary._fast
    assert fast is not None
    return encoded(fast, texts) == vocabulary.encode_plain(texts)


@pytest.mark.weights
def test_real_tokenizers_make_the_same_of_tricky_texts(vocabulary):
    @settings(max_examples=30, deadline=None)
    @given(st.lists(TRICKY, min_size=1, max_size=50))
    def same(texts: list[str]) -> None:
        assert _same(vocabulary, texts)

    same()


@pytest.mark.weights
def test_real_tokenizers_make_the_same_of_real_texts(vocabulary):
    texts = [text for text, _ in zip(_corpus(), range(3000), strict=False)]
    assert _same(vocabulary, texts)


@pytest.mark.weights
@pytest.mark.thorough
def test_real_tokenizers_make_the_same_of_a_hundred_thousand_texts(vocabulary):
    texts = [text for text, _ in zip(_corpus(), range(100_000), strict=False)]
    assert len(texts) == 100_000
    for start in range(0, len(texts), 10_000):
        assert _same(vocabulary, texts[start : start + 10_000])


@pytest.mark.weights
@pytest.mark.thorough
@pytest.mark.parametrize("around", [" {}b", "'{}1"])
def test_real_tokenizers_make_the_same_of_every_letter_there_is(vocabulary, around):
    letters = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    assert _same(vocabulary, [around.format(letter) for letter in letters])
