"""From a data set and a model folder to rows for a trainer, and the refusals that a submission must make."""

import hashlib
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from burnish import __version__
from burnish.data.ledger import Ledger
from burnish.data.loader import FakeRows, RowSource, StoredRows
from burnish.data.render import RenderedMany, load_chat_renderer
from burnish.data.rows import pack_rows
from burnish.data.sources import find_files
from burnish.data.store import TokenStore, open_store, store_key
from burnish.data.tokenise import Say, build_store, no_rows, without_text_among_chats, write_conversations
from burnish.errors import DataError
from burnish.run.plan import plan_horizon
from burnish.spec.model_facts import read_model_facts
from burnish.spec.train import FakeData, SourceData, TrainSpec

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "config.json",
)
"""What in a model folder decides about tokens."""


@dataclass(frozen=True)
class DataFacts:
    """What the data came to: the fields of `events.Prepared` that do not depend on the plan."""

    conversations_read: int
    conversations_used: int
    tokens: int
    """In one epoch, padding not counted."""
    trained_tokens: int
    rows: int
    pad_share: float
    conversations_cut: int = 0
    conversations_dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedData:
    source: RowSource
    facts: DataFacts

    @property
    def rows_per_epoch(self) -> int | None:
        """What `plan_horizon` asks for; None for made-up data, which has no end."""
        return self.source.rows


def prepare_data(
    spec: TrainSpec, *, model_directory: Path, data_path: Path | None, store_directory: Path, say: Say = print
) -> PreparedData:
    """Read, render, encode and pack all rows, or find that done already. `say` hears of progress and of losses."""
    if isinstance(spec.data, FakeData):
        return _prepare_fake(spec, spec.data, model_directory)
    path = data_path or Path(spec.data.path)
    key = _key(spec, spec.data, path, model_directory)
    store = open_store(store_directory, key)
    if store is None:
        renderer = load_chat_renderer(model_directory, spec.renderer)
        build_store(spec.data, path, renderer, store_directory, key, say)
        store = open_store(store_directory, key)
        assert store is not None
    if store.ledger.dropped["bad row"] and spec.data.on_bad_row == "error":
        raise store.ledger.bad_rows_error()
    return _pack(spec, spec.data, store, say)


def probe_data(spec: TrainSpec, *, model_directory: Path, data_path: Path | None, conversations: int = 16) -> None:
    """Refuse what the first rows show: a missing or empty path, unreadable rows, nothing to train."""
    if isinstance(spec.data, FakeData):
        plan_horizon(spec, rows_per_epoch=None)
        _fake_rows(spec, spec.data, model_directory)
        return
    path, data, ledger = data_path or Path(spec.data.path), spec.data, Ledger()
    find_files(path, data.splits, called=data.path)
    renderer = load_chat_renderer(model_directory, spec.renderer)
    written = list(islice(write_conversations(data, path, renderer, ledger), conversations))
    without_text_among_chats(bytes(each.is_text for each in written), lambda place: written[place].where, ledger)
    if ledger.dropped["bad row"] and (data.on_bad_row == "error" or not written):
        raise ledger.bad_rows_error()
    if not written:
        raise no_rows(data)
    _check_first(spec, data, renderer.encode([each.pieces for each in written]))


def _check_first(spec: TrainSpec, data: SourceData, first: RenderedMany) -> None:
    if not first.loss_mask.any():
        raise DataError(
            f"Nothing would be trained in the first {len(first.lengths)} rows.",
            hint="Look at loss_mask under [data], and at weight or train in the rows.",
        )
    if data.overflow != "truncate" and first.lengths.min() > spec.row_tokens:
        raise DataError(
            f"Each of the first {len(first.lengths)} rows is longer than seq_len ({spec.row_tokens} tokens); "
            f"the shortest has {first.lengths.min()}.",
            hint=_ROOM,
        )


_ROOM = 'Raise data.seq_len, or set overflow = "truncate" under [data] to cut such rows.'


