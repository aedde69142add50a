"""Byte-level BPE at tiktoken's speed, wherever it can be shown to give the very tokens of the `tokenizers` library.

Both merge the pair of lowest rank until none is left, but `tokenizers` ranks pairs and tiktoken what a pair makes;
`_ranked` proves of a whole vocabulary that this is the same. What is left to differ is how text is cut into words,
which is compared on tricky texts each time, and on every letter there is in the tests. Texts that one library might
see otherwise than the other are left to the slower.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import orjson
import tiktoken

LONGEST_RUN = 100_000
"""Letters without a space, or spaces without a letter: a million stop tiktoken's search for words with a panic."""

_BLOCK_LETTERS = 1 << 19
"""Letters that one thread encodes at a time."""

# No text that is taken holds a noncharacter, so it can stand between texts.
_BETWEEN = "\ufdd0"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""How `ByteLevel` itself cuts text into words."""
_GPT2_DIGITS = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
"""The same where each digit was cut out before; spaces in front of one are then at their text's end."""

_KANA_SIGNS = r"\u309b\u309c\u30a0\u30fb"
_HAN_KANA = r"一-龥ぁ-ゖ\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
_ASCII_SIGNS = r"""!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~"""
_DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    rf"[{_ASCII_SIGNS}][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
"""DeepSeek's three steps: each cuts what the one before has left or found."""
_DEEPSEEK_AT_ONCE = (
    rf"\p{{N}}{{1,3}}|[{_HAN_KANA}]+|[{_KANA_SIGNS}]+|[{_ASCII_SIGNS}][A-Za-z]+"
    rf"|[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}\u3099\u309a]?[\p{{L}}\p{{M}}--[{_HAN_KANA}]]+"
    rf"| ?[\p{{P}}\p{{S}}--[{_KANA_SIGNS}]]+[\r\n]*|\s*[\r\n]+|\s+(?![^\s\p{{N}}{_HAN_KANA}{_KANA_SIGNS}])|\s+"
)

# What both libraries' regular expressions read alike: sets, properties, groups, lookahead, plain quantifiers.
_SET = r"\[\^?(?:\\[pP]\{\w+\}|\\[rnsS]|\\\W|[^\[\]\\&~])+\]"
_ATOM = rf"(?:{_SET}|\\[pP]\{{\w+\}}|\\[rnsS]|\\[^\w\s]|\(\?(?:i?:|!|=)|[()|]|[^\\\[\]{{}}()|?*+^$.])"
_READ_ALIKE = re.compile(rf"(?:{_ATOM}(?:[?*+]|\{{\d+(?:,\d*)?\}}(?![?*+]))?)*")

_PROBES = (
    "Hello, world! It's what I'VE said; they'll say we'd. 'ſo",
    "  two  spaces\n\n\tand\ta tab \r\n  \n end   ",
    "1234567 3.14159 ١٢٣ ½ Ⅷ x2y22z",
    "def f(x: int) -> str:\n    return {'a': [1, 2]}  # naïve",
    "中文和日本語のテキスト、한국어 텍스트。ทดสอบภาษาไทย",
    "é ü ñ Ω ﬁ ǆ İstanbul straße Ǆ ʰ",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ✌🏽 ❤️",
    "हिन्दी में مرحبا بالعالم שָׁלוֹם",
    "<|im_start|>user <think>\nno</think><tool_call> <|endoftext|> </s> [INST]",
    "\u00a0\u2003\u3000\u2028\u0085\x0b\x1f\x00\u200b\u200d\ufeff",
    "====----....!!!!????((((]]]]\\\\////",
    "a" * 300 + " " * 300 + "1" * 300 + "\n" * 300,
    "https://example.org/a?b=c&d=%20#e aGVsbG8gd29ybGQ= CamelCaseWords snake_case_words",
    "",
    " ",
)


Flat = tuple[np.ndarray, np.ndarray]
"""Encoded texts one after the other: their tokens, uint32, and how many each has, int64."""

SlowEncode = Callable[[Sequence[str]], list[list[int]]]
"""What `tokenizers` makes of texts."""


