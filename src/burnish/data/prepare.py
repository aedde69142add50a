"""From a data set and a model folder to rows for a trainer, and the refusals that a submission must make."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from burnish import __version__
from burnish.data import stream
from burnish.data.account import TOO_LONG, Fate, count_all, decide_fate, loss_sentences
from burnish.data.archives import is_archive
from burnish.data.content import content_hash
from burnish.data.epoch import epoch_samples, is_mixed, mixing_fault
from burnish.data.files import file_stamps
from burnish.data.kept_rows import KeptRows, keep_rows, open_rows, rows_folder
from burnish.data.loader import FakeRows, RowLoader, RowSource, StoredRows
from burnish.data.progress import OnProgress
from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.data.render.choose import may_show_images
from burnish.data.rows import pack_rows
from burnish.data.sources import find_sources
from burnish.data.store import TokenStore, discard_store, open_store, store_key
from burnish.data.tokenise import Say, build_store, images_unseen
from burnish.errors import DataError
from burnish.run.events import DataFacts
from burnish.run.plan import plan_horizon
from burnish.spec.model_facts import read_model_facts
from burnish.spec.train import FakeData, SourceData, TrainSpec

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "config.json",
    "preprocessor_config.json",
)
"""What in a model folder decides about tokens."""


@dataclass(frozen=True)
class PreparedData:
    source: RowSource
    facts: DataFacts

    @property
    def rows_per_epoch(self) -> int | None:
        """What `plan_horizon` asks for; None for made-up data, which has no end."""
        return self.source.rows


def prepare_data(
    spec: TrainSpec,
    *,
    model_directory: Path,
    data_path: Path | None,
    store_directory: Path,
    say: Say = print,
    on_progress: OnProgress | None = None,
) -> PreparedData:
    """Read, render, encode and pack all rows, or find that done already. `say` hears of progress and of losses."""
    if isinstance(spec.data, FakeData):
        return _prepare_fake(spec, spec.data, model_directory)
    path = data_path or Path(spec.data.path)
    store = open_data(spec, spec.data, model_directory, path, store_directory, say=say, on_progress=on_progress)
    prepared = pack_data(spec, spec.data, store)
    for refusal in find_refusals(spec, spec.data, store, prepared.facts):
        raise refusal
    _tell(spec, prepared.facts, say)
    return prepared


def open_data(
    spec: TrainSpec,
    data: SourceData,
    model_directory: Path,
    path: Path,
    store_directory: Path,
    *,
    rows: int | None = None,
    say: Say = print,
    on_progress: OnProgress | None = None,
) -> TokenStore:
    """The tokens of the data set, made if they are not there yet. With `rows`, only of the first so many."""
    memory = store_directory / ".hashes"
    key = f"first-{rows}" if rows else _key(spec, data, path, model_directory, memory)
    store = open_store(store_directory, key)
    if store is None:
        renderer = load_data_renderer(spec, data, model_directory)
        build_store(data, path, renderer, store_directory, key, say, rows=rows, on_progress=on_progress)
        if not rows and _key(spec, data, path, model_directory, memory) != key:
            discard_store(store_directory, key)
            raise DataError(f"{data.path} was changed while it was read.", hint="Try again once it stays as it is.")
        store = open_store(store_directory, key)
        assert store is not None
    return store


def validation_spec(spec: TrainSpec) -> TrainSpec | None:
    """The same wish with its validation data in the place of what is trained on; None where it has none."""
    wish = spec.validation
    if wish is None:
        return None
    return spec.model_copy(update={"data": wish.data, "row_tokens": wish.row_tokens, "validation": None})


def row_loader(spec: TrainSpec, data: PreparedData, *, readers: int = 1, reader: int = 0) -> RowLoader:
    """The rows of each step, as the spec orders them."""
    return RowLoader(
        source=data.source,
        rows_per_step=spec.rows_per_step,
        rows_per_device=spec.rows_per_device,
        readers=readers,
        reader=reader,
        shuffle=isinstance(spec.data, SourceData) and spec.data.shuffle,
        seed=spec.data.seed,
    )


def load_data_renderer(spec: TrainSpec, data: SourceData, model_directory: Path) -> ChatRenderer:
    return load_chat_renderer(model_directory, spec.renderer, allow_control_tokens=data.allow_control_tokens)


_MASK = "Look at loss_mask under [data], and at weight or train in the rows."
_ROOM = 'Raise data.seq_len, or set overflow = "truncate" under [data] to cut such rows.'


def pack_data(spec: TrainSpec, data: SourceData, store: TokenStore) -> PreparedData:
    """Rows of a store and their account, made if they are not there yet. Refuses nothing: there may be no row."""
    wish = {"row_tokens": spec.row_tokens, **data.model_dump(exclude={"path", "shuffle", "on_bad_row"})}
    folder = rows_folder(store.folder, wish)
    rows = open_rows(folder)
    if rows is None:
        rows = _pack(spec, data, store)
        keep_rows(folder, rows)
    return PreparedData(StoredRows(store, rows.documents, rows.packed, spec.row_tokens), rows.facts)


def _pack(spec: TrainSpec, data: SourceData, store: TokenStore) -> KeptRows:
    limit = spec.row_tokens
    fate = _fate(spec, data, store)
    documents = epoch_samples(data, store, fate)
    fate = fate.drawing(documents)
    packed = pack_rows(fate.lengths[documents], row_tokens=limit, pack=data.pack)
    source = StoredRows(store, documents, packed, limit)
    of_epoch = stream.to_text(source.row_streams().sum(axis=0, dtype=np.uint32)) if len(packed) else ""
    facts = count_all(store, fate, documents, rows=len(packed), row_tokens=limit, stream=of_epoch)
    return KeptRows(documents, packed, facts)


def _fate(spec: TrainSpec, data: SourceData, store: TokenStore) -> Fate:
    return decide_fate(store, row_tokens=spec.row_tokens, overflow=data.overflow)


def find_refusals(spec: TrainSpec, data: SourceData, store: TokenStore, facts: DataFacts) -> Iterator[DataError]:
    """Why this data will not be trained, as its rows and their lengths tell."""
    bad = store.ledger.dropped["bad row"]
    if bad and (data.on_bad_row == "error" or bad == store.ledger.read):
        yield store.ledger.bad_rows_error()
    if store.images.any():
        yield images_unseen(store.where(int(np.flatnonzero(store.images)[0])))
    long = store.lengths > spec.row_tokens
    if long.any() and data.overflow == "error":
        yield _too_long(store, long, spec.row_tokens)
    elif is_mixed(data) and (fault := mixing_fault(data, store, _fate(spec, data, store))):
        yield fault
    elif len(store) and not facts.samples:
        yield _nothing_left(data, facts)


def _nothing_left(data: SourceData, facts: DataFacts) -> DataError:
    said = "; ".join(loss_sentences(facts))
    hint = _ROOM if TOO_LONG in facts.samples_dropped else _MASK
    return DataError(f"{data.path}: no row is left to train on ({said}).", hint=hint)


def _tell(spec: TrainSpec, facts: DataFacts, say: Say) -> None:
    for sentence in loss_sentences(facts):
        say(sentence)
    say(
        f"{facts.conversations_used:,} conversations in {facts.rows:,} row{'s' if facts.rows > 1 else ''} "
        f"of {spec.row_tokens} tokens, "
        f"{facts.trained_tokens:,} of {facts.tokens:,} tokens trained, {facts.pad_share:.1%} padding"
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
    facts = DataFacts(
        conversations_read=rows,
        conversations_used=rows,
        samples=rows,
        tokens=tokens,
        trained_tokens=tokens - rows,
        rows=rows,
        pad_share=1 - tokens / (rows * spec.row_tokens),
    )
    return PreparedData(source, facts)


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


def _key(spec: TrainSpec, data: SourceData, path: Path, model_directory: Path, memory: Path) -> str:
    """`memory` is where hashes of files are kept."""
    root = path if path.is_dir() else path.parent
    sources = find_sources(path, data.splits, subsets=data.subsets, called=data.path)
    held = dict.fromkeys(file.path for source in sources for file in source.files)
    shown = may_show_images(model_directory, spec.renderer) and not is_archive(path.name)
    parts: dict[str, Any] = {
        "sources": [(source.label, [file.name for file in source.files]) for source in sources],
        "images": [stamp for stamp in file_stamps(root) if root / stamp[0] not in held] if shown else [],
        "images_per_message": data.images_per_message,
        "burnish": __version__,
        "tokenizers": tokenizers.__version__,
        "model": {name: _hash(model_directory / name, memory) for name in TOKENIZER_FILES},
        "renderer": spec.renderer.model_dump(),
        "loss_mask": data.loss_mask.model_dump(),
        "history_thinking": data.history_thinking,
        "allow_control_tokens": data.allow_control_tokens,
    }
    return store_key(((file.relative_to(root).as_posix(), content_hash(file, memory)) for file in held), parts)


def _hash(path: Path, memory: Path) -> str | None:
    return content_hash(path, memory) if path.is_file() else None
