"""How much room a run will want, before it starts. Pure; to be compared with what there is.

Error bar: sizes follow from the weights' shapes, so they are right to a per cent; file system blocks are not counted.
"""

import math
from typing import Literal

from burnish.spec.train import AdamW, Checkpoints, Optimizer, TrainSpec

_WEIGHT_BYTES = 4
_STATE_BYTES = {"adamw": 8, "sgd": 4, "muon": 8, "sign_sgd": 0}
"""Per parameter of a checkpoint: float32 weights, and what the optimizer keeps; of Muon the most, were all AdamW's."""

_SMALL_FILES_BYTES = 1 << 20
"""Counters, markers, the log and the diary."""

_COMPANIONS_BYTES = 16 << 20
"""Tokenizer files beside an adapter, at the most; a whole model's folder holds them already."""


def forecast_storage_bytes(spec: TrainSpec, *, parameters: int, model_bytes: int, adapter_parameters: int = 0) -> int:
    """Bytes that the run's outputs hold at once at the most; `model_bytes` is the base model's folder.

    An export is as large as the base model's folder, for it has the same tensors in the same dtype; an adapter's is
    `adapter_parameters` in float32, and as large as a whole one if it is merged too. Each checkpoint
    holds one; without checkpoints there is one at the end. Where steps follow from epochs, and so are not known yet,
    every kept checkpoint is counted if retention says how many, else the last one alone.
    """
    learning, export = parameters, model_bytes
    if spec.lora is not None:
        whole = model_bytes if spec.export.merged else 0
        learning, export = adapter_parameters, adapter_parameters * _WEIGHT_BYTES + _COMPANIONS_BYTES + whole
    export += gguf_bytes(spec.export.gguf, parameters)
    if spec.checkpoints is None:
        return export + _SMALL_FILES_BYTES
    each = learning * trainer_bytes_per_parameter(spec.optimizer) + export + _SMALL_FILES_BYTES
    return each * _most_held(spec.checkpoints, spec.steps)


def _most_held(wish: Checkpoints, steps: int | None) -> int:
    """Checkpoints there are at once; a save comes before the deletion of another, so retention holds one more."""
    if wish.every_steps is None:
        return 1
    saves = math.ceil(steps / wish.every_steps) if steps is not None else None
    if wish.keep_last is wish.keep_interval is wish.keep_best is None:
        return saves or 1
    for_good = steps // math.lcm(wish.every_steps, wish.keep_interval) if wish.keep_interval and steps else 0
    held = max(1, wish.keep_last or 0) + (wish.keep_best or 0) + for_good + 1
    return held if saves is None else min(saves, held)


def gguf_bytes(kind: Literal["f16", "q8_0"] | None, parameters: int) -> int:
    """Of a model's GGUF file: 16 bits a weight, or 8 and a scale for each 32."""
    if kind is None:
        return 0
    return (2 * parameters if kind == "f16" else math.ceil(parameters * 34 / 32)) + _COMPANIONS_BYTES


def trainer_bytes_per_parameter(optimizer: Optimizer) -> int:
    """Of a checkpoint's trainer folder."""
    small = isinstance(optimizer, AdamW) and optimizer.bits == 8
    return _WEIGHT_BYTES + (2 if small else _STATE_BYTES[optimizer.kind])