class FastBPE:
    """A tokenizer's plain text, in which control tokens are letters and other added tokens are tokens."""

    def __init__(self, raw: bytes, slow: SlowEncode, control: Collection[str] = ()) -> None:
        """Of a `tokenizer.json`, and what is control in it beside its special tokens.

        `LookupError` if it is of no kind that is known to come out the same.
        """
        read = orjson.loads(raw)
        self._slow = slow
        self._composed = _composes(read["normalizer"])
        pattern = _pattern(read["pre_tokenizer"])
        vocabulary = _checked_vocabulary(read["model"])
        tokens = _ranked(vocabulary, read["model"])
        added = _added(_marked(read["added_tokens"], control), self._composed)
        names = {_BETWEEN: len(tokens)} | {name: len(tokens) + place for place, name in enumerate(added, start=1)}
        ranks = dict(zip(_bytes_of(tokens), range(len(tokens)), strict=True))
        self._ids = np.array([*(vocabulary.get(token, 0) for token in tokens), 0, *added.values()], np.uint32)
        # A byte that the vocabulary lacks counts as lost.
        sizes = (len(token) if token in vocabulary else 0 for token in tokens)
        self._sizes = np.array([*sizes, *(len(name.encode()) for name in names)], np.int64)
        self._between = len(tokens)
        self._encoding = tiktoken.Encoding("plain", pat_str=pattern, mergeable_ranks=ranks, special_tokens=names)
        self._names = frozenset(names)

    def encode(self, texts: Sequence[str]) -> Flat:
        """On all cores."""
        taken = np.fromiter(map(self._takes, texts), bool, len(texts))
        if taken.all():
            return self._encode_taken(texts)
        groups = [[text for text, each in zip(texts, taken, strict=True) if each == wanted] for wanted in (True, False)]
        return _woven(taken, self._encode_taken(groups[0]), flat(self._slow(groups[1])))

    def _takes(self, text: str) -> bool:
        """Whether a text is certain to come out the same, as far as its letters tell."""
        if len(text) > LONGEST_RUN and _longest_run(text) > LONGEST_RUN:
            return False
        if text.isascii():
            return True
        if self._composed and not unicodedata.is_normalized("NFC", text):
            return False
        return _unsettled_letters().search(text) is None

    def _encode_taken(self, texts: Sequence[str]) -> Flat:
        blocks = list(_blocks(texts))
        if len(blocks) < 2:
            return joined(list(map(self._encode_block, blocks)))
        with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as threads:
            return joined(list(threads.map(self._encode_block, blocks)))

    def _encode_block(self, texts: list[str]) -> Flat:
        """As one text, which is quicker. If letters fall into a gap of the pattern, the text at fault goes back."""
        whole = _BETWEEN.join(texts)
        ranks = self._encoding.encode_to_numpy(whole, allowed_special=self._names, disallowed_special=())
        if int(self._sizes[ranks].sum()) != len(whole.encode()):
            half = len(texts) // 2
            if not half:
                return flat(self._slow(texts))
            return joined([self._encode_block(texts[:half]), self._encode_block(texts[half:])])
        edges = np.flatnonzero(ranks == self._between)
        lengths = np.diff(edges, prepend=-1, append=len(ranks)) - 1
        return self._ids[np.delete(ranks, edges)], lengths


def load_fast_bpe(raw: bytes, slow: SlowEncode, control: Collection[str] = ()) -> FastBPE | None:
    """What encodes as `slow` does, only faster; None where that is not known."""
    try:
        fast = FastBPE(raw, slow, control)
    except (LookupError, TypeError, ValueError):
        return None
    ids, lengths = fast.encode(_PROBES)
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    return fast if [part.tolist() for part in parts] == slow(_PROBES) else None


def flat(encoded: Sequence[Sequence[int]]) -> Flat:
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.fromiter(chain.from_iterable(encoded), np.uint32, int(lengths.sum())), lengths


def joined(parts: list[Flat]) -> Flat:
    ids = np.concatenate([np.empty(0, np.uint32), *(ids for ids, _ in parts)])
    return ids, np.concatenate([np.empty(0, np.int64), *(lengths for _, lengths in parts)])


def _woven(first: np.ndarray, one: Flat, other: Flat) -> Flat:
    """Two lists of encoded texts in one order again: of `one` where `first`, else of `other`."""
    lengths = np.empty(len(first), np.int64)
    lengths[first], lengths[~first] = one[1], other[1]
    ids = np.empty(int(lengths.sum()), np.uint32)
    of_one = np.repeat(first, lengths)
    ids[of_one], ids[~of_one] = one[0], other[0]
    return ids, lengths


def _blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    block: list[str] = []
    letters = 0
    for text in texts:
        block.append(text)
        letters += len(text)
        if letters >= _BLOCK_LETTERS:
            yield block
            block, letters = [], 0
    if block:
        yield block


def _longest_run(text: str) -> int:
    return max(match.end() - match.start() for match in re.finditer(r"\s+|\S+", text))


