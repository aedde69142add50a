"""The live screen, on a real pseudo-terminal."""

import os
import pty
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from burnish.cli import show
from burnish.cli.show import RunScreen, WorkBar
from burnish.wire import RunView


def shown_on_a_terminal(act: Callable[[RunScreen], None]) -> str:
    """What a terminal was sent while `act` used the screen."""
    ours, theirs = pty.openpty()
    before = sys.stdout
    try:
        with os.fdopen(theirs, "w") as sys.stdout, RunScreen() as screen:
            act(screen)
        return read_all(ours)
    finally:
        sys.stdout = before
        os.close(ours)


def read_all(terminal: int) -> str:
    """Until the other end is closed, which a pseudo-terminal tells by an error."""
    pieces = []
    with suppress(OSError):
        while piece := os.read(terminal, 65_536):
            pieces.append(piece)
    return b"".join(pieces).decode()


def a_run(**values) -> RunView:
    base = {"id": "job_0", "name": "x", "status": "RUNNING", "model": "burnish/tiny", "created_at": 0}
    return RunView.model_validate(base | values)


def test_a_line_that_comes_in_halves_is_printed_once_and_whole(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")

    def act(screen: RunScreen) -> None:
        screen.write("first li")
        screen.write("ne [eval]\nsecond")
        screen.write(" line")

    sent = shown_on_a_terminal(act)
    assert sent.count("first line [eval]") == 1
    assert sent.count("second line") == 1


def test_the_bar_names_status_steps_and_loss(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    sent = shown_on_a_terminal(lambda screen: screen.show(a_run(step=3, max_steps=10, loss=1.5, reason="[why]")))
    assert "RUNNING: [why]" in sent
    assert "3/10" in sent and "steps · loss 1.5000" in sent


@pytest.mark.parametrize(("quiet_seconds", "silent", "shown"), [(0, False, True), (60, False, False), (0, True, False)])
def test_work_has_a_bar_where_it_takes_its_time(monkeypatch, quiet_seconds: float, silent: bool, shown: bool):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(show, "_QUIET_SECONDS", quiet_seconds)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with WorkBar(silent=silent) as bar:
            bar.move("Reading [rows]", 1, 4)
    sent = read_all(ours)
    assert ("Reading [rows]" in sent and "25%" in sent) is shown
    assert bool(sent) is shown
