"""Talking to a model in a folder: one reply as it is written, or many at once. Renders prompts as training did."""

# B conversations of a batch, T tokens, V vocabulary.

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from burnish.data.conversations import Message
from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.errors import DataError
from burnish.spec.train import Renderer
from burnish.train.model import load_pretrained

Messages = Sequence[Message] | Sequence[Mapping[str, Any]]

_BATCH_ROWS, _BATCH_TOKENS = 64, 32_768
"""The most conversations and token slots generated together. A token costs all of the weights' way from memory, and
on a CPU 64 conversations pay little more for it than 16 do."""

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a decoder makes of the first bytes of a letter whose last bytes are in the next token."""


class ChatModel:
    def __init__(self, model: PreTrainedModel, renderer: ChatRenderer) -> None:
        self._model = model.eval()
        self._renderer = renderer
        self._stops = frozenset(renderer.stop_token_ids)
        self._longest: int | None = getattr(model.config, "max_position_embeddings", None)
        # transformers 5.24 renames the argument, and warns of the old name until 5.40.
        accepted = inspect.signature(type(model).forward).parameters
        self._cache_argument = "cache" if "cache" in accepted else "past_key_values"

    @classmethod
    def load(cls, directory: Path, renderer: Renderer | None = None, *, base: Path | None = None) -> "ChatModel":
        """The model in a Hugging Face folder: float32 on a CPU, bfloat16 on a GPU. `ModelError` if it does not load.

        With `base`, `directory` holds an adapter, which is added into that model.
        """
        chat_renderer = load_chat_renderer(directory, renderer or Renderer())
        on_gpu = torch.cuda.is_available()
        dtype, device = (torch.bfloat16, torch.device("cuda")) if on_gpu else (torch.float32, torch.device("cpu"))
        if base is None:
            return cls(load_pretrained(directory, dtype=dtype, attention="sdpa", device=device), chat_renderer)
        # peft takes a second to import, and most models need none.
        from burnish.train.adapter import load_merged

        model = load_merged(base, directory)
        nn.Module.to(model, device, dtype)
        return cls(model, chat_renderer)

    def reply(
        self, messages: Messages, *, max_tokens: int = 512, temperature: float = 0.0, seed: int | None = None
    ) -> Iterator[str]:
        """The assistant's next words, piece by piece, without the token that ends them.

        Temperature 0 takes the likeliest token each time; above it, `seed` makes a reply repeatable.
        """
        chance = torch.Generator()
        if seed is None:
            chance.seed()
        else:
            chance.manual_seed(seed)
        ids: list[int] = []
        told = ""
        for (token,) in self._continue([self._prompt(messages)], max_tokens, temperature, chance):
            if token is None or token in self._stops:
                break
            ids.append(token)
            text = self._renderer.decode(ids, skip_control=True)
            if not text.endswith(_UNFINISHED) and len(text) > len(told):
                yield text[len(told) :]
                told = text
        rest = self._renderer.decode(ids, skip_control=True)[len(told) :]
        if rest:
            yield rest

    def reply_all(self, conversations: Sequence[Messages], *, max_tokens: int = 256) -> list[str]:
        """The likeliest reply to each conversation, in their order. Those of like length are generated together."""
        prompts = [self._prompt(messages) for messages in conversations]
        left = sorted(range(len(prompts)), key=lambda number: -len(prompts[number]))
        replies = [""] * len(prompts)
        while left:
            slots = len(prompts[left[0]]) + max_tokens
            fitting = max(1, min(_BATCH_ROWS, _BATCH_TOKENS // slots))
            numbers, left = left[:fitting], left[fitting:]
            for number, text in zip(numbers, self._reply_batch([prompts[n] for n in numbers], max_tokens), strict=True):
                replies[number] = text
        return replies

    def _prompt(self, messages: Messages) -> list[int]:
        ids = self._renderer.prompt_ids(messages)
        if self._longest is not None and len(ids) >= self._longest:
            raise DataError(
                f"The conversation is {len(ids)} tokens long, and the model reads {self._longest}.",
                hint="Start a new conversation, or shorten it.",
            )
        return ids

    def _reply_batch(self, prompts: list[list[int]], max_tokens: int) -> list[str]:
        ids: list[list[int]] = [[] for _ in prompts]
        for tokens in self._continue(prompts, max_tokens, 0.0, torch.Generator()):
            for own, token in zip(ids, tokens, strict=True):
                if token is not None:
                    own.append(token)
        return [
            self._renderer.decode([token for token in own if token not in self._stops], skip_control=True)
            for own in ids
        ]

    @torch.inference_mode()
    def _continue(
        self, prompts: list[list[int]], max_tokens: int, temperature: float, chance: torch.Generator
    ) -> Iterator[list[int | None]]:
        """The next token of every prompt, again and again; None for those that have ended. Ends with the last."""
        inputs_BT, mask_BT = _left_padded(prompts, self._model.device)
        cache = DynamicCache(config=self._model.config)
        live = list(range(len(prompts)))
        if self._longest is not None:
            max_tokens = min(max_tokens, self._longest - inputs_BT.shape[1])
        for _ in range(max_tokens):
            logits_BV = self._forward(inputs_BT, mask_BT, cache)
            chosen_B = _choose(logits_BV, temperature, chance)
            tokens: list[int | None] = [None] * len(prompts)
            for place, token in zip(live, chosen_B.tolist(), strict=True):
                tokens[place] = token
            yield tokens
            going = [row for row, place in enumerate(live) if tokens[place] not in self._stops]
            if not going:
                return
            if len(going) < len(live):
                live = [live[row] for row in going]
                kept = torch.tensor(going, device=chosen_B.device)
                cache.batch_select_indices(kept)
                chosen_B, mask_BT = chosen_B[kept], mask_BT[kept]
            inputs_BT = chosen_B[:, None]
            mask_BT = torch.cat([mask_BT, torch.ones_like(mask_BT[:, :1])], dim=1)

    def _forward(self, inputs_BT: Tensor, mask_BT: Tensor, cache: DynamicCache) -> Tensor:
        """Logits of the token that follows."""
        positions_BT = (mask_BT.cumsum(1) - 1).clamp(min=0)[:, -inputs_BT.shape[1] :]
        output = self._model(
            input_ids=inputs_BT,
            attention_mask=None if mask_BT.all() else mask_BT,
            position_ids=positions_BT,
            logits_to_keep=1,
            use_cache=True,
            **{self._cache_argument: cache},
        )
        return output.logits[:, -1].float()


def _left_padded(prompts: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Prompts that end together, and which of their slots are real."""
    longest = max(map(len, prompts))
    inputs_BT = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts], device=device)
    mask_BT = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts], device=device)
    return inputs_BT, mask_BT


def _choose(logits_BV: Tensor, temperature: float, chance: torch.Generator) -> Tensor:
    if temperature <= 0:
        return logits_BV.argmax(dim=-1)
    weights_BV = torch.softmax(logits_BV / temperature, dim=-1).cpu()
    return torch.multinomial(weights_BV, 1, generator=chance).squeeze(1).to(logits_BV.device)
