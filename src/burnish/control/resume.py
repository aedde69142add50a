"""Which checkpoint a new run starts from, where its config says so. Its own checkpoints are the trainer's affair."""

from pathlib import Path

from burnish.control.places import place_on_volume
from burnish.errors import PlanError
from burnish.run.directory import CheckpointDirectory
from burnish.spec.train import TrainSpec


def find_resume_point(spec: TrainSpec, root: Path | None) -> Path | None:
    """The folder `.../step_N` under `root` that the config names; None where it does not ask to resume.

    `PlanError` where it names none, or one that is not a whole checkpoint.
    """
    if spec.resume is None:
        return None
    if spec.resume.directory is None or root is None:
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
    return checkpoint.root
