"""What a sample trains, told from its tokens and not from what the renderer meant. Knows no file and no store."""

import unicodedata
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from burnish.data.conversations import Conversation, Message
from burnish.data.private_text import cover_private
from burnish.data.render import ChatRenderer
from burnish.data.render.pieces import Piece, is_trained
from burnish.data.render.thinking import split_thoughts
from burnish.run.report import ProofPiece, ProofRow
from burnish.spec.train import LossMask

Decode = Callable[[Sequence[int]], str]

_MOST_TOKENS = 32_768
"""Of a sample; each is decoded by itself."""
_LONGEST_LETTER_TOKENS = 8
"""More tokens than one letter ever takes: what still does not decode then is no letter."""
_BETWEEN = 3
"""Tokens of white space that may stand between an answer and what closes it."""


def prove_sample(renderer: ChatRenderer, pieces: list[Piece], source: str) -> ProofRow:
    """Every token of a sample with whether it is trained; the text is what the tokens decode to.

    What looks private in it is covered, letter by letter. Of a very long sample, its beginning.
    """
    encoded = renderer.encode([pieces])
    ids, mask = encoded.token_ids[:_MOST_TOKENS].tolist(), encoded.loss_mask[:_MOST_TOKENS].tolist()
    text, ends = _spell(ids, renderer.decode)
    roles = _roles(renderer, pieces, ids, ends)
    text = cover_private(text)
    shown, start = [], 0
    for (trained, role), group in groupby(zip(mask, roles, ends, strict=True), key=lambda each: each[:2]):
        end = [end for _, _, end in group][-1]
        shown.append(ProofPiece(text=text[start:end], trained=bool(trained), role=role))
        start = end
    left_out = len(encoded.token_ids) - len(ids)
    return ProofRow(source=source, token_ids=ids, trained=mask, pieces=shown, token_ends=ends, tokens_left_out=left_out)


def lost_turn(
    conversation: Conversation,
    trained_texts: Sequence[str],
    loss_mask: LossMask,
    respelt: Callable[[str], str] = str,
) -> int | None:
    """The place of a turn that is to be trained and whose words are not in what the trained tokens say, in order.

    White space and forms of one letter are not told apart, as families trim the one and tokenizers unify the other.
    Some tokenizers have no token for some letters, so words count as said where they are `respelt`: as tokens and back.
    """
    said = "".join(_folded(text) for text in trained_texts)
    start = 0
    for place, message in enumerate(conversation.messages):
        if not is_trained(message, loss_mask):
            continue
        words = _folded(_words(message))
        found = said.find(words, start)
        if found < 0:
            words = _folded(respelt(_words(message)))
            found = said.find(words, start)
        if found < 0:
            return place
        start = found + len(words)
    return None


class MaskFaults(NamedTuple):
    """What is wrong with a sample's tokens, whatever they say."""

    doubled_opening: bool
    """It begins with the same control token twice."""
    untrained_end: bool
    """What closes an answer follows it untrained."""
    open_end: bool
    """Its last trained token ends no reply."""


class TokenJudge:
    """Looks for faults in ids and masks alone, so fast that every sample of a store can be looked at."""

    def __init__(self, renderer: ChatRenderer) -> None:
        self._renderer = renderer
        self._stops = np.array(renderer.stop_token_ids, np.uint32)
        self._control: dict[int, bool] = {}

    def judge(self, ids: np.ndarray, mask: np.ndarray) -> MaskFaults:
        doubled = len(ids) > 1 and ids[0] == ids[1] and self._is_control(int(ids[0]))
        trained = np.flatnonzero(mask)
        if not len(trained):
            return MaskFaults(doubled, False, False)
        last = int(trained[-1])
        return MaskFaults(
            doubled, self._leaves_end_untrained(ids, mask), not self._stops_at(ids[last : last + 1]).any()
        )

    def _leaves_end_untrained(self, ids: np.ndarray, mask: np.ndarray) -> bool:
        lasts = np.flatnonzero((mask[:-1] == 1) & (mask[1:] == 0))
        for last in lasts[~self._stops_at(ids[lasts])].tolist():
            after = ids[last + 1 : last + 2 + _BETWEEN]
            stops = np.flatnonzero(self._stops_at(after))
            if len(stops) and not mask[last + 1 + stops[0]] and self._is_blank(after[: stops[0]]):
                return True
        return False

    def _stops_at(self, ids: np.ndarray) -> np.ndarray:
        return (ids[:, None] == self._stops).any(axis=1)

    def _is_blank(self, ids: np.ndarray) -> bool:
        return not self._renderer.decode(ids.tolist()).strip()

    def _is_control(self, number: int) -> bool:
        if number not in self._control:
            shown, skipped = self._renderer.decode([number]), self._renderer.decode([number], skip_control=True)
            self._control[number] = bool(shown) and not skipped
        return self._control[number]


def _words(message: Message) -> str:
    """What of a message every family writes down as it is."""
    return split_thoughts(message)[1] if message.role == "assistant" else message.content


def _folded(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())


def _spell(ids: list[int], decode: Decode) -> tuple[str, list[int]]:
    """The text of the tokens, and how many letters of it are there after each.

    Each is decoded behind those of the letter before, since some tokenizers write a first token otherwise; a letter
    of several tokens belongs to its last.
    """
    text, ends = "", []
    before = start = 0
    for stop in range(1, len(ids) + 1):
        known = decode(ids[before:start]) if start > before else ""
        letters = decode(ids[before:stop])[len(known) :]
        if letters and (not letters.endswith("\ufffd") or stop - start >= _LONGEST_LETTER_TOKENS):
            text += letters
            before, start = start, stop
        ends.append(len(text))
    if start < len(ids):
        text += decode(ids[before:])[len(decode(ids[before:start]) if start > before else "") :]
        ends[-1] = len(text)
    return text, ends


def _roles(renderer: ChatRenderer, pieces: list[Piece], ids: list[int], ends: list[int]) -> list[str]:
    """Of each token, whose turn it is part of."""
    apart = renderer.encode([[piece] for piece in pieces])
    if apart.token_ids[: len(ids)].tolist() == ids:
        owners = np.repeat(np.arange(len(pieces)), apart.lengths)[: len(ids)]
    else:
        edges = np.cumsum([len(piece.text) for piece in pieces])
        owners = np.searchsorted(edges, np.array(ends) - 1, side="right").clip(max=len(pieces) - 1)
    return [pieces[owner].role for owner in owners.tolist()]
