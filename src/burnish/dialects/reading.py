"""What every dialect gives back. Knows no dialect."""

from dataclasses import dataclass

from burnish.spec.train import TrainSpec


@dataclass(frozen=True)
class Reading:
    spec: TrainSpec
    dialect: str
    notes: tuple[str, ...] = ()
    """What keys were taken to mean, one sentence each, where the file leaves a question."""
    volume: str | None = None
    """The volume that the file itself names; a `--volume` on the command line goes first."""
    name: str | None = None
