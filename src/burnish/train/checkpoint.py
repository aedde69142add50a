"""What a resume needs, in `step_N/trainer`: weights, moments, counters. Written and read by torch's DCP, by name.

DCP shards by whoever saves and reshards for whoever loads, so more ranks will change neither format nor caller.
Knows nothing of markers or folders beside its own.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException

from burnish.data import stream
from burnish.errors import RunError
from burnish.run.forecast import trainer_bytes_per_parameter
from burnish.spec import train as spec
from burnish.train.optim import Optimizer, make_state
from burnish.train.snapshot import Snapshot, learning, look_at

_COUNTERS = "progress.json"


@dataclass(frozen=True)
class Progress:
    """The counters of a run. `step` is also the whole state of the data and of the schedule."""

    step: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    skipped: int = 0
    """Steps that changed nothing because their loss or gradient was not finite."""
    stream: str = stream.to_text(stream.EMPTY)
    """Hash of all that was learnt from."""
    best_loss: float | None = None
    """The lowest on the validation data, as early stopping sees it."""
    validations_since_best: int = 0


def save_trainer(folder: Path, state: Snapshot, progress: Progress) -> None:
    folder.mkdir()
    with _alone():
        state_dict_saver.save(_named(state), checkpoint_id=folder, no_dist=True)
    (folder / _COUNTERS).write_text(json.dumps(asdict(progress)))


def load_trainer(folder: Path, model: nn.Module, optimizer: Optimizer) -> Progress:
    """Overwrite weights and moments in place, to the bit; `RunError` if the folder is another model's."""
    make_state(optimizer)
    try:
        state = _named(look_at(model, optimizer))
        with _alone():
            state_dict_loader.load(state, checkpoint_id=folder, no_dist=True)
        _take_counts(state["app"]["optimizer"], model, optimizer)
        return Progress(**json.loads((folder / _COUNTERS).read_text()))
    except (CheckpointException, RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
        raise RunError(
            f"The checkpoint {folder} does not fit this model ({_root(error)}).",
            hint="A run resumes from checkpoints of its own base model only.",
        ) from error


def trainer_bytes(model: nn.Module, wish: spec.Optimizer) -> int:
    """Size of a save, to a per cent: what learns, and the optimizer's state of it."""
    return trainer_bytes_per_parameter(wish) * sum(parameter.numel() for _, parameter in learning(model))


def _named(state: Snapshot) -> dict[str, Any]:
    return {"app": {"model": state.weights, "optimizer": state.moments}}


def _take_counts(moments: dict[str, Any], model: nn.Module, optimizer: Optimizer) -> None:
    """Tensors are read in place; what an optimizer keeps as a plain number is not."""
    for name, parameter in learning(model):
        for key, value in optimizer.state.get(parameter, {}).items():
            if not isinstance(value, Tensor):
                optimizer.state[parameter][key] = moments[f"{name}.{key}"]


@contextmanager
def _alone() -> Iterator[None]:
    """DCP warns that there is no process group, though it was told so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _root(error: BaseException) -> str:
    if isinstance(error, CheckpointException) and error.failures:
        error = next(iter(error.failures.values()))[0]
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
