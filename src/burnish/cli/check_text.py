"""A check's report as plain text: ledger, plan, warnings, verdict. Pure; the proof, which has colours, is `show`'s."""

from collections.abc import Iterable, Mapping, Sequence

from burnish.literals import format_size
from burnish.run.report import CheckReport, Comparison, LedgerReport, PlanReport, Refusal, Repeats, Warned


def report_text(report: CheckReport, *, refusals_told: bool = False) -> str:
    """All of a report but its proof. `refusals_told`: they stand right above."""
    parts = []
    if report.ledger:
        of = "" if report.complete else f" of the first {report.ledger.rows_read:,} rows"
        parts.append(section(f"Ledger{of}", ledger_lines(report.ledger)))
    if report.plan:
        parts.append(section("Plan", plan_lines(report.plan)))
        parts.append(section("What keys are taken to mean", report.plan.meanings))
    if report.lint:
        parts.append(section("Warnings", lint_lines(report.lint)))
    verdict = "Verdict: refused, for what is said above." if refusals_told else verdict_text(report.refusals)
    return "\n\n".join(filter(None, [*parts, stream_text(report), verdict]))


def section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def verdict_text(refusals: Sequence[Refusal]) -> str:
    if not refusals:
        return "Verdict: this config would be accepted."
    return section("Verdict: refused.", (line for refusal in refusals for line in refusal_lines(refusal)))


def refusal_lines(refusal: Refusal) -> list[str]:
    return [_of_key(refusal.key, refusal.message), *([f"Hint: {refusal.hint}"] if refusal.hint else [])]


def ledger_lines(ledger: LedgerReport) -> list[str]:
    left = f"{ledger.tokens:,}, {ledger.trained_tokens:,} trained ({_share(ledger.trained_tokens, ledger.tokens)})"
    facts = [
        ("Rows read", f"{ledger.rows_read:,}, {ledger.rows_used:,} used{_reasons(ledger.rows_skipped)}"),
        ("Samples", f"{ledger.samples:,}{_more_than_rows(ledger)}{_reasons(ledger.samples_skipped)}"),
        ("Tokens rendered", f"{ledger.tokens_rendered:,}, {ledger.trained_tokens_rendered:,} trained"),
        ("- skipped", _amount(_sum(ledger.tokens_skipped), _sum(ledger.trained_tokens_skipped))),
        ("- cut", _amount(ledger.tokens_cut, ledger.trained_tokens_cut, f" off {ledger.samples_cut:,} samples")),
        ("+ read again", _amount(ledger.tokens_repeated, ledger.trained_tokens_repeated)),
        ("= in an epoch", left),
        ("Packed rows", f"{ledger.packed_rows:,}, {ledger.slots:,} slots, {ledger.pad_share:.1%} padding"),
        ("Longest sample", f"{ledger.longest_sample:,} tokens"),
        ("Thoughts left out", f"{ledger.thoughts_lost:,} trained turns" if ledger.thoughts_lost else ""),
        *((f"Source {name}", _source(ledger, name)) for name in ledger.sources),
        ("Repeated rows", _repeats(ledger.duplicates)),
        ("Nearly repeated", _near(ledger)),
        *((f"Shared with {each.split}", _shared(each.exact, each.near, each.rows)) for each in ledger.shared),
        ("Likely secrets", _kinds(ledger.private.secrets)),
        ("Personal data", _kinds(ledger.private.personal)),
    ]
    places = [*_skipped(ledger), *_pairs(ledger), *_spots(ledger)]
    return [*columns((name, text) for name, text in facts if text), *(["", *places] if places else [])]


def plan_lines(plan: PlanReport) -> list[str]:
    rate = plan.learning_rate
    warmup = f"{plan.warmup_steps:,} of warmup" if plan.warmup_steps else ""
    decay = f"{plan.decay_steps:,} of decay" if plan.decay_steps else ""
    on_each = (
        f"{plan.packed_rows_per_reader:,} on each of {plan.readers} devices" if plan.readers > 1 else "on 1 device"
    )
    return columns(
        [
            (
                "Steps",
                f"{plan.steps:,} ({', '.join(filter(None, [f'{plan.steps_per_epoch:,} to an epoch', warmup, decay]))})",
            ),
            ("Epochs", f"{plan.epochs:.2f}"),
            ("A step", f"{_rows(plan.packed_rows_per_step, 'packed ')}, {on_each}"),
            (
                "Tokens per step",
                f"{plan.slots_per_step:,} slots, {plan.tokens_per_step:,.0f} tokens on average, "
                f"{plan.trained_tokens_per_step:,.0f} trained",
            ),
            ("Learning rate", f"{rate.first:.3g} at first, {rate.peak:.3g} at most, {rate.last:.3g} at last"),
            ("Outputs", f"{format_size(plan.storage_bytes)} at most"),
        ]
    )


