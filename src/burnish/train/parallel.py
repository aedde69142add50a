"""The ranks of a run and what they agree on: who reads what, what a sum is over all of them.

Today a world of one rank; the loop asks here all the same, so that more ranks change this file and not the loop.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from burnish.errors import ExecutorError, PlanError
from burnish.run.plan import Layout
from burnish.train.job import DtypeName
from burnish.train.machine import threads


@dataclass(frozen=True)
class World:
    rank: int
    ranks: int
    reader: int
    """Which of the readers this rank is; ranks that share a row share a reader."""
    readers: int
    device: torch.device
    compute_dtype: torch.dtype
    """Of the matrix products. Master weights, their gradients and the optimizer are float32."""

    @property
    def is_chief(self) -> bool:
        """The one rank that writes the diary, the log and the export."""
        return self.rank == 0

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Each number summed over all readers."""
        return list(numbers)

    def agree(self, wish: bool) -> bool:
        """Whether any rank wishes it, so that all stop at the same step."""
        return wish

    def computing(self) -> AbstractContextManager:
        """Within, matrix products run in the compute dtype."""
        if self.compute_dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.compute_dtype, cache_enabled=True)


def open_world(layout: Layout, dtype: DtypeName) -> World:
    if layout.ranks != 1:
        raise PlanError(
            f"The run is laid out for {layout.ranks} devices, and this trainer works on one.",
            hint="Set deployment.num_train_gpus = 1.",
        )
    if layout.device == "cuda" and not torch.cuda.is_available():
        raise ExecutorError(
            "The run is laid out for a GPU, but torch finds none here.",
            hint="Look at nvidia-smi, and whether this torch was built for CUDA.",
        )
    torch.set_num_threads(threads())
    return World(
        rank=0,
        ranks=1,
        reader=0,
        readers=layout.readers,
        device=torch.device(layout.device),
        compute_dtype=torch.float32 if dtype == "float32" else torch.bfloat16,
    )
