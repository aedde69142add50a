"""How much room a run will want, before it starts. Pure; to be compared with what there is.

Error bar: sizes follow from the weights' shapes, so they are right to a per cent; file system blocks are not counted.
"""

import math

from burnish.spec.train import TrainSpec

_TRAINER_BYTES = 12
"""Per parameter of a checkpoint: weights and two moments of AdamW, float32 each."""

_SMALL_FILES_BYTES = 1 << 20
"""Counters, markers, the log and the diary."""


def forecast_storage_bytes(spec: TrainSpec, *, parameters: int, model_bytes: int) -> int:
    """Bytes that the run's outputs hold at once at the most; `model_bytes` is the base model's folder.

    An export is as large as the base model's folder, for it has the same tensors in the same dtype. Each checkpoint
    holds one; without checkpoints there is one at the end. A save comes before the deletion of the oldest, so
    retention holds one more. Where steps follow from epochs, and so are not known yet, every kept checkpoint is
    counted if retention says how many, else the last one alone.
    """
    if spec.checkpoints is None:
        return model_bytes + _SMALL_FILES_BYTES
    each = parameters * _TRAINER_BYTES + model_bytes + _SMALL_FILES_BYTES
    every, keep = spec.checkpoints.every_steps, spec.checkpoints.keep_last
    if every is None:
        return each
    saves = math.ceil(spec.steps / every) if spec.steps is not None else (keep + 1 if keep else 1)
    return each * (saves if keep is None else min(saves, keep + 1))
