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

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException

from burnish.data import stream
from burnish.errors import RunError

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


def save_trainer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    folder.mkdir()
    with _alone():
        state_dict_saver.save(_state(model, optimizer), checkpoint_id=folder, no_dist=True)
    (folder / _COUNTERS).write_text(json.dumps(asdict(progress)))


def load_trainer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Overwrite weights and moments in place, to the bit; `RunError` if the folder is another model's."""
    _make_moments(optimizer)
    try:
        with _alone():
            state_dict_loader.load(_state(model, optimizer), checkpoint_id=folder, no_dist=True)
        return Progress(**json.loads((folder / _COUNTERS).read_text()))
    except (CheckpointException, RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
        raise RunError(
            f"The checkpoint {folder} does not fit this model ({_root(error)}).",
            hint="A run resumes from checkpoints of its own base model only.",
        ) from error


def trainer_bytes(model: nn.Module) -> int:
    """Size of a save, to a per cent: weights and two moments, float32."""
    return 12 * sum(parameter.numel() for parameter in model.parameters())


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Everything by the parameter's full name; tensors are shared with the model, not copied."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    moments: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            moments[f"{name}.{key}"] = value
    return {"app": {"model": weights, "optimizer": moments}}


def _make_moments(optimizer: torch.optim.Optimizer) -> None:
    """AdamW makes its state at its first step; a load needs the places before."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }


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