def _pack(spec: TrainSpec, data: SourceData, store: TokenStore, say: Say) -> PreparedData:
    ledger, limit = store.ledger, spec.row_tokens
    lengths, trained = np.minimum(store.lengths, limit), store.trained.copy()
    long = store.lengths > limit
    if long.any() and data.overflow == "error":
        raise _too_long(store, long, limit)
    if data.overflow == "drop":
        ledger.unuse(int(long.sum()), "too long")
        kept = ~long
    else:
        for document in np.flatnonzero(long).tolist():
            trained[document] = np.count_nonzero(store[document].loss_mask[:limit])
        kept = np.ones(len(store), bool)
    empty = kept & (trained == 0)
    ledger.unuse(int(empty.sum()), "no trained token")
    documents = np.flatnonzero(kept & ~empty)
    cut = documents[long[documents]]
    ledger.cut, ledger.tokens_cut = len(cut), int((store.lengths[cut] - limit).sum())
    ledger.check()
    for sentence in ledger.sentences():
        say(sentence)
    if not len(documents):
        raise DataError(f"{data.path}: no row is left to train on ({'; '.join(ledger.sentences())}).", hint=_ROOM)
    packed = pack_rows(lengths[documents], row_tokens=limit, pack=data.pack)
    tokens = int(lengths[documents].sum())
    facts = _facts(ledger, tokens, int(trained[documents].sum()), len(packed), limit)
    say(
        f"{facts.conversations_used:,} conversations in {facts.rows:,} row{'s' if facts.rows > 1 else ''} "
        f"of {limit} tokens, "
        f"{facts.trained_tokens:,} of {tokens:,} tokens trained, {facts.pad_share:.1%} padding"
    )
    return PreparedData(StoredRows(store, documents, packed, limit), facts)


def _facts(ledger: Ledger, tokens: int, trained_tokens: int, rows: int, row_tokens: int) -> DataFacts:
    return DataFacts(
        conversations_read=ledger.read,
        conversations_used=ledger.used,
        conversations_cut=ledger.cut,
        conversations_dropped={reason: count for reason, count in ledger.dropped.items() if count},
        tokens=tokens,
        trained_tokens=trained_tokens,
        rows=rows,
        pad_share=1 - tokens / (rows * row_tokens),
    )


def _too_long(store: TokenStore, long: np.ndarray, limit: int) -> DataError:
    first, count = int(np.flatnonzero(long)[0]), int(long.sum())
    return DataError(
        f"{count} of {store.ledger.read} rows are longer than seq_len ({limit} tokens), "
        f"the first is {store.where(first)} with {store.lengths[first]}.",
        hint=_ROOM,
    )


def _prepare_fake(spec: TrainSpec, data: FakeData, model_directory: Path) -> PreparedData:
    rows = plan_horizon(spec, rows_per_epoch=None).rows_per_epoch
    source = _fake_rows(spec, data, model_directory)
    tokens = _fake_tokens(source, rows)
    return PreparedData(source, _facts(Ledger(read=rows, used=rows), tokens, tokens - rows, rows, spec.row_tokens))


def _fake_rows(spec: TrainSpec, data: FakeData, model_directory: Path) -> FakeRows:
    return FakeRows(
        row_tokens=spec.row_tokens,
        vocabulary=read_model_facts(model_directory).vocabulary,
        variable=data.length == "variable",
        random=data.tokens == "random",
        seed=data.seed,
    )


def _fake_tokens(source: FakeRows, rows: int) -> int:
    """Of `rows` rows; past the first so many that vary in length, as those went on average."""
    if not source.variable:
        return rows * source.row_tokens
    counted = min(rows, _COUNTED_ROWS)
    return sum(map(source.length, range(counted))) * rows // counted


_COUNTED_ROWS = 10_000


def _key(spec: TrainSpec, data: SourceData, path: Path, model_directory: Path) -> str:
    root = path if path.is_dir() else path.parent
    files = [(file.relative_to(root).as_posix(), file) for file in find_files(path, data.splits, called=data.path)]
    parts: dict[str, Any] = {
        "burnish": __version__,
        "tokenizers": tokenizers.__version__,
        "model": {name: _digest(model_directory / name) for name in TOKENIZER_FILES},
        "renderer": spec.renderer.model_dump(),
        "loss_mask": data.loss_mask.model_dump(),
    }
    return store_key(files, parts)


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
