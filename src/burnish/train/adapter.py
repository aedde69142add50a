"""The adapter of a run: put into the model, and written as the folder that stock peft loads, or as a whole model.

The written adapter keeps its float32 weights. A merged weight is the base model's own from its folder, the adapter's
product added in float32, and one rounding to the dtype that the folder stores; so a base that was held in 4 bits while
the adapter was trained is merged in full precision.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from peft.tuners.lora.layer import ParamWrapper
from peft.utils import ModulesToSaveWrapper
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.errors import ModelError
from burnish.models.adapter_folder import CONFIG, WEIGHTS
from burnish.run.events import Adapted
from burnish.spec.train import Lora
from burnish.train.adapters import ADAPTER, adapt, adapted_layers, hold_frozen, whole_modules
from burnish.train.export import companion_bytes, copy_companions, save_whole, stored_dtype
from burnish.train.model import load_pretrained
from burnish.train.snapshot import Snapshot


@dataclass(frozen=True)
class Adapter:
    """The adapter of a run, in its model."""

    model: PreTrainedModel
    told: Adapted

    @classmethod
    def put_into(cls, model: PreTrainedModel, wish: Lora, *, seed: int, compute_dtype: torch.dtype) -> "Adapter":
        """Freeze `model` and adapt it; see `adapters.adapt`."""
        told = adapt(model, wish, seed=seed)
        hold_frozen(model, compute_dtype)
        model.train()
        return cls(model, told)

    def trained(self, module: nn.Module) -> nn.Module:
        """The module itself, or the copy of it that is trained whole."""
        return module.modules_to_save[ADAPTER] if isinstance(module, ModulesToSaveWrapper) else module

    def export(self, folder: Path, state: Snapshot, *, base: Path, base_name: str) -> None:
        """Weights as they are in `state` and config, and what goes with them from the base model's folder."""
        folder.mkdir()
        weights = get_peft_model_state_dict(
            self.model, state_dict=state.by_every_name(), adapter_name=ADAPTER, save_embedding_layers=False
        )
        named = {f"base_model.model.{name}": weight.detach().cpu().contiguous() for name, weight in weights.items()}
        save_file(named, folder / WEIGHTS, metadata={"format": "pt"})
        config = _written_config(self.model.peft_config[ADAPTER], base_name)  # type: ignore[index, operator] (peft's)
        (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        copy_companions(base, folder)

    def export_merged(self, folder: Path, *, base: Path) -> None:
        """A Hugging Face folder that needs no peft."""
        dtype = stored_dtype(base)
        whole = load_pretrained(base, dtype=dtype, attention="sdpa", device=torch.device("cpu"))
        weights = dict(whole.named_parameters())
        with torch.no_grad():
            for path, layer in adapted_layers(self.model):
                weights[path].copy_(merged_weight(layer, weights[path]))
            for path, module in whole_modules(self.model):
                for name, weight in module.named_parameters():
                    weights[f"{path}.{name}"].copy_(weight)
        whole.config.dtype = dtype
        save_whole(whole, folder, base=base)

    def export_bytes(self, *, base: Path, merged: bool) -> int:
        """Size of an export, to a per cent."""
        adapter = 4 * sum(each.numel() for each in self.model.parameters() if each.requires_grad)
        whole = sum(file.stat().st_size for file in base.glob("*.safetensors")) + companion_bytes(base)
        return adapter + companion_bytes(base) + (whole if merged else 0)


def load_merged(base: Path, adapter: Path) -> PreTrainedModel:
    """The model in `base`, in float32, with the adapter in a folder added in; `ModelError` if they do not fit."""
    model = load_pretrained(base, dtype=torch.float32, attention="sdpa", device=torch.device("cpu"))
    try:
        return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()  # type: ignore[operator] (peft's)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"The adapter in {adapter} does not fit the model in {base}: {error}") from error


def merged_weight(layer: LoraLayer, weight: Tensor) -> Tensor:
    """`weight` as the adapter changes it, in float32."""
    low, high = _own_weight(layer.lora_A), _own_weight(layer.lora_B)
    scale = layer.scaling[ADAPTER]
    if isinstance(layer, ParamWrapper) and weight.ndim == 3:
        return weight.float() + scale * _expert_products(layer, low, high)
    merged = weight.float() + scale * (high @ low)
    if ADAPTER in layer.lora_magnitude_vector:  # DoRA
        merged *= (_own_weight(layer.lora_magnitude_vector) / merged.norm(dim=1))[:, None]
    return merged


def _own_weight(parts: nn.ModuleDict) -> Tensor:
    return parts[ADAPTER].get_parameter("weight").detach().float().cpu()


def _expert_products(layer: ParamWrapper, low: Tensor, high: Tensor) -> Tensor:
    """[experts, out, in] or, where the model stores them so, [experts, in, out]; peft keeps all ranks in one matrix."""
    experts = layer.num_experts
    low_ERI = low.reshape(experts, -1, low.shape[1])
    high_ORE = high.reshape(high.shape[0], -1, experts)
    swapped = getattr(layer.get_base_layer(), "is_transposed", False)
    return torch.einsum("ore,eri->eio" if swapped else "ore,eri->eoi", high_ORE, low_ERI)


def _written_config(config: LoraConfig, base_name: str) -> dict[str, Any]:
    """What was set, in an order that does not change; older versions of peft know no newer keys."""
    said = config.to_dict() | {"base_model_name_or_path": base_name, "inference_mode": True}
    return {key: sorted(value) if isinstance(value, set) else value for key, value in said.items() if value is not None}
