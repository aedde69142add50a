"""What will be trained, said before it is: the proof of the mask, the ledger, the plan, the warnings.

Made with the very functions that the trainer prepares its rows with, into the same store, so it can say nothing else
than what happens. Knows no server and no screen.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from burnish.data import stream
from burnish.data.account import Fate, decide_fate
from burnish.data.audit import Audit, audit_rows
from burnish.data.conversations import Conversation, RowFault, parse_conversation
from burnish.data.ledger import BadRow, Ledger
from burnish.data.loader import StoredRows
from burnish.data.prepare import (
    PreparedData,
    find_refusals,
    load_data_renderer,
    open_data,
    pack_data,
    prepare_data,
    row_loader,
    validation_spec,
)
from burnish.data.proof import TokenJudge, lost_turn, prove_sample
from burnish.data.render import ChatRenderer
from burnish.data.sources import SPLIT_WORDS, find_sources, read_records
from burnish.data.store import TokenStore
from burnish.data.tokenise import Written, images_unseen, no_rows, without_text_among_chats, write_samples
from burnish.errors import BurnishError, DataError, error_from_code
from burnish.run.forecast import forecast_storage_bytes
from burnish.run.lint import lint
from burnish.run.outline import outline_run
from burnish.run.plan import Layout, plan_horizon, plan_layout
from burnish.run.report import HELD_OUT, SHOWN, CheckReport, LedgerReport, ProofRow, Refusal, SkippedRow, refusals_of
from burnish.spec.train import Data, FakeData, LossMask, SourceData, TrainSpec

PROOF_ROWS = 5
FIRST_ROWS = 16
"""So many rows are looked at before the rest is read."""
_TOLD_ROWS = 512
_SMALL_BYTES = 32 << 20
_SUBMISSION_ROWS = 2_000
_SUBMISSION_NEAR_SECONDS = 2.0
_VALIDATION = "In the validation data: "
_BAD_ROWS = " rows cannot be used: "

OnProgress = Callable[[str, int, int | None], None]
"""What is done now, how much of it in rows or bytes, and of how much if that is known."""


@dataclass(frozen=True)
class Setting:
    """Where a config would be trained."""

    model_directory: Path
    data_path: Path | None
    store_directory: Path
    device: Literal["cpu", "cuda"]
    offered: int | None
    """Devices there are, where that is known."""
    parameters: int
    model_bytes: int
    validation_path: Path | None = None
    adapter_parameters: int = 0
    """What adapters would train, where the config asks for them."""

    def storage_bytes(self, spec: TrainSpec) -> int:
        """What the run's outputs hold at the most."""
        return forecast_storage_bytes(
            spec,
            parameters=self.parameters,
            model_bytes=self.model_bytes,
            adapter_parameters=self.adapter_parameters,
        )


