"""`run.json`, the one file that goes down to the trainer: what to train, with what, and where.

Self-contained, so that `python -m burnish.train RUN_DIR` needs no server, no database and no environment.
"""

from pathlib import Path

from pydantic import Field

from burnish.run.directory import RunDirectory
from burnish.run.plan import Layout
from burnish.spec.train import Frozen, TrainSpec


class RunOrder(Frozen):
    run_id: str
    spec: TrainSpec
    layout: Layout
    model_directory: Path
    """The base model: a Hugging Face folder with safetensors, tokenizer and chat template."""
    data_path: Path | None = None
    """The file or folder that `spec.data.path` resolved to; None for made-up data."""
    validation_path: Path | None = None
    """The same for `spec.validation.data.path`."""
    resume_from: Path | None = None
    """A checkpoint of another run to start from. The run's own newest whole checkpoint goes first."""
    store_directory: Path
    """Where tokenised data is kept and shared between runs."""
    volume_bytes_free: int | None = Field(default=None)
    """Room the volume had at submission; None where no size is enforced."""


def write_order(order: RunOrder, directory: RunDirectory) -> None:
    """Write `run.json` whole: temporary name, then rename."""
    directory.root.mkdir(parents=True, exist_ok=True)
    temporary = directory.order.with_suffix(".json.tmp")
    temporary.write_text(order.model_dump_json(indent=2))
    temporary.replace(directory.order)


def read_order(directory: RunDirectory) -> RunOrder:
    return RunOrder.model_validate_json(directory.order.read_text())
