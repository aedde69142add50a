"""Whether what a run leaves is what it trained: stock libraries load the last save, and must give the trainer's logits.

One model is in memory at a time. The trainer's weights are asked first and then let go, so this comes after the last
step and after the last save, and wants no more room than the training did.
"""

# T tokens of the probe, V vocabulary.

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from burnish.data.loader import shift
from burnish.data.store import Stored
from burnish.errors import RunError
from burnish.literals import format_size
from burnish.run.directory import CheckpointDirectory
from burnish.run.events import Verified
from burnish.train.export import stored_dtype
from burnish.train.four_bits import keep_differentiable, nf4
from burnish.train.job import Job
from burnish.train.machine import free_memory_bytes
from burnish.train.model import Decoder, load_pretrained
from burnish.train.optim import Optimizer
from burnish.train.parallel import World

PROBE_TOKENS = 256
EXACT, ROUNDED = 1e-4, 4e-2
"""Shares of the largest logit. The first where both sides hold the same numbers and compute in float32. The second
where one side was rounded apart, or they compute in 16 bits: then of the middle token of the probe, for a mixture of
experts may send single tokens elsewhere."""

Artefact = Literal["full", "adapter", "merged"]
Held = torch.dtype | Literal["4 bits"]
"""How the trainer holds the frozen matrices beside an adapter."""
_LOADERS = {
    "full": "The model loads with stock transformers",
    "adapter": "The adapter loads with stock peft",
    "merged": "The merged model loads with stock transformers",
}


def verify_exports(job: Job, world: World, decoder: Decoder, optimizer: Optimizer, *, step: int) -> None:
    """`RunError` if the save of `step`, the last, is not what was trained. The trainer's model is of no use after."""
    checkpoint = job.run.checkpoint(step)
    if world.ranks > 1 or not checkpoint.is_whole:
        return
    optimizer.zero_grad(set_to_none=True)
    optimizer.state.clear()
    base, wish = job.order.model_directory, job.order.spec.lora
    held: Held = "4 bits" if wish is not None and wish.quantize is not None else world.compute_dtype
    whole_bytes = _whole_bytes(decoder)
    room = _held_bytes(decoder) + _free_bytes(world)
    trial = _Trial(job, world, checkpoint)
    if held != "4 bits" and whole_bytes <= room:
        trial = trial.in_float32()
    trainers_TV = trial.trainer_logits(decoder)
    _let_go(decoder)
    if checkpoint.gguf.is_file():
        trial.read_gguf()
    if wish is None:
        trial.judge("full", trial.logits(checkpoint.model), trainers_TV)
        return
    trial.judge("adapter", trial.logits(checkpoint.model, base=base, held=held), trainers_TV)
    if not checkpoint.merged.is_dir():
        return
    if whole_bytes > room:
        trial.pass_over("merged", f"{format_size(whole_bytes)} of memory, and {format_size(room)} is free")
        return
    stored = stored_dtype(base)
    trial = trial.in_float32()
    theirs_TV = trial.logits(checkpoint.merged)
    trial.judge("merged", theirs_TV, trial.merged_logits(base, stored), is_rounded=stored != torch.float32)


