"""`burnish train CONFIG --here`, and a check of the same: in this terminal, with no server and no database.

Does by hand what the server does at submission: finds model, data and device, makes the same refusals, writes
`run.json`. Then it is the trainer's parent and nothing more.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from burnish.cli.place import Place, find_place, find_setting
from burnish.cli.session import answer, say
from burnish.cli.show import WorkBar
from burnish.control.places import require_disk
from burnish.control.resume import find_resume_point
from burnish.data.check import OnProgress, check_before_run, check_config
from burnish.dialects import Reading, mask_secrets, read_config
from burnish.home import Home, find_home
from burnish.literals import new_run_id, volume_path
from burnish.run.directory import RunDirectory
from burnish.run.events import Exported, Finished, read_events
from burnish.run.order import RunOrder, write_order
from burnish.run.plan import plan_layout
from burnish.run.report import CheckReport
from burnish.wire import Wire


class HereView(Wire):
    """What `burnish train CONFIG --here --json` prints."""

    run_id: str
    outcome: str
    """`completed`, `stopped` or `failed`."""
    step: int
    message: str = ""
    hint: str = ""
    directory: str
    """The run's folder on this machine."""
    model_directory: str | None = None
    """A Hugging Face folder with what was trained; None where the config asks for no checkpoint."""


def train_here(text: str, *, volume: str | None, name: str | None, json: bool) -> int:
    """Train to the end; answers with the trainer's exit code. The log goes to stdout, with `json` to stderr."""
    home = find_home()
    reading = read_config(text)
    place = find_place(home, volume or reading.volume)
    directory = RunDirectory.on_volume(place.root, new_run_id())
    with WorkBar(silent=json) as bar:
        order = make_order(home, reading, place, directory.run_id, on_progress=bar.move)
    _write_down(order, directory, text)
    if not json:
        _tell(order, reading, name)
    code = _run_trainer(directory, reading.spec.environment, sys.stderr.buffer if json else sys.stdout.buffer)
    ending = _ending(directory, place.root)
    answer(ending, "\n" + _ending_text(ending), json=json)
    return code


def check_here(
    reading: Reading,
    *,
    rows: int | None,
    proof_rows: int,
    on_proof: Callable[[CheckReport], None],
    on_progress: OnProgress,
) -> CheckReport:
    """What `burnish train CONFIG --here` would train on; `ModelError` where the model is not on this machine."""
    home, spec = find_home(), reading.spec
    setting = find_setting(home, spec, find_place(home, None))
    return check_config(
        spec, setting, notes=reading.notes, rows=rows, proof_rows=proof_rows, on_proof=on_proof, on_progress=on_progress
    )


def make_order(home: Home, reading: Reading, place: Place, run_id: str, *, on_progress: OnProgress) -> RunOrder:
    """Everything the trainer is told, or the refusal that a submission would have met."""
    spec = reading.spec
    setting = find_setting(home, spec, place)
    layout = plan_layout(spec, device=setting.device, offered=setting.offered)
    resume_from = find_resume_point(spec, place.root)
    check_before_run(spec, setting, notes=reading.notes, on_progress=on_progress)
    needed = setting.storage_bytes(spec)
    require_disk(place.root, "What this run saves", needed)
    return RunOrder(
        run_id=run_id,
        spec=spec.model_copy(update={"environment": {}}),
        layout=layout,
        model_directory=setting.model_directory,
        data_path=setting.data_path,
        validation_path=setting.validation_path,
        resume_from=resume_from,
        store_directory=setting.store_directory,
    )


def _write_down(order: RunOrder, directory: RunDirectory, text: str) -> None:
    directory.config.parent.mkdir(parents=True, exist_ok=True)
    directory.log.parent.mkdir(parents=True, exist_ok=True)
    directory.config.write_text(mask_secrets(text))
    write_order(order, directory)


def _tell(order: RunOrder, reading: Reading, name: str | None) -> None:
    called = name or reading.name
    print(f"Training {order.spec.model} here, as {order.run_id}" + (f" ({called})" if called else ""))
    for note in reading.notes:
        print(f"Note: {note}")
    print("Ctrl-C stops it after its step.\n", flush=True)


def _run_trainer(directory: RunDirectory, environment: Mapping[str, str], out: BinaryIO) -> int:
    command = [sys.executable, "-m", "burnish.train", str(directory.root)]
    # A session of its own: Ctrl-C reaches us alone, and we ask the trainer to stop, which saves what there is.
    trainer = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | environment | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    assert trainer.stdout is not None
    with _passing_signals_to(trainer), directory.log.open("ab", buffering=0) as log:
        while piece := os.read(trainer.stdout.fileno(), 1 << 16):
            log.write(piece)
            out.write(piece)
            out.flush()
        code = trainer.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_signals_to(trainer: subprocess.Popen[bytes]) -> Iterator[None]:
    """A first Ctrl-C asks for a stop, a second one kills."""
    asked = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            trainer.kill()
            return
        asked = True
        trainer.terminate()
        say("\nStopping after this step. Once more ends it at once.")

    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, pass_on) for number in caught]
    try:
        yield
    finally:
        for number, handler in zip(caught, before, strict=True):
            signal.signal(number, handler)


def _ending(directory: RunDirectory, root: Path) -> HereView:
    events, _ = read_events(directory.diary)
    finished = next((event for event in reversed(events) if isinstance(event, Finished)), None)
    exported = next((event for event in reversed(events) if isinstance(event, Exported) and event.form != "gguf"), None)
    return HereView(
        run_id=directory.run_id,
        outcome=finished.outcome if finished else "failed",
        step=finished.step if finished else 0,
        message=finished.message if finished else "The trainer ended without a word.",
        hint=finished.hint if finished else f"Its log is {directory.log}.",
        directory=str(directory.root),
        model_directory=str(root / volume_path(exported.path)) if exported else None,
    )


def _ending_text(ending: HereView) -> str:
    lines = [f"Run {ending.run_id} {ending.outcome} at step {ending.step}."]
    if ending.outcome == "failed":
        lines += [f"  Reason: {ending.message}", f"  Hint: {ending.hint}"]
    if ending.model_directory:
        lines += [f"  Model: {ending.model_directory}", f"  Chat with it: burnish chat {ending.model_directory}"]
    else:
        lines.append(f"  Folder: {ending.directory}")
    return "\n".join(lines)
