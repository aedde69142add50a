"""Conversations become tokens with a mask. Joins a script (what is written) with a vocabulary (how it is encoded)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from burnish.data.conversations import Conversation, Message, RowFault, read_messages
from burnish.data.render.bpe import Flat, flat, joined
from burnish.data.render.history import split_turns
from burnish.data.render.pieces import Piece, Script, control, is_trained, words
from burnish.data.render.vocabulary import Vocabulary
from burnish.spec.train import LossMask


class Rendered(NamedTuple):
    token_ids: np.ndarray
    """uint32"""
    loss_mask: np.ndarray
    """uint8: 1 where the token is trained. The first token has no predecessor, so it never is."""


@dataclass(frozen=True)
class RenderedMany:
    """Several conversations, one after the other."""

    token_ids: np.ndarray
    loss_mask: np.ndarray
    lengths: np.ndarray


class Sample(NamedTuple):
    """One thing to learn: a conversation, or as much of it as one of its turns needs."""

    pieces: list[Piece]
    thoughts_lost: int = 0
    """Trained turns whose thoughts are left out."""


class ChatRenderer:
    def __init__(
        self,
        vocabulary: Vocabulary,
        script: Script,
        *,
        opening: str,
        end_of_text: str | None,
        stops: Iterable[int],
        allow_control_tokens: bool = False,
    ) -> None:
        self._vocabulary = vocabulary
        self._script = script
        self._opening = opening
        self._end_of_text = end_of_text
        self._allow_control_tokens = allow_control_tokens
        own = vocabulary.id_of(script.end_of_turn) if script.end_of_turn else None
        self.stop_token_ids: tuple[int, ...] = tuple(sorted({*stops, *([] if own is None else [own])}))
        """A reply ends with any of these."""

    @property
    def name(self) -> str:
        """The script in use; for `auto`, what it came to."""
        return self._script.name

    @property
    def shows_images(self) -> bool:
        return self._script.shows_images

    def render(self, conversation: Conversation, loss_mask: LossMask) -> Rendered:
        """The conversation as one sample, thoughts of earlier turns as the family has it."""
        many = self.render_many([conversation], loss_mask)
        return Rendered(many.token_ids, many.loss_mask)

    def render_many(self, conversations: Sequence[Conversation], loss_mask: LossMask) -> RenderedMany:
        """`RowFault` if one of them cannot be written; `write` and `encode` apart let the others live."""
        return self.encode([self._pieces(conversation, loss_mask) for conversation in conversations])

    def write(
        self, conversation: Conversation, loss_mask: LossMask, *, history: Literal["split", "drop"] = "split"
    ) -> list[Sample]:
        """What is learnt from a conversation: one sample, or one for each turn that would lose its thoughts.

        `RowFault` if it cannot be written.
        """
        if conversation.text is not None:
            return [Sample(self._pieces(conversation, loss_mask))]
        if history == "split":
            parts = split_turns(conversation, self._script, loss_mask)
            return [Sample(self._pieces(part, loss_mask)) for part in parts]
        hidden = self._script.history(conversation)
        lost = [place for place in hidden.places if is_trained(conversation.messages[place], loss_mask)]
        kept = _untrained(conversation, hidden.askew)
        return [Sample(self._pieces(kept, loss_mask), len(lost))]

    def encode(self, conversations: Sequence[list[Piece]]) -> RenderedMany:
        """All pieces in one go: equal ones once, each kind of text with its own tokenizer."""
        if not self._vocabulary.joins_cleanly:
            return _concatenated([self._encode_whole(pieces) for pieces in conversations])
        pieces = list(chain.from_iterable(conversations))
        # Words are numbered from 0 up, control texts from -1 down.
        texts: dict[str, int] = {}
        controls: dict[str, int] = {}
        place = np.fromiter(
            (
                controls.setdefault(piece[0], ~len(controls)) if piece[2] else texts.setdefault(piece[0], len(texts))
                for piece in pieces
            ),
            np.int64,
            count=len(pieces),
        )
        ids, lengths = joined([self._encode_words(list(texts)), self._encode_controls(list(controls)[::-1])])
        flags = np.fromiter(map(itemgetter(1), pieces), np.uint8, count=len(pieces))
        counts = np.fromiter(map(len, conversations), np.int64, count=len(conversations))
        sizes = lengths[place]
        starts = (np.cumsum(lengths) - lengths)[place] - (np.cumsum(sizes) - sizes)
        token_ids = ids[np.repeat(starts, sizes) + np.arange(int(sizes.sum()))]
        return _many(token_ids, np.repeat(flags, sizes), _sums(sizes, counts))

    def _encode_words(self, texts: list[str]) -> Flat:
        if self._allow_control_tokens:
            return flat(self._vocabulary.encode_free(texts))
        return self._vocabulary.encode_many(texts)

    def _encode_controls(self, texts: list[str]) -> Flat:
        return flat([self._vocabulary.encode_control(text) for text in texts])

    def prompt_ids(self, messages: Sequence[Message] | Sequence[Mapping[str, Any]]) -> list[int]:
        """Tokens up to where the assistant speaks next; exactly what training put before its answer."""
        pieces = self._checked(self._script.write_prompt(read_messages(messages)))
        return self.encode([pieces]).token_ids.tolist()

    def decode(self, ids: Iterable[int], *, skip_control: bool = False) -> str:
        return self._vocabulary.decode(list(ids), skip_control=skip_control)

    def respelt(self, text: str) -> str:
        """A row's text as its tokens say it: without the letters that the tokenizer has no token for."""
        return self.decode(self.encode([[words(text, "", False)]]).token_ids.tolist())

    def _write_text(self, text: str) -> list[Piece]:
        # A text in which control tokens count may open with its own.
        opened = self._allow_control_tokens and self._opening and text.startswith(self._opening)
        opening = control("" if opened else self._opening)
        end = control(self._end_of_text or "", "", True)
        return [each for each in (opening, words(text, "", True), end) if each.text]

    def _pieces(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        if conversation.text is not None:
            return self._checked(self._write_text(conversation.text))
        _refuse_unshown(conversation, self._script)
        return self._checked(self._script.write(conversation, loss_mask))

    def _checked(self, pieces: list[Piece]) -> list[Piece]:
        """Refuse a control token in a row's text, if this vocabulary has no way to write it as letters."""
        if not self._vocabulary.joins_cleanly and not self._allow_control_tokens:
            for piece in pieces:
                if not piece.control and self._vocabulary.control_pattern.search(piece.text):
                    raise RowFault("the text holds a control token, which this tokenizer cannot write as letters")
        return pieces

    def _encode_whole(self, pieces: list[Piece]) -> Rendered:
        """For a vocabulary that marks a text's start: the whole at once, each token masked by its last letter.

        The first word of an answer may swallow the space before it, and is still the answer's.
        """
        ids, stops = self._vocabulary.encode_whole("".join(piece.text for piece in pieces))
        ends = np.cumsum([len(piece.text) for piece in pieces])
        flags = np.array([piece.trained for piece in pieces], np.uint8)
        owner = np.searchsorted(ends, np.array(stops) - 1, side="right").clip(max=len(pieces) - 1)
        return Rendered(np.array(ids, np.uint32), flags[owner])


def _refuse_unshown(conversation: Conversation, script: Script) -> None:
    """The one check that no image is left out in silence."""
    for place, message in enumerate(conversation.messages):
        if message.images and not script.shows_images:
            raise RowFault(f"messages[{place}] has images, and the renderer `{script.name}` has none")


def _untrained(conversation: Conversation, places: Sequence[int]) -> Conversation:
    messages = list(conversation.messages)
    for place in places:
        messages[place] = replace(messages[place], trained=False)
    return replace(conversation, messages=tuple(messages)) if places else conversation


def _many(token_ids: np.ndarray, loss_mask: np.ndarray, lengths: np.ndarray) -> RenderedMany:
    starts = np.cumsum(lengths) - lengths
    loss_mask[starts[lengths > 0]] = 0
    return RenderedMany(token_ids, loss_mask, lengths)


def _concatenated(rendered: list[Rendered]) -> RenderedMany:
    lengths = np.array([len(each.token_ids) for each in rendered], np.int64)
    ids = np.concatenate([np.empty(0, np.uint32), *(each.token_ids for each in rendered)])
    mask = np.concatenate([np.empty(0, np.uint8), *(each.loss_mask for each in rendered)])
    return _many(ids, mask, lengths)


def _sums(sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sums of consecutive groups of `counts` sizes."""
    edges = np.concatenate([[0], np.cumsum(counts)])
    totals = np.concatenate([[0], np.cumsum(sizes)])
    return totals[edges[1:]] - totals[edges[:-1]]
