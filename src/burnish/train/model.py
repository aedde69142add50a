"""A Hugging Face folder as something to train: float32 master weights, document attention, a loss of a batch.

Knows no optimizer, no step and no file but the model's own.
"""

# T tokens of a stream, N of them trained, H hidden, V vocabulary.

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel
from transformers.utils import logging

from burnish.data.loader import IGNORED, Batch
from burnish.errors import ModelError
from burnish.train import attention
from burnish.train.four_bits import keep_differentiable, nf4
from burnish.train.loss import linear_cross_entropy
from burnish.train.parallel import World

if TYPE_CHECKING:
    from burnish.train.adapter import Adapter

_PROBE_TOKENS = 12


class Decoder(nn.Module):
    """A decoder whose loss over a packed stream can be asked for."""

    def __init__(self, model: PreTrainedModel, world: World) -> None:
        super().__init__()
        self.model = model
        self.adapter: Adapter | None = None
        """What is trained in place of the model's own weights, where that is so."""
        self._world = world

    def compute_on(self, world: World) -> None:
        """Go on in another dtype."""
        self._world = world

    @property
    def body(self) -> nn.Module:
        """Everything up to the last norm."""
        return self.model.base_model

    @property
    def head_VH(self) -> Tensor:
        """The matrix that makes logits of hidden states; where embeddings are tied, the same parameter as theirs."""
        head = self.model.get_output_embeddings()
        if self.adapter is not None and head is not None:
            head = self.adapter.trained(head)
        assert isinstance(head, nn.Linear)
        return head.weight

    def hidden(self, inputs_T: np.ndarray, positions_T: np.ndarray, lengths_D: np.ndarray) -> Tensor:
        """[T, H] of conversations that do not see each other."""
        device = self._world.device
        with self._world.computing():
            output = self.body(
                input_ids=torch.from_numpy(inputs_T)[None].to(device),
                position_ids=torch.from_numpy(positions_T)[None].to(device),
                use_cache=False,
                lengths=lengths_D.tolist(),
            )
        return output.last_hidden_state[0]

    def summed_loss(self, batch: Batch, *, scale: float) -> Tensor:
        """`scale` times the sum of the losses of the batch's trained tokens."""
        trained_N = np.flatnonzero(batch.targets_T != IGNORED)
        hidden_TH = self.hidden(batch.inputs_T, batch.positions_T, batch.lengths_D)
        hidden_NH = hidden_TH[torch.from_numpy(trained_N).to(hidden_TH.device)].to(self._world.compute_dtype)
        targets_N = torch.from_numpy(batch.targets_T[trained_N]).to(hidden_TH.device)
        return linear_cross_entropy(hidden_NH, self.head_VH, targets_N, scale=scale)


def load_decoder(folder: Path, world: World, *, quantize: Literal["nf4"] | None = None) -> Decoder:
    """The model in `folder`, ready to train; `ModelError` if it does not load whole, or computes what we do not."""
    model = load_pretrained(
        folder,
        dtype=torch.float32,
        attention=attention.NAME,
        device=world.device,
        packing=None if quantize is None else nf4(world.compute_dtype),
    )
    if quantize is not None:
        keep_differentiable(model)
    _own_memory(model)
    _learn_every_embedding(model)
    decoder = Decoder(model, world)
    _check_parity(decoder)
    return decoder.train()


def load_pretrained(
    folder: Path,
    *,
    dtype: torch.dtype,
    attention: str,
    device: torch.device,
    packing: BitsAndBytesConfig | None = None,
) -> PreTrainedModel:
    """The model in a Hugging Face folder, all of its weights; `ModelError` if it does not load whole."""
    logging.disable_progress_bar()
    settings: dict[str, Any] = {"dtype": dtype, "attn_implementation": attention, "local_files_only": True}
    if packing is not None:
        settings |= {"quantization_config": packing, "device_map": {"": device}}
    try:
        model, report = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc] (a pair, where a report is asked for)
            folder, output_loading_info=True, **settings
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"The model in {folder} does not load: {error}") from error
    # transformers fills what it misses with fresh random numbers and goes on.
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"The model in {folder} lacks {len(missing)} of its weights, {missing[0]} among them.",
            hint="Copy or download it again.",
        )
    if packing is None:
        nn.Module.to(model, device)
    return model


def _own_memory(model: PreTrainedModel) -> None:
    """Weights may be views into the mapped file, aligned as they come; products are only repeatable on even ground."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)


def _learn_every_embedding(model: PreTrainedModel) -> None:
    """`padding_idx` silently drops a token's gradient, and many models pad with their end-of-turn token."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None


@torch.no_grad()
def _check_parity(decoder: Decoder) -> None:
    """Our way to logits must be the model's own: two short conversations against the model's forward pass of each."""
    vocabulary = decoder.head_VH.shape[0]
    ids = np.arange(_PROBE_TOKENS, dtype=np.int64) * 7919 % vocabulary
    lengths = np.array([5, _PROBE_TOKENS - 5])
    positions = np.concatenate([np.arange(length) for length in lengths])
    decoder.eval()
    head = decoder.model.get_output_embeddings()
    if not isinstance(head, nn.Linear) or head.bias is not None:
        raise ModelError(f"The output layer of {type(decoder.model).__name__} is not a plain matrix.")
    ours = decoder.hidden(ids, positions, lengths).float() @ decoder.head_VH.T
    theirs = [_stock_logits(decoder, part) for part in np.split(ids, [5])]
    difference = (ours - torch.cat(theirs)).abs().max().item()
    tolerance = 1e-3 if decoder._world.compute_dtype == torch.float32 else 0.5
    if not difference <= tolerance:
        raise ModelError(
            f"{type(decoder.model).__name__} computes its logits in a way that this trainer does not follow "
            f"(they differ by {difference:.2g})."
        )


def _stock_logits(decoder: Decoder, ids: np.ndarray) -> Tensor:
    decoder.model.set_attn_implementation("sdpa")
    try:
        with decoder._world.computing():
            return (
                decoder.model(torch.from_numpy(ids)[None].to(decoder._world.device), use_cache=False).logits[0].float()
            )
    finally:
        decoder.model.set_attn_implementation(attention.NAME)
