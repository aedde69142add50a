"""Every path of a run, named once.

Two trees: what the user sees, on their volume (`RunDirectory`), and what the executor needs, outside the user's
view (`executors.attempt`).
"""

import re
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(r"step_([0-9]+)")


@dataclass(frozen=True)
class RunDirectory:
    """The run's folder: `<volume>/runs/<run id>`."""

    root: Path

    @classmethod
    def on_volume(cls, volume_root: Path, run_id: str) -> "RunDirectory":
        return cls(volume_root / "runs" / run_id)

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def order(self) -> Path:
        """`run.json`: what goes down to the trainer."""
        return self.root / "run.json"

    @property
    def diary(self) -> Path:
        """`events.jsonl`: what comes up from the trainer."""
        return self.root / "events.jsonl"

    @property
    def log(self) -> Path:
        """Everything the trainer printed, all attempts, in order."""
        return self.root / "logs" / "trainer.log"

    @property
    def config(self) -> Path:
        """The config as the user wrote it."""
        return self.root / "configs" / "sft.toml"

    @property
    def checkpoints(self) -> Path:
        return self.root / "outputs" / f"fft-{self.run_id}" / "checkpoints"

    def checkpoint(self, step: int) -> "CheckpointDirectory":
        return CheckpointDirectory(self.checkpoints / f"step_{step}")

    def whole_checkpoints(self) -> list["CheckpointDirectory"]:
        """Those whose marker is there, oldest first; an interrupted save is not among them."""
        if not self.checkpoints.is_dir():
            return []
        found = [CheckpointDirectory(path) for path in self.checkpoints.iterdir() if _STEP.fullmatch(path.name)]
        return sorted((each for each in found if each.is_whole), key=lambda each: each.step)

    def relative(self, path: Path) -> str:
        """`path` as a volume path: `/runs/<run id>/...`."""
        return "/runs/" + (Path(self.run_id) / path.relative_to(self.root)).as_posix()


@dataclass(frozen=True)
class CheckpointDirectory:
    root: Path

    @property
    def step(self) -> int:
        match = _STEP.fullmatch(self.root.name)
        assert match is not None
        return int(match.group(1))

    @property
    def trainer(self) -> Path:
        """Weights, optimizer and counters: what a resume reads."""
        return self.root / "trainer"

    @property
    def model(self) -> Path:
        """A Hugging Face folder that stock transformers loads, or that of an adapter."""
        return self.root / "model"

    @property
    def merged(self) -> Path:
        """Where `model` is an adapter: the base model with the adapter added in."""
        return self.root / "merged"

    @property
    def gguf(self) -> Path:
        """The whole model as one file, where that was asked for."""
        return self.root / "model.gguf"

    @property
    def marker(self) -> Path:
        """Written last, with the size of every file. A folder without it is not a checkpoint."""
        return self.root / "COMPLETE.json"

    @property
    def is_whole(self) -> bool:
        return self.marker.is_file()
