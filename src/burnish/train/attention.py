"""Attention in which the conversations of a packed row cannot see each other.

Registered in transformers' attention interface, so every model that goes through it gains it without a change.
No [T, T] mask exists: each conversation is a causal attention of its own, found by its length.
"""

# T tokens of a stream, L tokens of one conversation, H query heads, K key-value heads, S size of a head.

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from burnish.errors import ModelError

NAME = "burnish_documents"

_UNKNOWN = ("softcap", "s_aux")
"""Changes of the scores that some families ask for and that are not done here: Gemma 2's cap, GPT-OSS's sinks."""


def document_attention(
    module: torch.nn.Module,
    query_HTS: Tensor,
    key_KTS: Tensor,
    value_KTS: Tensor,
    attention_mask: Tensor | None,
    *,
    lengths: list[int],
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Causal within each of the conversations that follow one another in a stream; `lengths` sum to T.

    Tensors have a leading dimension of one, as transformers wants. Returns [1, T, H, S].
    """
    assert attention_mask is None
    if asked := [name for name in _UNKNOWN if others.get(name) is not None]:
        raise ModelError(f"This model's attention has {asked[0]}, which this trainer cannot do.")
    pieces = zip(query_HTS.split(lengths, 2), key_KTS.split(lengths, 2), value_KTS.split(lengths, 2), strict=True)
    outputs = [
        scaled_dot_product_attention(
            query_HLS,
            key_KLS,
            value_KLS,
            **_which(query_HLS, sliding_window),
            dropout_p=dropout,
            scale=scaling,
            enable_gqa=query_HLS.shape[1] != key_KLS.shape[1],
        ).transpose(1, 2)
        for query_HLS, key_KLS, value_KLS in pieces
    ]
    return torch.cat(outputs, dim=1), None


def _which(query_HLS: Tensor, sliding_window: int | None) -> dict[str, Any]:
    """Plain causal attention, which needs no mask, unless the conversation outgrows the model's window."""
    length = query_HLS.shape[2]
    if sliding_window is None or length <= sliding_window:
        return {"is_causal": True}
    places = torch.arange(length, device=query_HLS.device)
    behind = places[:, None] - places[None, :]
    return {"attn_mask": (behind >= 0) & (behind < sliding_window)}


AttentionInterface.register(NAME, document_attention)
