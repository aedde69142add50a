"""Cross-entropy of the trained tokens, straight from hidden states, without logits for the whole stream.

The gradient is worked out in the forward pass, a chunk of rows at a time, while the chunk's logits are at hand:
three matrix products and no second look. Knows nothing of packing or of models.
"""

# N trained tokens, C tokens of a chunk, H hidden, V vocabulary.

from typing import Any

import torch
from torch import Tensor

_CHUNK_BYTES = 96 * 2**20
"""Of float32 logits at once: large enough that rewriting the head's gradient per chunk costs little."""


def linear_cross_entropy(hidden_NH: Tensor, head_VH: Tensor, targets_N: Tensor, *, scale: float) -> Tensor:
    """`scale` times the sum over N of -log softmax(hidden @ head.T)[target], as a float64 scalar.

    Float64 in the last sum alone: float32 loses the sixth digit over a large vocabulary.
    """
    loss: Tensor = _LinearCrossEntropy.apply(hidden_NH, head_VH, targets_N, scale)  # type: ignore[assignment]
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_NH: Tensor, head_VH: Tensor, targets_N: Tensor, scale: float) -> Tensor:
        loss = torch.zeros((), dtype=torch.float64, device=hidden_NH.device)
        wants_hidden, wants_head = ctx.needs_input_grad[:2]
        grad_hidden_NH = torch.empty_like(hidden_NH) if wants_hidden else None
        grad_head_VH = torch.zeros_like(head_VH) if wants_head else None
        compute_head_VH = head_VH.to(hidden_NH.dtype)
        rows = max(64, _CHUNK_BYTES // (4 * head_VH.shape[0]))
        for start in range(0, len(targets_N), rows):
            chunk = slice(start, start + rows)
            loss_C, grad_logits_CV = _softmax_chunk(hidden_NH[chunk] @ compute_head_VH.T, targets_N[chunk], scale)
            loss += loss_C.double().sum()
            if grad_hidden_NH is not None:
                torch.mm(grad_logits_CV, compute_head_VH, out=grad_hidden_NH[chunk])
            if grad_head_VH is not None:
                _add_product(grad_head_VH, grad_logits_CV, hidden_NH[chunk])
        ctx.save_for_backward(grad_hidden_NH, grad_head_VH)
        return loss * scale

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (grad_loss,) = grad_outputs
        grads = (None if grad is None else grad.mul_(grad_loss.to(grad.dtype)) for grad in ctx.saved_tensors)
        grad_hidden_NH, grad_head_VH = grads
        return grad_hidden_NH, grad_head_VH, None, None


def _softmax_chunk(logits_CV: Tensor, targets_C: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Loss per token, and the gradient of `scale` times their sum, in the place of the logits where it can be."""
    dtype = logits_CV.dtype
    logits_CV = logits_CV.float()
    logits_CV -= logits_CV.amax(dim=1, keepdim=True)
    at_target_C1 = logits_CV.gather(1, targets_C[:, None])
    weights_CV = logits_CV.exp_()
    total_C1 = weights_CV.sum(dim=1, keepdim=True)
    loss_C = (total_C1.log() - at_target_C1).squeeze(1)
    grad_CV = weights_CV.mul_(scale / total_C1)
    grad_CV.scatter_add_(1, targets_C[:, None], torch.full_like(at_target_C1, -scale))
    return loss_C, grad_CV.to(dtype)


def _add_product(sum_VH: Tensor, left_CV: Tensor, right_CH: Tensor) -> None:
    """sum += left.T @ right, added up in float32 whatever the factors are."""
    if left_CV.dtype == sum_VH.dtype:
        sum_VH.addmm_(left_CV.T, right_CH)
    else:
        sum_VH += left_CV.T @ right_CH
