"""`burnish verify-resume`: proves on the user's own config and data that a run that is cut off loses nothing.

Trains a few steps in one piece, the same steps with a SIGKILL in the middle, and holds the two against each other.
All of it in a temporary folder, in this terminal, with no server.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from burnish.cli.session import Json, answer, new_app, say
from burnish.cli.train import read_config_text
from burnish.errors import RunError
from burnish.literals import new_run_id
from burnish.run.comparison import Comparison
from burnish.run.directory import RunDirectory
from burnish.run.events import Finished, Started, read_events
from burnish.spec.train import Checkpoints, Constant, Export, Linear, TrainSpec
from burnish.wire import Wire

_TRAINER = "burnish.train"

app = new_app("Prove that a run of this config that is cut off and resumed equals one that is not, bit for bit.")


class ResumeProof(Wire):
    """What `burnish verify-resume CONFIG --json` prints."""

    exact: bool
    steps: int
    killed_after: int
    resumed_from: int
    weights: int
    moments: int
    """Tensors that were compared."""
    difference: str = ""
    """The first one."""


@app.command()
def verify(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file: sft.toml.", show_default=False)],
    volume: Annotated[str | None, typer.Option(help="The volume that holds the data, on this machine.")] = None,
    steps: Annotated[int, typer.Option(min=3, help="How many steps to train.")] = 6,
    json: Json = False,
) -> None:
    """Train a few steps whole, and the same with a SIGKILL in the middle; exit code 1 where the two differ."""
    proof = prove_resume(read_config_text(config), volume=volume, steps=steps)
    answer(proof, _text(proof), json=json)
    raise typer.Exit(0 if proof.exact else 1)


def prove_resume(text: str, *, volume: str | None, steps: int) -> ResumeProof:
    # What only this needs (numpy, pyarrow) is not there where only the client is installed.
    from burnish.cli.here import make_order
    from burnish.cli.place import find_place
    from burnish.dialects import read_config
    from burnish.home import find_home
    from burnish.run.order import write_order

    reading = read_config(text)
    environment = reading.spec.environment
    every = max(1, steps // 3)
    reading = replace(reading, spec=_shortened(reading.spec, steps, every))
    home = find_home()
    order = make_order(home, reading, find_place(home, volume or reading.volume), "", on_progress=lambda *_: None)
    with TemporaryDirectory(prefix="burnish-verify-") as folder:
        run_id = new_run_id()
        whole, cut = (RunDirectory.on_volume(Path(folder) / name, run_id) for name in ("whole", "cut"))
        for directory in (whole, cut):
            write_order(order.model_copy(update={"run_id": run_id}), directory)
        say(f"Training {steps} steps in one piece ...")
        _train(whole, environment)
        say(f"Training them again, with SIGKILL after step {every + 1} ...")
        _train(cut, environment, cut_after=every + 1)
        say(f"Resuming from step {every} ...")
        _train(cut, environment)
        started = [event for event in read_events(cut.diary)[0] if isinstance(event, Started)]
        found = _compare(whole, cut, steps)
    return ResumeProof(
        exact=not found.difference,
        steps=steps,
        killed_after=every + 1,
        resumed_from=started[-1].resumed_from_step,
        weights=found.weights,
        moments=found.moments,
        difference=found.difference,
    )


def _shortened(spec: TrainSpec, steps: int, every: int) -> TrainSpec:
    """The same training in so few steps: a schedule that still fits, a checkpoint before the cut, no early end."""
    changes: dict[str, Any] = {"steps": steps, "epochs": None, "resume": None, "export": Export()}
    changes["checkpoints"] = Checkpoints(every_steps=every)
    if not isinstance(spec.schedule, Constant):
        shape = {"warmup_steps": min(spec.schedule.warmup_steps, every)}
        if isinstance(spec.schedule, Linear):
            shape["decay_steps"] = min(spec.schedule.decay_steps, every)
        changes["schedule"] = spec.schedule.model_copy(update=shape)
    if spec.validation is not None:
        changes["validation"] = spec.validation.model_copy(update={"every_steps": every, "patience": None})
    return spec.model_copy(update=changes)


def _train(run: RunDirectory, environment: Mapping[str, str], *, cut_after: int | None = None) -> None:
    command = [sys.executable, "-m", _TRAINER, str(run.root)]
    command += [] if cut_after is None else ["--cut-after", str(cut_after)]
    ended = subprocess.run(
        command, check=False, env=os.environ | dict(environment), stdin=subprocess.DEVNULL, capture_output=True
    )
    if ended.returncode == (0 if cut_after is None else -signal.SIGKILL):
        return
    last = next((event for event in reversed(read_events(run.diary)[0]) if isinstance(event, Finished)), None)
    if last is not None:
        raise RunError(last.message, hint=last.hint)
    raise RunError(f"The trainer ended with exit code {ended.returncode}.", hint=ended.stderr.decode()[-500:])


def _compare(whole: RunDirectory, cut: RunDirectory, steps: int) -> Comparison:
    command = [sys.executable, "-m", "burnish.train.compare", str(whole.root), str(cut.root), str(steps)]
    ended = subprocess.run(command, check=False, capture_output=True)
    if ended.returncode:
        raise RunError("The two runs could not be compared.", hint=ended.stderr.decode()[-500:])
    return Comparison.model_validate_json(ended.stdout)


def _text(proof: ResumeProof) -> str:
    cut = f"killed after step {proof.killed_after} and resumed from step {proof.resumed_from}"
    if not proof.exact:
        return f"Resuming is NOT exact: {cut}, the run differs.\n  The first difference: {proof.difference}"
    return (
        f"Resuming is exact: {cut}, the run equals the whole one bit for bit.\n"
        f"  Compared: {proof.weights} weights, {proof.moments} optimizer states, the counters; "
        f"loss, learning rate, gradient norm and rows of {proof.steps} steps"
    )