def lint_lines(lint: Iterable[Warned]) -> list[str]:
    return [f"{_of_key(warned.key, warned.text)} {warned.reason}" for warned in lint]


def stream_text(report: CheckReport) -> str:
    if report.comparison:
        return comparison_text(report.comparison)
    if report.stream_at_end:
        return f"Stream: {report.stream_at_end} is the hash of all tokens and masks that the run will be given."
    if report.ledger and not report.complete:
        return "Stream: not said, as only a part of the data was read."
    return ""


def comparison_text(comparison: Comparison) -> str:
    """`Stream: agrees: ...`"""
    return f"Stream: {comparison.verdict}: {comparison.reason}"


def summary_lines(report: CheckReport, *, notes: Sequence[str] = ()) -> list[str]:
    """A check in a few lines, for the view of a run that has told its `notes` already."""
    if report.ledger is None:
        return []
    ledger, part = report.ledger, "" if report.complete else ", of the rows that were read"
    line = (
        f"Check: {ledger.rows_used:,} of {ledger.rows_read:,} rows used, "
        f"{ledger.trained_tokens:,} of {ledger.tokens:,} tokens trained, {ledger.pad_share:.1%} padding{part}"
    )
    stream = [comparison_text(report.comparison)] if report.comparison else []
    new = [warned for warned in report.lint if not any(note.startswith(warned.text[:-1]) for note in notes)]
    warnings = [f"Warning: {line}" for line in lint_lines(new)]
    return [line, f"Renderer: {report.renderer}", *stream, *warnings]


def columns(facts: Iterable[tuple[str, str]]) -> list[str]:
    """`Name:  value`, the values below each other."""
    rows = [*facts]
    width = max((len(name) for name, _ in rows), default=0) + 1
    return [f"{name + ':':<{width}} {text}" for name, text in rows]


def _of_key(key: str, sentence: str) -> str:
    """A sentence that does not begin with the key it is about has it in front."""
    return sentence if not key or sentence.startswith(key) else f"{key}: {sentence}"


def _amount(tokens: int, trained: int, more: str = "") -> str:
    return f"{tokens:,}, {trained:,} trained{more}" if tokens else ""


def _source(ledger: LedgerReport, name: str) -> str:
    source = ledger.sources[name]
    return (
        f"{source.conversations:,} rows, {_share(source.tokens, ledger.tokens)} of the tokens, "
        f"{_share(source.trained_tokens, ledger.trained_tokens)} of those trained"
    )


def _more_than_rows(ledger: LedgerReport) -> str:
    several = ledger.samples > ledger.rows_used and not ledger.tokens_repeated
    return ", as some rows make one of each answer (data.history_thinking)" if several else ""


def _skipped(ledger: LedgerReport) -> list[str]:
    """Rows that share a reason are told of together."""
    places: dict[str, list[str]] = {}
    for row in ledger.skipped:
        places.setdefault(row.reason, []).append(row.source)
    lines = [f"Skipped {', '.join(sources)}: {reason}" for reason, sources in places.items()]
    more = _sum(ledger.rows_skipped) - len(ledger.skipped)
    return [*lines, f"Skipped {more:,} more"] if lines and more > 0 else lines


def _pairs(ledger: LedgerReport) -> list[str]:
    repeats = [*ledger.duplicates.first, *(ledger.near_duplicates or Repeats()).first]
    shared = [pair for each in ledger.shared for pair in each.first]
    return [
        f"{pair.row} {deed} {pair.earlier}" + ("" if pair.similarity == 1 else f" ({pair.similarity:.0%} alike)")
        for deed, pairs in (("repeats", repeats), ("is trained on as", shared))
        for pair in pairs
    ]


def _spots(ledger: LedgerReport) -> list[str]:
    return [f"{spot.source} ({spot.role}): {spot.kind} {spot.shown}" for spot in ledger.private.first]


def _reasons(counts: Mapping[str, int]) -> str:
    return "".join(f", {count:,} skipped ({reason})" for reason, count in counts.items())


def _repeats(repeats: Repeats) -> str:
    return f"{repeats.rows:,} to the letter, copies of {_rows(repeats.groups)}" if repeats.rows else "none"


def _near(ledger: LedgerReport) -> str:
    near = ledger.near_duplicates
    if near is None:
        return "not looked for"
    compared = f" (among the first {ledger.near_rows:,} rows)" if ledger.near_rows < ledger.rows_used else ""
    return (f"{near.rows:,}, like {_rows(near.groups)} before" if near.rows else "none") + compared


def _shared(exact: int, near: int, rows: int) -> str:
    return f"{exact:,} of {rows:,} rows to the letter, {near:,} nearly" if exact or near else f"none of {rows:,} rows"


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "none found"


def _rows(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}row{'s' if count != 1 else ''}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0%"


def _sum(counts: Mapping[str, int]) -> int:
    return sum(counts.values())