def check_config(
    spec: TrainSpec,
    setting: Setting,
    *,
    notes: tuple[str, ...] = (),
    rows: int | None = None,
    proof_rows: int = PROOF_ROWS,
    near_seconds: float = float("inf"),
    up_to_step: int | None = None,
    on_proof: Callable[[CheckReport], None] = lambda report: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> CheckReport:
    """Read the data set, or its first `rows`, and report. Whatever would be refused is in the report, not raised.

    `on_proof` is given the proof of the first rows, and the refusals they show, before the rest is read. With
    `up_to_step` the report also tells what a run is given until then.
    """
    check = _Check(spec, setting, notes, rows, near_seconds, up_to_step, on_progress)
    check.plan()
    if isinstance(spec.data, FakeData):
        check.look_at_made_up_rows()
        check.look_at_held_out_rows()
    else:
        check.prove(spec.data, proof_rows)
        check.look_at_held_out_rows()
        on_proof(check.report)
        check.count(spec.data)
    check.count_held_out_rows()
    return check.report


def check_before_run(
    spec: TrainSpec,
    setting: Setting,
    *,
    notes: tuple[str, ...] = (),
    on_progress: OnProgress = lambda what, done, total: None,
) -> CheckReport:
    """As a submission does it: all of a small data set, the first rows of a large one. Raises the first refusal.

    What was tokenised is kept where the trainer looks for it.
    """
    rows = _SUBMISSION_ROWS if _data_bytes(spec.data, setting.data_path) > _SMALL_BYTES else None
    report = check_config(
        spec, setting, notes=notes, rows=rows, near_seconds=_SUBMISSION_NEAR_SECONDS, on_progress=on_progress
    )
    for refusal in report.refusals:
        raise error_from_code(refusal.code, refusal.message, refusal.hint)
    return report


def first_look(spec: TrainSpec, setting: Setting, *, proof_rows: int = PROOF_ROWS) -> CheckReport:
    """The proof of the first rows and what they show to be wrong; quick, whatever the size of the data set."""
    check = _Check(spec, setting)
    check.plan()
    if isinstance(spec.data, SourceData):
        check.prove(spec.data, proof_rows)
    check.look_at_held_out_rows()
    return check.report


def stream_after(spec: TrainSpec, prepared: PreparedData, steps: int) -> str:
    """What the diary's step of that number is to say; empty for made-up data."""
    total = row_loader(spec, prepared).stream_after(steps) if prepared.facts.rows else None
    return "" if total is None else stream.to_text(total)


class _Check:
    """A check under way: what is known so far is in `report`."""

    def __init__(
        self,
        spec: TrainSpec,
        setting: Setting,
        notes: tuple[str, ...] = (),
        rows: int | None = None,
        near_seconds: float = float("inf"),
        up_to_step: int | None = None,
        on_progress: OnProgress = lambda what, done, total: None,
    ) -> None:
        self.spec, self.setting, self.notes = spec, setting, notes
        self.rows, self.near_seconds, self.up_to_step, self.on_progress = rows, near_seconds, up_to_step, on_progress
        self.report = CheckReport(model=spec.model)
        self._of_first_rows: list[Refusal] = []
        self._of_first_held_out_rows: list[Refusal] = []
        """Told again of all rows, where all are read."""
        self._layout: Layout | None = None
        self._renderer: ChatRenderer | None = None

    def plan(self) -> None:
        with self._refusing():
            self._layout = plan_layout(self.spec, device=self.setting.device, offered=self.setting.offered)
        self._warn()

    def prove(self, data: SourceData, proof_rows: int) -> None:
        with self._refusing():
            self._renderer = load_data_renderer(self.spec, data, self.setting.model_directory)
            self._add(renderer=self._renderer.name)
            proof, faults = _prove_first(data, self._path(data), self._renderer, proof_rows)
            self._add(proof=proof)
            self._refuse(*faults)
            self._of_first_rows = [refusal for fault in faults for refusal in refusals_of(fault)]

    def look_at_held_out_rows(self) -> None:
        """What the first rows of the validation data show to be wrong."""
        wish = self.spec.validation
        if wish is None:
            return
        with self._refusing(_of_validation):
            renderer = load_data_renderer(self.spec, wish.data, self.setting.model_directory)
            _, faults = _prove_first(wish.data, self.setting.validation_path or Path(wish.data.path), renderer, 0)
            told = [_of_validation(fault) for fault in faults]
            self._refuse(*told)
            self._of_first_held_out_rows = [
                refusal for fault in told for refusal in refusals_of(fault) if _BAD_ROWS in refusal.message
            ]

    def count_held_out_rows(self) -> None:
        """What only all of the validation rows show: that none of them fits, or has anything to predict."""
        held_out = validation_spec(self.spec)
        if held_out is None:
            return
        data = held_out.data
        assert isinstance(data, SourceData)
        path = self.setting.validation_path or Path(data.path)
        with self._storing() as directory, self._refusing(_of_validation):
            store = self._open(held_out, data, path, directory)
            facts = pack_data(held_out, data, store).facts
            self._add(refusals=[each for each in self.report.refusals if each not in self._of_first_held_out_rows])
            self._refuse(*map(_of_validation, find_refusals(held_out, data, store, facts)))

    def count(self, data: SourceData) -> None:
        if self._renderer is None:
            return
        with self._storing() as directory, self._refusing():
            self._count_store(data, self._renderer, self._open(self.spec, data, self._path(data), directory))

    def look_at_made_up_rows(self) -> None:
        with self._refusing():
            prepared = prepare_data(
                self.spec,
                model_directory=self.setting.model_directory,
                data_path=None,
                store_directory=self.setting.store_directory,
                say=lambda text: None,
            )
            self._add(complete=True, renderer="none: the tokens are made up")
            self._foresee(prepared)

    @contextmanager
    def _storing(self) -> Iterator[Path]:
        # A part of the data set is no trainer's to find.
        with TemporaryDirectory(prefix="burnish-check-") as place:
            yield self.setting.store_directory if self.rows is None else Path(place)

    def _open(self, spec: TrainSpec, data: SourceData, path: Path, directory: Path) -> TokenStore:
        # Rows that cannot be used are counted here and refused below, so that the ledger is whole.
        lenient = data.model_copy(update={"on_bad_row": "skip"})
        return open_data(
            spec,
            lenient,
            self.setting.model_directory,
            path,
            directory,
            rows=self.rows,
            say=lambda text: None,
            on_progress=lambda done, total, rows, tokens: self.on_progress("Reading and tokenising", done, total),
        )

    def _count_store(self, data: SourceData, renderer: ChatRenderer, store: TokenStore) -> None:
        counted = data.model_copy(update={"overflow": "drop"}) if data.overflow == "error" else data
        prepared = pack_data(self.spec, counted, store)
        self._add(refusals=[each for each in self.report.refusals if each not in self._of_first_rows])
        self._refuse(*find_refusals(self.spec, data, store, prepared.facts))
        faults = _judge_masks(store, renderer, self.on_progress)
        self._refuse(*self._mask_refusals(data, renderer, store, faults))
        said = _Said(store, renderer, data.loss_mask)
        audit = self._audit(data, store.ledger.read, said)
        self._refuse(*said.refusals())
        self._add(
            ledger=_ledger(store, prepared, self.spec.row_tokens, counted, faults, audit).model_copy(
                update={"rows_respelt": said.respelt}
            ),
            complete=not store.ledger.cut_short,
        )
        self._foresee(prepared)

    def _foresee(self, prepared: PreparedData) -> None:
        """The plan, as the rows decide it, and the hash of what the run will learn."""
        facts = prepared.facts
        self._add(stream_of_epoch=facts.stream)
        if self.report.complete and self.up_to_step is not None:
            self._add(stream_at_step=stream_after(self.spec, prepared, self.up_to_step))
        if facts.rows and self._layout is not None:
            with self._refusing():
                horizon = plan_horizon(self.spec, rows_per_epoch=prepared.rows_per_epoch)
                needed = self.setting.storage_bytes(self.spec)
                self._add(
                    plan=outline_run(self.spec, self._layout, horizon, facts, notes=self.notes, storage_bytes=needed),
                    stream_at_end=stream_after(self.spec, prepared, horizon.steps) if self.report.complete else "",
                )
        self._warn()

    def _mask_refusals(
        self, data: SourceData, renderer: ChatRenderer, store: TokenStore, faults: "_MaskCount"
    ) -> Iterator[DataError]:
        if faults.doubled:
            first = faults.doubled[0]
            token = renderer.decode(store[first].token_ids[:1].tolist())
            yield _doubled_opening(store.where(first), len(faults.doubled), token)
        if faults.untrained_end:
            where = store.where(faults.untrained_end[0])
            if self._trains_answers_alone(data, renderer, where):
                yield _untrained_end(where, len(faults.untrained_end))

    def _trains_answers_alone(self, data: SourceData, renderer: ChatRenderer, where: str) -> bool:
        """Whether a row trains nothing but what the assistant says, whose end is to be trained with it."""
        for written in write_samples(data, self._path(data), renderer, Ledger(), rows=self.rows):
            if written.place.where == where:
                row = prove_sample(renderer, written.pieces, where)
                return all(piece.role in ("assistant", "") for piece in row.pieces if piece.trained)
        return False

    def _audit(self, data: SourceData, count: int, said: "_Said") -> Audit:
        def tell(done: int) -> None:
            if done % _TOLD_ROWS == 0:
                self.on_progress("Looking for repeats and secrets", done, count)

        path = self._path(data)
        rows = said.watch(_conversations(data, path, self.rows))
        return audit_rows(rows, self._held_out(data, path), near_seconds=self.near_seconds, on_row=tell)

    def _held_out(self, data: SourceData, path: Path) -> Iterator[tuple[str, Iterator[Conversation]]]:
        """What is to be unknown to the model: the validation data, and splits that are not trained on."""
        wish = self.spec.validation
        if wish is None:
            yield from _other_splits(data, path, self.rows)
            return
        place = self.setting.validation_path or Path(wish.data.path)
        if _has(wish.data, place):
            yield HELD_OUT, _conversations(wish.data, place, self.rows)

    def _path(self, data: SourceData) -> Path:
        return self.setting.data_path or Path(data.path)

    def _warn(self) -> None:
        report, parameters = self.report, self.setting.parameters
        self._add(lint=lint(self.spec, notes=self.notes, parameters=parameters, plan=report.plan, ledger=report.ledger))

    @contextmanager
    def _refusing(self, told: Callable[[BurnishError], BurnishError] = lambda error: error) -> Iterator[None]:
        try:
            yield
        except BurnishError as error:
            self._refuse(told(error))

    def _refuse(self, *errors: BurnishError) -> None:
        known = self.report.refusals
        new = [refusal for error in errors for refusal in refusals_of(error)]
        self._add(refusals=[*known, *(each for each in new if each not in known)])

    def _add(self, **parts: object) -> None:
        self.report = self.report.model_copy(update=parts)


@dataclass
class _MaskCount:
    """Samples, by number, of which the tokens alone show something."""

    doubled: list[int]
    untrained_end: list[int]
    open_end: np.ndarray
    """bool [samples]"""


def _prove_first(
    data: SourceData, path: Path, renderer: ChatRenderer, proof_rows: int
) -> tuple[list[ProofRow], list[DataError]]:
    """The first rows' proof, and what they show to be wrong."""
    find_sources(path, data.splits, subsets=data.subsets, called=data.path)
    ledger = Ledger()
    most = max(FIRST_ROWS, proof_rows)
    written = list(write_samples(data, path, renderer, ledger, rows=most))
    texts = bytes(each.is_text for each in written)
    keep = without_text_among_chats(texts, lambda place: written[place].place.where, ledger)
    kept = [each for place, each in enumerate(written) if keep is None or keep[place]]
    proof = [prove_sample(renderer, each.pieces, each.place.where) for each in kept if each.place.row < proof_rows]
    faults = [ledger.bad_rows_error()] if ledger.dropped["bad row"] and data.on_bad_row == "error" else []
    if not ledger.read:
        faults.append(no_rows(data))
    shown = next((each.place.where for each in kept if each.place.images), None)
    faults += [] if shown is None else [images_unseen(shown)]
    return proof, faults + list(_lost_turns(data, path, renderer, kept, most))


def _lost_turns(
    data: SourceData, path: Path, renderer: ChatRenderer, written: list[Written], rows: int
) -> Iterator[DataError]:
    """The first row of which a turn that is to be trained is not in the tokens that are."""
    trained: dict[str, list[str]] = {}
    for each in written:
        encoded = renderer.encode([each.pieces])
        trained.setdefault(each.place.where, []).append(_decode_trained(renderer, encoded.token_ids, encoded.loss_mask))
    thoughtless = {each.place.where for each in written if each.place.thoughts_lost}
    for conversation in _conversations(data, path, rows):
        if conversation.where in trained and conversation.where not in thoughtless:
            turn = lost_turn(conversation, trained[conversation.where], data.loss_mask, renderer.respelt)
            if turn is not None:
                yield _shifted(conversation.where, turn)
                return


class _Said:
    """Holds what the rows say, as they pass by, against what the samples of a store train."""

    def __init__(self, store: TokenStore, renderer: ChatRenderer, loss_mask: LossMask) -> None:
        self._store, self._renderer, self._loss_mask = store, renderer, loss_mask
        self._next = 0
        self._lost: list[tuple[str, int]] = []
        self.respelt = 0
        """Rows that lose letters to the tokenizer alone."""

    def watch(self, rows: Iterable[Conversation]) -> Iterator[Conversation]:
        """The same rows, each looked at; rows and samples are in one order."""
        for row in rows:
            samples = self._samples(row.where)
            if samples and not self._store.thoughts_lost[samples].any():
                texts = [_decode_trained(self._renderer, *self._store[sample]) for sample in samples]
                self._compare(row, texts)
            yield row

    def _compare(self, row: Conversation, texts: list[str]) -> None:
        if lost_turn(row, texts, self._loss_mask) is None:
            return
        turn = lost_turn(row, texts, self._loss_mask, self._renderer.respelt)
        if turn is None:
            self.respelt += 1
        else:
            self._lost.append((row.where, turn))

    def refusals(self) -> list[DataError]:
        return [_shifted(*self._lost[0], count=len(self._lost))] if self._lost else []

    def _samples(self, where: str) -> list[int]:
        start = self._next
        while self._next < len(self._store) and self._store.where(self._next) == where:
            self._next += 1
        return list(range(start, self._next))


def _decode_trained(renderer: ChatRenderer, token_ids: np.ndarray, loss_mask: np.ndarray) -> str:
    return renderer.decode(token_ids[loss_mask > 0].tolist())


def _judge_masks(store: TokenStore, renderer: ChatRenderer, on_progress: OnProgress) -> _MaskCount:
    judge = TokenJudge(renderer)
    count = _MaskCount([], [], np.zeros(len(store), bool))
    for sample in range(len(store)):
        faults = judge.judge(*store[sample])
        if faults.doubled_opening:
            count.doubled.append(sample)
        if faults.untrained_end:
            count.untrained_end.append(sample)
        count.open_end[sample] = faults.open_end
        if sample % _TOLD_ROWS == 0:
            on_progress("Checking masks", sample, len(store))
    return count


def _of_validation(fault: BurnishError) -> BurnishError:
    """The same, by the names that the validation data's keys have."""
    if not isinstance(fault, DataError):
        return fault
    hint = fault.hint.replace("[data]", "[val.data]").replace("data.", "val.data.")
    return DataError(f"{_VALIDATION}{fault.message}", hint=hint)


def _doubled_opening(where: str, count: int, token: str) -> DataError:
    return DataError(
        f"{where} begins with {token} twice, and so do {count - 1} more samples."
        if count > 1
        else f"{where} begins with {token} twice.",
        hint="A model has never seen that. Take the token out of the rows' text, or out of the chat template.",
    )


def _untrained_end(where: str, count: int) -> DataError:
    return DataError(
        f"{where} trains an answer but not the token that ends it ({count} sample{'s' if count > 1 else ''} in all).",
        hint="A model that never learns to stop goes on talking. The chat template's generation marks leave the "
        'token out: mend it, or name a renderer ([renderer] name = "...").',
    )


def _shifted(where: str, turn: int, *, count: int = 1) -> DataError:
    more = f" ({count} such rows in all)" if count > 1 else ""
    return DataError(
        f"{where}: messages[{turn}] is to be trained, but the tokens that are trained do not say it{more}.",
        hint='The renderer drops or rewrites what the row says. Name another: [renderer] name = "...".',
    )


def _ledger(
    store: TokenStore, prepared: PreparedData, row_tokens: int, data: SourceData, faults: _MaskCount, audit: Audit
) -> LedgerReport:
    facts = prepared.facts
    assert isinstance(prepared.source, StoredRows)
    fate = decide_fate(store, row_tokens=row_tokens, overflow=data.overflow).drawing(prepared.source.documents)
    cut = store.lengths > fate.lengths
    slots = facts.rows * row_tokens
    return LedgerReport(
        rows_read=facts.conversations_read,
        rows_used=facts.conversations_used,
        rows_skipped=facts.conversations_dropped,
        skipped=list(islice(_skipped(store, fate), SHOWN)),
        samples=facts.samples,
        samples_skipped=facts.samples_dropped,
        samples_cut=facts.conversations_cut,
        tokens_rendered=int(store.lengths.sum()),
        trained_tokens_rendered=int(store.trained.sum()),
        tokens=facts.tokens,
        trained_tokens=facts.trained_tokens,
        tokens_repeated=facts.tokens_repeated,
        trained_tokens_repeated=facts.trained_tokens_repeated,
        tokens_cut=facts.tokens_cut,
        trained_tokens_cut=facts.trained_tokens_cut,
        tokens_skipped=facts.tokens_dropped,
        trained_tokens_skipped=facts.trained_tokens_dropped,
        thoughts_lost=facts.thoughts_lost,
        open_samples=int(((faults.open_end | cut) & fate.used).sum()),
        longest_sample=int(store.lengths.max(initial=0)),
        packed_rows=facts.rows,
        slots=slots,
        padding=slots - facts.tokens,
        pad_share=facts.pad_share,
        sources=facts.sources,
        duplicates=audit.duplicates,
        near_duplicates=audit.near_duplicates,
        near_rows=audit.near_rows,
        shared=audit.shared,
        private=audit.private,
    )


def _skipped(store: TokenStore, fate: Fate) -> Iterator[SkippedRow]:
    """Rows of which nothing is trained, with the reason."""
    for bad in store.ledger.bad_rows:
        yield SkippedRow(source=bad.where, reason=bad.reason)
    told = set(store.rows[fate.used].tolist())
    for reason, which in fate.dropped.items():
        for sample in np.flatnonzero(which).tolist():
            row = int(store.rows[sample])
            if row not in told:
                told.add(row)
                yield SkippedRow(source=store.where(sample), reason=f"{reason} ({store.lengths[sample]} tokens)")


def _conversations(data: SourceData, path: Path, rows: int | None) -> Iterator[Conversation]:
    """What the rows say; those that cannot be used were told of before."""
    records = read_records(path, data.splits, subsets=data.subsets, on_bad=_pass_over, rows=rows)
    for record in islice(records, None if rows is None else min(rows, sys.maxsize)):
        with suppress(RowFault):
            yield parse_conversation(record, images_per_message=data.images_per_message)


def _pass_over(row: BadRow) -> None:
    pass


def _other_splits(data: SourceData, path: Path, rows: int | None) -> Iterator[tuple[str, Iterator[Conversation]]]:
    """The data set's splits for validation, where it has them and they are not trained on."""
    trained = {SPLIT_WORDS.get(split, split) for split in data.splits}
    for split in ("validation", "test"):
        other = data.model_copy(update={"splits": (split,)})
        if not path.is_file() and split not in trained and _has(other, path):
            yield split, _conversations(other, path, rows)


def _has(data: SourceData, path: Path) -> bool:
    try:
        return bool(find_sources(path, data.splits, subsets=data.subsets))
    except DataError:
        return False


def _data_bytes(data: Data, data_path: Path | None) -> int:
    if isinstance(data, FakeData):
        return 0
    try:
        sources = find_sources(data_path or Path(data.path), data.splits, subsets=data.subsets)
        return sum(path.stat().st_size for path in {file.path for source in sources for file in source.files})
    except (DataError, OSError):
        return 0  # the check says what is wrong with it
