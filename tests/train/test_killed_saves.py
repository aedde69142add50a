"""A trainer that is killed in the middle of a save, at each of its phases, and the attempt that comes after it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_trainer_process import events_of, losses_of, the_end, trained_state

from burnish.run.directory import RunDirectory
from burnish.run.events import Started
from burnish.train.__main__ import main

_DIE = "os.kill(os.getpid(), signal.SIGKILL)"
_WATCH = """
def watch(event, arguments):
    if event == {event!r} and all(part in str(arguments[0]) for part in {parts!r}):
        {then}
sys.addaudithook(watch)
"""

_AT_THE_SECOND_COPY = f"""
from burnish.train.snapshot import Staging
copy = Staging.copy
def die_or_copy(staging, state):
    if staging.is_ready:
        {_DIE}
    return copy(staging, state)
Staging.copy = die_or_copy
"""

PHASES = {
    "before the copy": _AT_THE_SECOND_COPY,
    "before the first file": _WATCH.format(event="os.mkdir", parts=[".step_4.saving"], then=_DIE),
    "in a shard": "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    + _WATCH.format(
        event="os.mkdir",
        parts=[".step_4.saving"],
        then="resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))",
    ),
    "before the marker": _WATCH.format(event="open", parts=[".step_4.saving", "COMPLETE.json"], then=_DIE),
    "after the marker": _WATCH.format(event="os.rename", parts=[".step_4.saving"], then=_DIE),
    "before retention": _WATCH.format(event="os.rename", parts=["/step_2"], then=_DIE),
    "in retention": _WATCH.format(event="os.rmdir", parts=["trainer"], then=_DIE),
}


@pytest.fixture(scope="module")
def wishes() -> dict:
    return {"checkpoints": {"every_steps": 2, "keep_last": 1}, "steps": 6}


@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_in_any_phase_of_a_save_costs_nothing_older(make_run, wishes: dict, phase: str) -> None:
    cut, whole = make_run("cut", **wishes), make_run("whole", **wishes)
    assert _run_to_its_death(cut, PHASES[phase]) in (-signal.SIGKILL, -signal.SIGXFSZ)
    saved = [each.step for each in cut.whole_checkpoints()]
    assert saved and saved[-1] == (4 if "retention" in phase else 2)
    assert main([str(cut.root)]) == main([str(whole.root)]) == 0
    assert [event.resumed_from_step for event in events_of(cut, Started)] == [0, saved[-1]]
    assert the_end(cut).outcome == "completed"
    assert losses_of(cut) == losses_of(whole)
    assert trained_state(cut.checkpoint(6)) == trained_state(whole.checkpoint(6))
    assert [path.name for path in cut.checkpoints.iterdir()] == ["step_6"]


def _run_to_its_death(run: RunDirectory, trap: str) -> int:
    program = f"""
import os, resource, signal, sys
{trap}
from burnish.train.__main__ import main
main([{str(run.root)!r}])
"""
    script = Path(run.root.parent / "trap.py")
    script.write_text(program)
    return subprocess.run([sys.executable, str(script)], check=False, capture_output=True).returncode