@dataclass(frozen=True)
class _Trial:
    """Logits of the first row of the run's own data, as different ways to load the model give them."""

    job: Job
    world: World
    """Of the trial: it computes in float32 where memory allows."""
    checkpoint: CheckpointDirectory

    @torch.no_grad()
    def trainer_logits(self, decoder: Decoder) -> Tensor:
        """As the trainer computes them: packed, of weights that are rounded as the export rounds them."""
        if decoder.adapter is None:
            _round_to(stored_dtype(self.job.order.model_directory), decoder.model.parameters())
        if self.world.compute_dtype == torch.float32:
            for weight in decoder.model.parameters():
                if weight.is_floating_point():
                    weight.data = weight.data.float()
        batch = shift(self._conversations())
        decoder.eval()
        decoder.compute_on(self.world)
        hidden_TH = decoder.hidden(batch.inputs_T, batch.positions_T, batch.lengths_D)
        with self.world.computing():
            return (hidden_TH @ decoder.head_VH.to(hidden_TH.dtype).T).float()

    @torch.no_grad()
    def logits(self, folder: Path, *, base: Path | None = None, held: Held = torch.float32) -> Tensor:
        """As stock transformers computes them; with `base`, as stock peft does on it, held as the trainer held it."""
        return self._logits_of(self._load(folder) if base is None else self._load_adapter(folder, base, held))

    @torch.no_grad()
    def merged_logits(self, base: Path, stored: torch.dtype) -> Tensor:
        """Of peft's own merge of the adapter, rounded once."""
        from burnish.train.adapter import load_merged

        model = nn.Module.to(load_merged(base, self.checkpoint.model), self.world.device)
        _round_to(stored, model.parameters())
        return self._logits_of(model)

    def in_float32(self) -> "_Trial":
        return replace(self, world=replace(self.world, compute_dtype=torch.float32))

    def judge(self, artefact: Artefact, theirs_TV: Tensor, trainers_TV: Tensor, *, is_rounded: bool = False) -> None:
        """`RunError` if they are further apart than the way they were made explains."""
        is_exact = not is_rounded and self.world.compute_dtype == torch.float32
        tolerance = EXACT if is_exact else ROUNDED
        apart_T = (theirs_TV - trainers_TV).abs().amax(dim=1) / trainers_TV.abs().max()
        difference = (apart_T.max() if is_exact else apart_T.median()).item()
        step = self.checkpoint.step
        self.job.diary.append(
            Verified(step=step, artefact=artefact, largest_difference=difference, tolerance=tolerance)
        )
        apart = f"{difference:.1e} of the largest, where {tolerance:.0e} is allowed"
        if not difference <= tolerance:
            raise RunError(
                f"The {artefact} model of step {step} is not the trained one: loaded by stock libraries, its logits "
                f"differ from the trainer's by {apart}.",
                hint="The checkpoint is kept, but do not use that model before you know why.",
            )
        self.job.say("INFO", f"{_LOADERS[artefact]}; its logits differ from the trainer's by {apart}")

    def read_gguf(self) -> None:
        """`ModelError` if the file does not hold the weights of the folder that it was made of."""
        from burnish.train.write_gguf import TOLERANCES, check_gguf

        kind = self.job.order.spec.export.gguf
        assert kind is not None
        whole = self.checkpoint.merged if self.checkpoint.merged.is_dir() else self.checkpoint.model
        apart, tolerance = check_gguf(self.checkpoint.gguf, whole, kind), TOLERANCES[kind]
        step = self.checkpoint.step
        self.job.diary.append(Verified(step=step, artefact="gguf", largest_difference=apart, tolerance=tolerance))
        self.job.say(
            "INFO", f"The GGUF file reads back; its weights differ by {apart:.1e}, where {tolerance:.1e} is allowed"
        )

    def pass_over(self, artefact: Artefact, need: str) -> None:
        note = f"Not compared with the trainer's logits: that takes {need}."
        step = self.checkpoint.step
        self.job.diary.append(
            Verified(step=step, artefact=artefact, largest_difference=None, tolerance=ROUNDED, note=note)
        )
        self.job.say("WARNING", f"The {artefact} model of step {step}: {note}")

    def _logits_of(self, model: nn.Module) -> Tensor:
        """One conversation after the other."""
        model.eval()
        found = []
        for each in self._conversations():
            ids_1T = torch.from_numpy(each.token_ids.astype(np.int64))[None].to(self.world.device)
            with self.world.computing():
                found.append(model(ids_1T, use_cache=False).logits[0].float())
        return torch.cat(found)

    def _load(self, folder: Path) -> nn.Module:
        return load_pretrained(folder, dtype=self.world.compute_dtype, attention="sdpa", device=self.world.device)

    def _load_adapter(self, folder: Path, base: Path, held: Held) -> nn.Module:
        # peft takes a second to import, and most runs need none.
        from peft import PeftModel

        if held == "4 bits":
            packing = nf4(self.world.compute_dtype)
            model = load_pretrained(
                base, dtype=torch.float32, attention="sdpa", device=self.world.device, packing=packing
            )
            keep_differentiable(model)
        else:
            model = self._load(base)
            _round_to(held, (each.weight for each in model.modules() if isinstance(each, nn.Linear)))
        return PeftModel.from_pretrained(model, str(folder))

    def _conversations(self) -> list[Stored]:
        """Of the first row, up to `PROBE_TOKENS` in all."""
        room, found = PROBE_TOKENS, []
        for each in self.job.data.source.row(0):
            if room > 0:
                found.append(Stored(each.token_ids[:room], each.loss_mask[:room]))
                room -= len(each.token_ids)
        return found


def _round_to(dtype: torch.dtype, weights: Iterable[Tensor]) -> None:
    for weight in weights:
        weight.data = weight.data.to(dtype).to(weight.dtype)


def _whole_bytes(decoder: Decoder) -> int:
    """Of the model and its adapter in float32."""
    told = decoder.adapter and decoder.adapter.told
    if told:
        return 4 * (told.parameters + told.trainable_parameters)
    return 4 * sum(each.numel() for each in decoder.model.parameters())


def _held_bytes(decoder: Decoder) -> int:
    return sum(each.numel() * each.element_size() for each in decoder.model.parameters())


def _free_bytes(world: World) -> int:
    if world.device.type != "cuda":
        return free_memory_bytes()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(world.device)[0]


def _let_go(decoder: Decoder) -> None:
    for weight in decoder.model.parameters():
        weight.data = weight.data.new_empty(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
