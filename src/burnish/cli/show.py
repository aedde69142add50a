"""What moves or has colours on a terminal: bars, and the proof of a check. The only module that knows Rich."""

import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from burnish.cli.check_text import refusal_lines, report_text, section
from burnish.cli.text import span_text
from burnish.literals import printable
from burnish.run.report import CheckReport, ProofRow, Refusal
from burnish.wire import RunView

_QUIET_SECONDS = 1.0
"""A transfer shorter than this shows no bar."""


@contextmanager
def transfer_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A callback for (bytes done, bytes in all); draws on stderr, on a terminal, after a second."""
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=console
    )
    task = progress.add_task(escape(label), total=None)
    started_at = time.monotonic()

    def move(done: int, total: int) -> None:
        if console.is_terminal and not progress.live.is_started and time.monotonic() - started_at > _QUIET_SECONDS:
            progress.start()
        progress.update(task, completed=done, total=total)

    try:
        yield move
    finally:
        if progress.live.is_started:
            progress.stop()


class RunScreen:
    """A run as it goes: its log, and on a terminal a bar below it with loss, speed and time left."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._file = sys.stderr if to_stderr else sys.stdout
        self._console = Console(file=self._file, highlight=False)
        self._line = ""
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> "RunScreen":
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("steps{task.fields[facts]}"),
                console=self._console,
            )
            self._task = self._progress.add_task("", total=None, facts="")
            self._progress.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._progress:
            self._progress.stop()
        if self._line:
            self._file.write(self._line)
            self._file.flush()

    def show(self, run: RunView) -> None:
        if self._progress:
            label = escape(f"{run.status}: {run.reason}" if run.reason else str(run.status))
            self._progress.update(
                self._task, description=label, completed=run.step, total=run.max_steps, facts=escape(facts_text(run))
            )

    def write(self, text: str) -> None:
        """More of the log. Under a bar whole lines only: half of one would be drawn over."""
        if self._progress is None:
            self._file.write(text)
            self._file.flush()
            return
        whole, newline, self._line = (self._line + text).rpartition("\n")
        if newline:
            self._console.out(whole, highlight=False)


def facts_text(run: RunView) -> str:
    """` · loss 1.1080 · 6,704 tokens/s · 2 min 10 s left`, as far as it is known."""
    facts = [""]
    if run.loss is not None:
        facts.append(f"loss {run.loss:.4f}")
    if run.usage.train_seconds > 0 and run.step:
        facts.append(f"{run.usage.tokens / run.usage.train_seconds:,.0f} tokens/s")
        if run.max_steps is not None and not run.status.is_over:
            left = (run.max_steps - run.step) * run.usage.train_seconds / run.step
            facts.append(f"{span_text(left)} left")
    return " · ".join(facts)