@lru_cache(maxsize=1)
def _unsettled_letters() -> re.Pattern[str]:
    """Letters of which libraries of different age may think differently: those this Python's Unicode does not name."""
    unnamed = [code for code in range(0x20000) if unicodedata.category(chr(code)) in ("Cn", "Cs")]
    edges = np.flatnonzero(np.diff(unnamed) > 1)
    firsts, lasts = (
        [unnamed[0], *(unnamed[edge + 1] for edge in edges)],
        [*(unnamed[edge] for edge in edges), unnamed[-1]],
    )
    ranges = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in zip(firsts, lasts, strict=True))
    # Further planes hold rare ideographs, and room that is still being filled.
    return re.compile(f"[{ranges}\\U00020000-\\U{sys.maxunicode:08x}]")


def _composes(normalizer: Any) -> bool:
    """Whether text becomes NFC. Any other change is refused."""
    if normalizer is None:
        return False
    if normalizer["type"] == "Sequence":
        return max(map(_composes, normalizer["normalizers"]), default=False)
    if normalizer["type"] != "NFC":
        raise LookupError(normalizer["type"])
    return True


def _pattern(pre_tokenizer: Any) -> str:
    """The words that text is cut into, as one regular expression."""
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    *before, last = steps
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        raise LookupError(last["type"])
    own = last.get("use_regex", True)
    match [step["type"] for step in before], own:
        case [], True:
            return _GPT2
        case ["Digits"], True if before[0]["individual_digits"]:
            return _GPT2_DIGITS
        case ["Split", *_], False if all(step["behavior"] == "Isolated" and not step["invert"] for step in before):
            patterns = tuple(step["pattern"]["Regex"] for step in before)
            if len(patterns) == 1 and _READ_ALIKE.fullmatch(patterns[0]):
                return patterns[0]
            if tuple(_without_line_ends(pattern) for pattern in patterns) == _DEEPSEEK:
                return _DEEPSEEK_AT_ONCE
    raise LookupError("pre_tokenizer")


def _without_line_ends(pattern: str) -> str:
    return pattern.replace("\r", r"\r").replace("\n", r"\n")


def _checked_vocabulary(model: Any) -> dict[str, int]:
    odd = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "fuse_unk")
    if model["type"] != "BPE" or any(model.get(key) for key in odd):
        raise LookupError(model["type"])
    return model["vocab"]


def _marked(added_tokens: Any, control: Collection[str]) -> list[Any]:
    """With `special` said of all that is control."""
    return [token | {"special": token["special"] or token["content"] in control} for token in added_tokens]


def _added(added_tokens: Any, composed: bool) -> dict[str, int]:
    """Tokens found in plain text, with their numbers. `LookupError` where finding them takes more than looking."""
    found = {token["content"]: token["id"] for token in added_tokens if not token["special"]}
    for token in added_tokens:
        odd = token["lstrip"] or token["rstrip"] or token["single_word"] or (composed and token["normalized"])
        if odd and not token["special"]:
            raise LookupError(token["content"])
    if found:
        _refuse_overlaps(found.keys(), {token["content"] for token in added_tokens})
    return found


def _refuse_overlaps(found: Collection[str], every: Collection[str]) -> None:
    """Were a token to overlap with another, special or not, it would matter which is looked for first."""
    heads = {name[:at] for name in every for at in range(1, len(name))}
    tails = {name[at:] for name in every for at in range(1, len(name))}
    for name in found:
        ends = any(name[at:] in heads or name[:at] in tails for at in range(1, len(name)))
        if ends or any(name != other and (name in other or other in name) for other in every):
            raise LookupError(name)


def _ranked(vocabulary: dict[str, int], model: Any) -> list[str]:
    """Tokens in the order in which they are merged, the 256 bytes first. `LookupError` unless tiktoken merges alike.

    A token's letters are merged alike wherever they stand, as long as no merge reaches over their ends (Berglund and
    van der Merwe, "Formalizing BPE Tokenization", 2023). So only one pair ever makes it: the one that merging its
    letters alone comes to. The two libraries agree if that pair is listed for every token that they both know.
    """
    tokens = list(vocabulary)
    numbers = {token: number for number, token in enumerate(tokens)}
    pairs = model["merges"]
    if pairs and isinstance(pairs[0], str):
        pairs = list(map(str.split, pairs))
    parts = np.fromiter(map(numbers.__getitem__, chain.from_iterable(pairs)), np.int64, 2 * len(pairs))
    made = np.fromiter(map(numbers.__getitem__, map("".join, pairs)), np.int64, len(pairs))
    if len(np.unique(made)) < len(made):
        rank = _ranks_of_all_pairs(tokens, vocabulary, made)
        if not model.get("ignore_merges"):
            raise LookupError("all pairs are listed, but whole words are not looked up")
    else:
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        rank = _Merges(parts[::2], parts[1::2], made, sizes).own_ranks()
        if model.get("ignore_merges"):
            for number in np.flatnonzero(rank == _UNSOUND).tolist():
                if next(_splits(tokens[number], vocabulary), None):
                    raise LookupError(f"{tokens[number]} is found whole, but not merged as its pair says")
                rank[number] = _NEVER
    ranked = np.argsort(rank, kind="stable")[np.count_nonzero(rank < 0) :]
    return [*_BYTE_OF_LETTER, *map(tokens.__getitem__, ranked.tolist())]


