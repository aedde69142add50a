"""`python -m burnish.train.compare RUN_DIR RUN_DIR STEP`: whether two runs came to the same, bit for bit.

Looks at every weight and moment of the two checkpoints of STEP, at their counters, and at what the diaries say of each
step up to it. Prints a `Comparison` as JSON.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from burnish.run.comparison import Comparison
from burnish.run.directory import CheckpointDirectory, RunDirectory
from burnish.run.events import Step, read_events

_TOLD = ("loss/mean", "optim/lr", "optim/grad_norm")


def compare_runs(whole: RunDirectory, cut: RunDirectory, step: int) -> Comparison:
    steps = list(zip(_steps(whole, step), _steps(cut, step), strict=True))
    states = [_state(each.checkpoint(step)) for each in (whole, cut)]
    told = _first_of_steps(steps) or _first_of_states(*states)
    return Comparison(
        steps=step,
        weights=sum(name.startswith("weight ") for name in states[0]),
        moments=sum(name.startswith("moment ") for name in states[0]),
        difference=told,
    )


def _first_of_steps(steps: list[tuple[Step | None, Step | None]]) -> str:
    for number, (one, other) in enumerate(steps, start=1):
        if one is None or other is None:
            return f"step {number} is missing in the {'whole' if one is None else 'resumed'} run"
        for name in _TOLD:
            if repr(one.values[name]) != repr(other.values[name]):
                return f"{name} of step {number}: {one.values[name]!r} in one piece, {other.values[name]!r} resumed"
        if one.stream != other.stream:
            return f"the rows given to the model up to step {number} are others"
    return ""


def _first_of_states(one: dict[str, Any], other: dict[str, Any]) -> str:
    if one.keys() != other.keys():
        return f"{min(one.keys() ^ other.keys())} is there in one of the two only"
    for name, value in one.items():
        if isinstance(value, Tensor):
            same = value.dtype == other[name].dtype and torch.equal(_bits(value), _bits(other[name]))
        else:
            same = value == other[name]
        if not same:
            return f"{name} is not the same"
    return ""


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _steps(run: RunDirectory, last: int) -> Iterator[Step | None]:
    found: dict[int, Step] = {}
    for event in read_events(run.diary)[0]:
        if isinstance(event, Step):
            found[event.step] = event
    return (found.get(step) for step in range(1, last + 1))


def _state(checkpoint: CheckpointDirectory) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=checkpoint.root.parent) as folder:
        dcp_to_torch_save(checkpoint.trainer, Path(folder) / "state.pt")
        app = torch.load(Path(folder) / "state.pt")["app"]
    tensors = {f"weight {name}": each for name, each in app["model"].items()}
    tensors |= {f"moment {name}": each for name, each in app.get("optimizer", {}).items()}
    return tensors | {"the counters": (checkpoint.trainer / "progress.json").read_text()}


if __name__ == "__main__":
    first, second, steps = sys.argv[1:]
    print(compare_runs(RunDirectory(Path(first)), RunDirectory(Path(second)), int(steps)).model_dump_json())