class WorkBar:
    """What is done now and how much of it; on stderr, on a terminal, after a second. Gone when all is done."""

    def __init__(self, *, silent: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[share]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, share="")
        self._started_at = time.monotonic()
        self._silent = silent or not self._progress.console.is_terminal

    def __enter__(self) -> "WorkBar":
        return self

    def __exit__(self, *problem: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def move(self, what: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._started_at > _QUIET_SECONDS:
            self._start()
        share = f"{done / total:.0%}" if total else ""
        self._progress.update(self._task, description=escape(what), completed=done, total=total, share=share)

    def wait(self, what: str) -> None:
        """For work that does not say how far it is."""
        self._start()
        self._progress.update(self._task, description=escape(what), total=None, share="")

    def _start(self) -> None:
        if not self._silent and not self._progress.live.is_started:
            self._progress.start()


class CheckScreen:
    """A check as it goes: the proof as soon as it is there, a bar while rows are read, then the rest."""

    def __init__(self, config: str, *, silent: bool = False) -> None:
        self.silent = silent
        self.bar = WorkBar(silent=silent)
        self._config = config
        self._console = Console(highlight=False)
        self._introduced = False
        self._told: list[Refusal] = []

    def first(self, report: CheckReport) -> None:
        """The proof of the first rows, and whether they show something wrong."""
        # Without a renderer no row was read, and none will be: the verdict is next.
        if self.silent or not report.renderer or not (report.proof or report.refusals):
            return
        self._introduce(report)
        if report.proof:
            self._show_proof(report.proof)
        lines = [line for refusal in report.refusals for line in refusal_lines(refusal)]
        self._write(section("Refused at first sight:", lines) if lines else "The first rows are sound.")
        self._write("")
        self._told = report.refusals

    def end(self, report: CheckReport) -> None:
        if self.silent:
            return
        self._introduce(report)
        told = bool(self._told) and self._told == report.refusals and report.ledger is None
        self._write(report_text(report, refusals_told=told))

    def _introduce(self, report: CheckReport) -> None:
        if not self._introduced and report.model:
            self._write(f"Check of {self._config}: {report.model}, rendered by {report.renderer or 'nothing'}\n")
        self._introduced = True

    def _show_proof(self, rows: Sequence[ProofRow]) -> None:
        coloured = self._console.is_terminal and not self._console.no_color
        self._console.print(_legend(coloured))
        for place, row in enumerate(rows):
            before = sum(other.source == row.source for other in rows[:place])
            named = f"{row.source}, sample {before + 1}" if before else row.source
            count = f"{len(row.trained):,} tokens, {sum(row.trained):,} trained"
            more = f"; {row.tokens_left_out:,} more are not shown" if row.tokens_left_out else ""
            self._console.print(Text(f"\n{named}: {count}{more}", "bold"))
            shown = _proof_text(row, coloured=coloured)
            end = "" if shown.plain.endswith("\n") else "\n"
            self._console.print(shown, soft_wrap=not self._console.is_terminal, end=end)
        self._console.print()

    def _write(self, text: str) -> None:
        """Titles stand at the left edge; on a terminal what is too long for a line goes on below its words."""
        for line in printable(text, keep="\n").split("\n"):
            room = self._console.width if self._console.is_terminal else len(line) + 1
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            for part in textwrap.wrap(line, room, subsequent_indent=indent) or [""]:
                self._console.print(Text(part, _style(part)), soft_wrap=True)


def _style(line: str) -> str:
    if line.startswith("Verdict: "):
        return "bold red" if "refused" in line else "bold green"
    return "" if not line or line.startswith((" ", "Stream: ")) else "bold"


_TRAINED, _CONTEXT = ("black on color(114)", "black on color(157)"), ("default", "dim")
"""In turn, so that it shows where a token ends."""
_OPEN, _CLOSE = "⟦", "⟧"
_LINE_END, _COVER = "⏎", "•"
_LONGEST_SHOWN = 1_500
"""Letters of a row."""


def _legend(coloured: bool) -> Text:
    rest = f"{_LINE_END} ends a line, {_COVER} covers what looks private"
    if not coloured:
        return Text(f"{_OPEN}trained{_CLOSE}, all else is context; {rest}")
    legend = Text()
    for word, styles in (("trained", _TRAINED), ("context", _CONTEXT)):
        legend.append(word, styles[0]).append(" token by token", styles[1]).append("  ")
    return legend.append(rest)


def _proof_text(row: ProofRow, *, coloured: bool) -> Text:
    """Each token in its colour, or what is trained in brackets; the middle of a long row left out."""
    shown, whole = Text(), "".join(piece.text for piece in row.pieces)
    left_out, start, inside = _middle(row, len(whole)), 0, False

    def step(trained: bool) -> None:
        nonlocal inside
        if inside != trained and not coloured:
            shown.append(_OPEN if trained else _CLOSE)
        inside = trained

    for number, (trained, end) in enumerate(zip(row.trained, row.token_ends, strict=True)):
        if number not in left_out:
            step(bool(trained))
            style = (_TRAINED if trained else _CONTEXT)[number % 2] if coloured else ""
            shown.append(_visible(whole[start:end]), style)
        elif number == left_out.start:
            step(False)
            hidden = sum(row.trained[left_out.start : left_out.stop])
            shown.append(f"\n… {len(left_out):,} tokens more, {hidden:,} of them trained …\n", "italic")
        start = end
    step(False)
    return shown


def _middle(row: ProofRow, letters: int) -> range:
    """Which tokens of a long row are left out."""
    if letters <= _LONGEST_SHOWN:
        return range(0)
    first = sum(end <= _LONGEST_SHOWN // 2 for end in row.token_ends)
    return range(first, max(first, sum(end <= letters - _LONGEST_SHOWN // 2 for end in row.token_ends)))


def _visible(text: str) -> str:
    return printable(text.replace("\n", f"{_LINE_END}\n"), keep="\n")
