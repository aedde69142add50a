"""Which checkpoint a new run starts from, where it does. Its own checkpoints are the trainer's affair."""

from pathlib import Path

from burnish.control.house import House
from burnish.control.places import place_on_volume, run_directory
from burnish.control.tables import RunRow
from burnish.control.volumes import volume_root
from burnish.errors import NotFound, PlanError, RunError
from burnish.run.directory import CheckpointDirectory
from burnish.run.status import RunStatus
from burnish.spec.train import TrainSpec


def find_resume_point(spec: TrainSpec, root: Path) -> Path | None:
    """The folder `.../step_N` under `root` that the config names; None where it does not ask to resume.

    `PlanError` where it names none, or one that is not a whole checkpoint.
    """
    if spec.resume is None:
        return None
    if spec.resume.directory is None:
        raise PlanError(
            "The config resumes, but a new run has no checkpoint of its own and the config names no other.",
            hint='Name one on the volume: [resume] dir = "/runs/<run id>/outputs/fft-<run id>/checkpoints/step_10".',
        )
    checkpoint = CheckpointDirectory(place_on_volume(root, spec.resume.directory))
    if not checkpoint.is_whole:
        raise PlanError(
            f"{spec.resume.directory} is not a whole checkpoint.",
            hint="burnish train checkpoints <run id> lists those that a run saved.",
        )
    if spec.steps is not None and checkpoint.step >= spec.steps:
        raise PlanError(
            f"{spec.resume.directory} has all {spec.steps} steps of the config behind it, so nothing is left to train.",
            hint="Raise max_steps, or name an earlier checkpoint.",
        )
    return checkpoint.root


def find_checkpoint(house: House, run: RunRow, step: int | None) -> CheckpointDirectory:
    """The newest whole checkpoint of a run that has ended, or that of `step`; a sentence where there is none."""
    if not RunStatus(run.status).is_over:
        raise RunError(f"{run.id} is {run.status} and has not ended.", hint=f"burnish train stop {run.id}")
    if run.volume is not None:
        volume_root(house, run.volume)
    saved = run_directory(house.home, run.id, run.volume).whole_checkpoints()
    there = {each.step: each for each in saved if each.trainer.is_dir()}
    if not there:
        raise RunError(
            f"{run.id} left no checkpoint to go on from.",
            hint="A [ckpt] table in the config asks for one at the end; ckpt.interval for more.",
        )
    chosen = max(there) if step is None else step
    if chosen not in there:
        raise NotFound(
            f"{run.id} has no whole checkpoint of step {chosen}.", hint=f"It has {', '.join(map(str, sorted(there)))}."
        )
    if run.max_steps is not None and chosen >= run.max_steps:
        raise RunError(
            f"{run.id} has all its {run.max_steps} steps behind it, so there is nothing to go on with.",
            hint="Name an earlier one with --step, or dispatch a config with more max_steps and [resume] dir.",
        )
    return there[chosen]
