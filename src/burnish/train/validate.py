"""Loss on rows that are not trained on: all of them, each weighing by its trained tokens, in the order of the data.

The number does not hang on how many devices there are, nor on how rows are packed. Knows no optimizer and no step.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from burnish.data.loader import Batch, RowLoader
from burnish.data.prepare import PreparedData
from burnish.spec.train import TrainSpec
from burnish.train.model import Decoder
from burnish.train.parallel import World


@dataclass(frozen=True)
class Outcome:
    loss: float
    """Mean over the trained tokens of all rows, in nats."""
    trained_tokens: int
    seconds: float

    @property
    def values(self) -> dict[str, float]:
        """Metrics under their names."""
        return {"val/loss": self.loss, "val/perplexity": math.exp(min(self.loss, 20.0))}


def open_rows(spec: TrainSpec, data: PreparedData, world: World) -> RowLoader:
    """Rows as they lie in the data, a few at a time, shared out over the readers."""
    return RowLoader(
        source=data.source,
        rows_per_step=spec.rows_per_device * world.readers,
        rows_per_device=spec.rows_per_device,
        readers=world.readers,
        reader=world.reader,
        shuffle=False,
    )


def validate(world: World, decoder: Decoder, rows: RowLoader) -> Outcome:
    """One pass over all rows; leaves weights, gradients and the state of chance as they were."""
    started = time.perf_counter()
    chance = torch.get_rng_state()
    decoder.eval()
    total, trained = 0.0, 0
    with torch.no_grad():
        for batch in _batches(rows):
            total += decoder.summed_loss(batch, scale=1.0).item()
            trained += batch.trained_tokens
    decoder.train()
    torch.set_rng_state(chance)
    total, counted = world.sum([total, trained])
    return Outcome(total / max(1.0, counted), int(counted), time.perf_counter() - started)


def _batches(rows: RowLoader) -> Iterator[Batch]:
    assert rows.source.rows is not None
    for number in range(1, -(-rows.source.rows // rows.rows_per_step) + 1):
        yield from rows.step(number)