def _ranks_of_all_pairs(tokens: list[str], vocabulary: dict[str, int], made: np.ndarray) -> np.ndarray:
    """Of a vocabulary that was tiktoken's once: any two tokens that make a third are listed, those of one together."""
    if sum(1 for token in tokens for _ in _splits(token, vocabulary)) != len(made):
        raise LookupError("of some tokens only some pairs are listed")
    _, first = np.unique(made, return_index=True)
    if np.count_nonzero(np.diff(made)) + 1 != len(first):
        raise LookupError("pairs of one token are ranked apart")
    rank = np.fromiter((_BYTE if len(token) == 1 else _NEVER for token in tokens), np.int64, len(tokens))
    rank[made[first]] = first
    return rank


def _splits(token: str, vocabulary: dict[str, int]) -> Iterator[int]:
    """Where a token can be taken apart into two others."""
    return (at for at in range(1, len(token)) if token[:at] in vocabulary and token[at:] in vocabulary)


_BYTE = -1
_UNSOUND = -2
_NEVER = np.iinfo(np.int64).max


class _Merges:
    """A pair for each token, by rank, and which of these are sound: what merging their own letters comes to."""

    def __init__(self, left: np.ndarray, right: np.ndarray, made: np.ndarray, sizes: np.ndarray) -> None:
        self._left, self._right, self._made, self._sizes = left, right, made, sizes
        keys = self._key(left, right)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._own = np.where(sizes == 1, _BYTE, _UNSOUND)

    def own_ranks(self) -> np.ndarray:
        """Of each token the rank of its pair, `_BYTE`, or `_UNSOUND` for one that is never made.

        `LookupError` if a token is made of parts that are due after it is.
        """
        # Shorter tokens first, as longer ones are made of them.
        sizes = self._sizes[self._made]
        order = np.argsort(sizes, kind="stable")
        for ranks in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
            reached = ranks[self._is_reached(ranks)]
            if np.any(np.maximum(self._own[self._left[reached]], self._own[self._right[reached]]) >= reached):
                raise LookupError("a token is made of parts that are due after it")
            self._own[self._made[reached]] = reached
        return self._own

    def _is_reached(self, ranks: np.ndarray) -> np.ndarray:
        """Whether both parts of these pairs stand when their rank is due, or ever, if it is due before the parts are.

        They do if no letters were merged over their seam before.

        Time runs backwards: the younger of the two tokens at the seam is taken apart, until both are bytes. A pair
        over the seam would have been merged if its rank was due before either token went into a larger one; of equal
        ranks the one further left is due first.
        """
        x, y = self._left[ranks], self._right[ranks]
        reached = np.minimum(self._own[x], self._own[y]) != _UNSOUND
        at = np.flatnonzero(reached)
        x, y = x[at], y[at]
        x_until = y_until = np.where(np.maximum(self._own[x], self._own[y]) < ranks[at], ranks[at], _NEVER)
        while len(at):
            due = self._rank_of(x, y)
            crossed = (due < x_until) & (due <= y_until)
            reached[at[crossed]] = False
            x_own, y_own = self._own[x], self._own[y]
            younger = x_own > y_own
            x, x_until = np.where(younger, self._right[x_own], x), np.where(younger, x_own, x_until)
            y, y_until = np.where(younger, y, self._left[y_own]), np.where(younger, y_until, y_own)
            more = ~crossed & ((x_own >= 0) | (y_own >= 0))
            at, x, y, x_until, y_until = at[more], x[more], y[more], x_until[more], y_until[more]
        return reached

    def _rank_of(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Of pairs; `_NEVER` for those that are not merged, and for those of tokens that are never made."""
        keys = self._key(left, right)
        found = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        ranks = self._order[found]
        return np.where((self._keys[found] == keys) & (self._own[self._made[ranks]] == ranks), ranks, _NEVER)

    def _key(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left * len(self._sizes) + right


def _letters_of_bytes() -> dict[str, int]:
    """The letter by which a byte-level vocabulary writes each byte: itself where it is printable, else one past 255."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTE_OF_LETTER = _letters_of_bytes()
_TO_LATIN = str.maketrans(_BYTE_OF_LETTER)


def _bytes_of(tokens: list[str]) -> Iterator[bytes]:
    joined = "".join(tokens).translate(_TO_LATIN).encode("latin-1")
    start = 0
    for token in tokens:
        yield joined[start : start + len(token)]
        start += len(token)
