"""What moves on a terminal: bars. The only module that knows Rich."""

import sys
import time
from collections.abc import Callable, Iterator
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

from burnish.cli.text import span_text
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
