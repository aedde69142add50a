"""Reads a data set once, renders it and fills a token store. Memory stays flat in the number of rows."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from burnish.data.conversations import RowFault, parse_conversation
from burnish.data.ledger import BadRow, Ledger
from burnish.data.progress import OnProgress, Reading
from burnish.data.render import ChatRenderer
from burnish.data.render.pieces import Piece
from burnish.data.sources import read_records, rows_of_each
from burnish.data.store import Place, StoreWriter, new_store
from burnish.errors import DataError
from burnish.spec.train import SourceData

_CHUNK_LETTERS = 2 << 20
"""Text that is encoded at once: enough for all cores, little enough to stay in memory."""

_SAY_EVERY_SECONDS = 5.0

_TEXT_AMONG_CHATS = "only a text column, in a dataset whose other rows are conversations"

Say = Callable[[str], None]


class Written(NamedTuple):
    """A sample in pieces, and where it came from."""

    pieces: list[Piece]
    place: Place
    is_text: bool
    """Plain text, with no turns in it."""


def build_store(
    data: SourceData,
    path: Path,
    renderer: ChatRenderer,
    directory: Path,
    key: str,
    say: Say,
    *,
    rows: int | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """Tokenise every row under `path`, or the first `rows`. `DataError` if one is bad and may not be skipped.

    `say` hears of it every few seconds, `on_progress` at every chunk, in the thread that encodes.
    """
    ledger = Ledger()
    with new_store(directory, key) as writer:
        fill = _Fill(renderer, writer, say, on_progress)
        _fill_beside(fill, _chunks(write_samples(data, path, renderer, ledger, rows=rows, reading=fill.reading)))
        keep = without_text_among_chats(fill.is_text, fill.writer.where, ledger)
        if ledger.dropped["bad row"] and data.on_bad_row == "error":
            raise ledger.bad_rows_error()
        if not ledger.read:
            raise no_rows(data)
        writer.finish(ledger, keep=keep)
    fill.report()


def write_samples(
    data: SourceData,
    path: Path,
    renderer: ChatRenderer,
    ledger: Ledger,
    *,
    rows: int | None = None,
    reading: Reading | None = None,
) -> Iterator[Written]:
    """What is learnt from the rows that can be rendered, in order. The others are in the ledger, with their reasons.

    With `rows`, only the first so many are read. `reading` counts bytes.
    """
    records = read_records(path, data.splits, subsets=data.subsets, on_bad=ledger.drop_bad, rows=rows, reading=reading)
    most = sys.maxsize if rows is None else rows_of_each(rows, data.splits, data.subsets)
    read: Counter[str] = Counter()
    for record in records:
        read[record.source] += 1
        if rows is not None and (ledger.read >= rows or read[record.source] >= most):
            ledger.cut_short = True
        if rows is not None and ledger.read >= rows:
            return
        try:
            conversation = parse_conversation(record, images_per_message=data.images_per_message)
            samples = renderer.write(conversation, data.loss_mask, history=data.history_thinking)
        except RowFault as fault:
            ledger.drop_bad(BadRow(record.where, str(fault)))
            continue
        row = ledger.read
        ledger.use()
        for pieces, lost in samples:
            images = sum(piece.image is not None for piece in pieces) if renderer.shows_images else 0
            place = Place(record.file, record.line, row, record.source, lost, images)
            yield Written(pieces, place, conversation.text is not None)


def without_text_among_chats(
    is_text: bytes | bytearray, where: Callable[[int], str], ledger: Ledger
) -> np.ndarray | None:
    """Which conversations to keep where plain text and turns are mixed; None keeps all.

    Decided from all of them, so the order of the rows does not matter. The texts become bad rows.
    """
    texts = np.frombuffer(is_text, bool)
    if texts.all() or not texts.any():
        return None
    for place in np.flatnonzero(texts).tolist():
        ledger.recall(BadRow(where(place), _TEXT_AMONG_CHATS))
    return ~texts


def no_rows(data: SourceData) -> DataError:
    return DataError(
        f"{data.path}: the dataset has no rows.", hint="Look at the file: it is empty, or holds blank lines only."
    )


def images_unseen(where: str) -> DataError:
    return DataError(
        f"{where} shows an image, and a model is trained on text alone here: it would learn to answer without seeing.",
        hint="Take the images out of the rows, or the rows out of the data set.",
    )


@dataclass
class _Fill:
    """Chunks on their way into a store, and what has been said about them."""

    renderer: ChatRenderer
    writer: StoreWriter
    say: Say
    on_progress: OnProgress | None = None
    reading: Reading = field(default_factory=Reading)
    is_text: bytearray = field(default_factory=bytearray)
    """Of each conversation written so far."""
    tokens: int = 0
    started: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)

    def append(self, chunk: list[Written]) -> None:
        many = self.renderer.encode([each.pieces for each in chunk])
        self.writer.append(many.token_ids, many.loss_mask, many.lengths, [each.place for each in chunk])
        self.is_text += bytes(each.is_text for each in chunk)
        self.tokens += len(many.token_ids)
        if self.on_progress:
            self.on_progress(self.reading.done_bytes, self.reading.total_bytes, len(self.is_text), self.tokens)
        if time.monotonic() - self.said > _SAY_EVERY_SECONDS:
            self.say_how_far()

    def say_how_far(self) -> None:
        """`Tokenised 40%: 20,000 conversations, 3,400,000 tokens, 850,000 tokens/s, about 6 s left`."""
        self.said = time.monotonic()
        seconds, done = self.said - self.started, self.reading.done_bytes
        share = done / max(self.reading.total_bytes, done, 1)
        left = f", about {seconds * (1 - share) / share:.0f} s left" if share else ""
        self.say(
            f"Tokenised {share:.0%}: {len(self.is_text):,} conversations, {self.tokens:,} tokens, "
            f"{self.tokens / seconds:,.0f} tokens/s{left}"
        )

    def report(self) -> None:
        seconds = time.monotonic() - self.started
        self.say(f"Tokenised {len(self.is_text):,} conversations, {self.tokens:,} tokens, in {seconds:.1f}s")


def _fill_beside(fill: _Fill, chunks: Iterable[list[Written]]) -> None:
    """Encode each chunk in a thread while the next is read: the tokenizer does not hold Python's lock."""
    with ThreadPoolExecutor(1) as beside:
        under_way: Future[None] | None = None
        for chunk in chunks:
            if under_way:
                under_way.result()
            under_way = beside.submit(fill.append, chunk)
        if under_way:
            under_way.result()


_TEXT_OF = itemgetter(0)
"""Of a piece; `piece.text` takes three times as long, for tens of millions of pieces."""


def _chunks(written: Iterable[Written]) -> Iterator[list[Written]]:
    chunk: list[Written] = []
    letters = 0
    for each in written:
        chunk.append(each)
        letters += sum(map(len, map(_TEXT_OF, each.pieces)))
        if letters >= _CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk
