"""All that a save is made of, as it is at one step; copied aside, so that training may go on while it is written.

Knows no folder and no thread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from burnish.train.optim import Optimizer


@dataclass(frozen=True)
class Snapshot:
    weights: dict[str, Tensor]
    """What learns, each once, by its full name."""
    moments: dict[str, Any]
    """The optimizer's state, as `<weight>.<what>`."""
    aliases: dict[str, str]
    """Other names of tied weights, and the one they go by in `weights`."""

    def by_every_name(self) -> dict[str, Tensor]:
        return self.weights | {alias: self.weights[name] for alias, name in self.aliases.items()}

    @property
    def size_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.weights.values(), *self.moments.values()) if _is_tensor(tensor))


def look_at(model: nn.Module, optimizer: Optimizer) -> Snapshot:
    """The state itself: its tensors are the model's and the optimizer's own, and change with them."""
    moments: dict[str, Any] = {}
    for name, parameter in learning(model):
        for key, value in optimizer.state.get(parameter, {}).items():
            moments[f"{name}.{key}"] = value
    return Snapshot({name: each.detach() for name, each in learning(model)}, moments, dict(_aliases(model)))


def learning(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """What is frozen is the base model's, and is read from its folder again."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


@dataclass
class Staging:
    """Main memory to copy into, taken at the first copy and used again at every later one."""

    _buffers: dict[str, Tensor] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        return bool(self._buffers)

    def copy(self, state: Snapshot) -> Snapshot:
        copied = Snapshot(self._copied("weight", state.weights), self._copied("moment", state.moments), state.aliases)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()  # the copies out of the GPU were only queued
        return copied

    def _copied(self, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._buffer(f"{kind} {name}", value).copy_(value, non_blocking=True) if _is_tensor(value) else value
            for name, value in values.items()
        }

    def _buffer(self, name: str, like: Tensor) -> Tensor:
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != like.shape or buffer.dtype != like.dtype:
            buffer = torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=like.is_cuda)
            self._buffers[name] = buffer
        return buffer


def _aliases(model: nn.Module) -> Iterator[tuple[str, str]]:
    first: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and first.setdefault(id(parameter), name) != name:
            yield name, first[id(parameter)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
