"""A frozen model whose linear weights bitsandbytes holds in 4 bits. Embeddings, head and fused experts stay whole."""

import torch
from torch import nn
from transformers import BitsAndBytesConfig


def nf4(compute_dtype: torch.dtype) -> BitsAndBytesConfig:
    """NF4 with its scales quantised in turn, as in QLoRA: 4.13 bits a weight (Dettmers et al. 2023)."""
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )


def keep_differentiable(model: nn.Module) -> None:
    """Stop bitsandbytes (0.50) from repacking weights for generation on CPUs with AVX512-BF16.

    It does so for good at the first forward pass in eval mode, and the kernel for that layout has no backward pass:
    torch warns, and gradients are wrong from then on.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment] (a plain attribute of Linear4bit)
