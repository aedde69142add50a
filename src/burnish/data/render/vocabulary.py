"""A model's tokenizer, asked in two ways: for the renderer's own words, and for text in which nothing is control."""

import os
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from burnish.data.render.bpe import FastBPE, Flat, flat, load_fast_bpe
from burnish.errors import ModelError

_MANY_LETTERS = 2 << 20
"""From here on, getting a faster encoder ready takes less time than it saves."""

_REMEMBERED_LETTERS = 1 << 14
"""A control text longer than this is an image's, of which there is one for every size."""


class Vocabulary:
    def __init__(self, path: Path) -> None:
        # Said aloud, tokenizers keeps its threads; unsaid, it may drop them with a warning after a fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        self._path = path
        self._tokenizer = _load(path)
        # One tokenizer for both ways of asking, as large ones take half a second to load; the lock keeps them apart.
        self._tokenizer.encode_special_tokens = True
        self._turn = threading.Lock()
        self._control_ids: dict[str, list[int]] = {}
        self._letters = 0
        added = self._tokenizer.get_added_tokens_decoder()
        # Some families mark their turns with tokens that their tokenizer does not call special.
        self._tokenizer.add_special_tokens([token for token in added.values() if _is_barred(token.content)])
        added = self._tokenizer.get_added_tokens_decoder()
        self.control_tokens = {token.content: number for number, token in added.items() if token.special}

    def encode_control(self, text: str) -> list[int]:
        """Tokens of a renderer's own words; there are few, so they are remembered, but for those of an image."""
        ids = self._control_ids.get(text)
        if ids is None:
            ids = self._encode_control(text).ids
            if len(text) <= _REMEMBERED_LETTERS:
                self._control_ids[text] = ids
        return ids

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of a row's text, on all cores. `<|im_end|>` in it is letters, never the control token."""
        with self._turn:
            return [each.ids for each in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_free(self, texts: Sequence[str]) -> list[list[int]]:
        """As `encode_plain`, but `<|im_end|>` in a row's text is the token, for data that was written so."""
        return [self._encode_control(text).ids for text in texts]

    def encode_many(self, texts: Sequence[str]) -> Flat:
        """As `encode_plain`, quicker where there is much."""
        self._letters += sum(map(len, texts))
        fast = self._fast if self._letters >= _MANY_LETTERS else None
        return fast.encode(texts) if fast else flat(self.encode_plain(texts))

    def encode_whole(self, text: str) -> tuple[list[int], list[int]]:
        """Tokens of a rendered whole, and the character at which each ends."""
        encoding = self._encode_control(text)
        return encoding.ids, [stop for _, stop in encoding.offsets]

    def decode(self, ids: Sequence[int], *, skip_control: bool = False) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=skip_control)

    def holds(self, token: str) -> bool:
        return self._tokenizer.token_to_id(token) is not None

    def id_of(self, token: str) -> int | None:
        return self._tokenizer.token_to_id(token)

    def token_of(self, number: int) -> str | None:
        return self._tokenizer.id_to_token(number)

    @cached_property
    def control_pattern(self) -> re.Pattern[str]:
        """Matches the text of any control token, the longest first."""
        names = sorted(self.control_tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, names)) if names else r"(?!)")

    @cached_property
    def opening(self) -> str:
        """The control tokens that this tokenizer itself puts before a text (`<s>`), as text."""
        bare = self._encode_control("a").ids
        full = self._encode_control("a", opening=True)
        starts = (at for at in range(len(full.ids)) if full.ids[at : at + len(bare)] == bare)
        return "".join(full.tokens[: next(starts, 0)])

    @cached_property
    def _fast(self) -> FastBPE | None:
        return load_fast_bpe(self._path.read_bytes(), self.encode_plain, self.control_tokens)

    @cached_property
    def joins_cleanly(self) -> bool:
        """Whether pieces may be encoded apart. Not so where a vocabulary marks a text's start, as Llama 2's does."""
        whole = self._encode_control("Say: hello there\n").ids
        parts = (self._encode_control(part).ids for part in ("Say:", " hello there", "\n"))
        return whole == [number for part in parts for number in part]

    def _encode_control(self, text: str, *, opening: bool = False) -> Encoding:
        with self._turn:
            self._tokenizer.encode_special_tokens = False
            try:
                return self._tokenizer.encode(text, add_special_tokens=opening)
            finally:
                self._tokenizer.encode_special_tokens = True


def _is_barred(token: str) -> bool:
    """Named as control tokens are: `<|user|>`, `<｜User｜>`, `<|turn>`, `<turn|>`."""
    return token.startswith(("<|", "<｜")) or token.endswith(("|>", "｜>"))


def _load(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise ModelError(
            f"The tokenizer {path} cannot be read ({error}).", hint="A model folder needs a tokenizer.json."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
