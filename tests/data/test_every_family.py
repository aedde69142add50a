"""What holds of every native renderer alike: all of an answer is trained, once, and nothing that was not asked for.

Each is given a small BPE that holds the family's own control tokens, so nothing is fetched.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judges import with_tokens

from burnish.data.conversations import Conversation, Image, Message, RowFault, ToolCall
from burnish.data.proof import lost_turn
from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.data.render.choose import NATIVE
from burnish.dialects import prime_renderer_schema, read_config
from burnish.dialects.schema import Obeyed
from burnish.spec.train import LossMask, Renderer

Trim = Callable[[str], str]


def as_said(text: str) -> str:
    return text


@dataclass(frozen=True)
class Writing:
    """What a family trains of an answer that is said without thoughts."""

    end: str
    """Of a turn that another follows."""
    last_end: str = ""
    """Of the last turn, where it is another."""
    lead: str = ""
    last_lead: str = ""
    trim: Trim = as_said
    last_trim: Trim | None = None

    def of(self, answers: list[str]) -> str:
        *earlier, last = answers
        said = [self.lead + self.trim(answer) + self.end for answer in earlier]
        trim = self.last_trim or self.trim
        return "".join([*said, self.last_lead + trim(last) + (self.last_end or self.end)])


def without_newlines_before(text: str) -> str:
    return text.lstrip("\n")


def on_a_line_of_its_own(text: str) -> str:
    return f"\n{text.strip()}".rstrip("\n")


_USER, _ENDED = "<|user|>", "<|endoftext|>"
WRITINGS: dict[str, Writing] = {
    "chatml": Writing("<|im_end|>"),
    "smollm": Writing("<|im_end|>"),
    "qwen3": Writing("<|im_end|>", last_lead="<think>\n\n</think>\n\n", last_trim=without_newlines_before),
    "prime-qwen3": Writing("<|im_end|>"),
    "qwen3-vl": Writing("<|im_end|>"),
    "qwen3.5": Writing("<|im_end|>", last_lead="\n\n</think>\n\n", trim=str.strip),
    "qwen3.6": Writing("<|im_end|>", last_lead="\n\n</think>\n\n", trim=str.strip),
    "glm-4.5": Writing(
        _USER, _ENDED, lead="\n<think></think>", last_lead="\n<think></think>", trim=on_a_line_of_its_own
    ),
    "glm-5": Writing(_USER, _ENDED, trim=str.strip),
    "glm-5.1": Writing(_USER, _ENDED, last_lead="</think>", trim=str.strip),
    "glm-5.3": Writing(_USER, _ENDED, lead="</think>", last_lead="</think>", trim=str.strip),
    "kimi-k2": Writing("<|im_end|>"),
    "llama-3": Writing("<|eot_id|>", trim=str.strip),
    "gemma3": Writing("<end_of_turn>", trim=str.strip),
    "gemma4": Writing("<turn|>", trim=str.strip),
    "gpt-oss": Writing("<|end|>", "<|return|>"),
    "deepseek-v3": Writing("<｜end▁of▁sentence｜>"),
    "deepseek-r1": Writing("<｜end▁of▁sentence｜>"),
    "mistral": Writing("</s>"),
    "phi-4": Writing("<|im_end|>"),
    "olmo": Writing("<|endoftext|>"),
}

TEXTS = st.one_of(
    st.text(max_size=12),
    st.lists(st.sampled_from(["<|im_end|>", "[INST]", "\n", " ", "ab", "é", "漢", "🙂", "."]), max_size=5).map("".join),
).filter(lambda text: "think>" not in text)
"""Control tokens among them, which are letters in a row's text."""


@pytest.fixture(scope="module")
def made(tmp_path_factory, bpe_folder) -> Callable[[str], ChatRenderer]:
    known: dict[str, ChatRenderer] = {}

    def renderer(name: str) -> ChatRenderer:
        if name not in known:
            wish = Renderer.model_validate({"name": name})
            needs = NATIVE[name](wish).needs
            folder: Path = with_tokens(tmp_path_factory.mktemp("models") / name, bpe_folder(None), needs)
            known[name] = load_chat_renderer(folder, wish)
        return known[name]

    return renderer


def test_every_native_renderer_is_held_to_its_writing():
    assert WRITINGS.keys() == NATIVE.keys()


def _trained(made: ChatRenderer, conversation: Conversation, loss_mask: LossMask = LossMask()) -> list[str]:
    """Of each sample, what its trained tokens decode to."""
    encoded = made.encode([sample.pieces for sample in made.write(conversation, loss_mask)])
    edges = encoded.lengths.cumsum().tolist()
    texts = []
    for start, stop in zip([0, *edges], edges, strict=False):
        ids, mask = encoded.token_ids[start:stop], encoded.loss_mask[start:stop]
        texts.append(made.decode(ids[mask > 0].tolist()))
    return texts


@pytest.mark.parametrize("name", NATIVE)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), system=st.one_of(st.none(), TEXTS))
def test_what_is_trained_is_what_was_said_and_its_ends(made, name: str, turns: list[tuple[str, str]], system):
    messages = [Message("system", system)] if system is not None else []
    for asked, said in turns:
        messages += [Message("user", asked), Message("assistant", said)]
    conversation = Conversation(tuple(messages))
    texts = _trained(made(name), conversation)
    assert "".join(texts) == WRITINGS[name].of([said for _, said in turns])
    assert lost_turn(conversation, texts, LossMask()) is None


CALLING = Conversation(
    (
        Message("system", "words0"),
        Message("user", "words1"),
        Message("assistant", "", tool_calls=(ToolCall("f", {"a": "words2"}, "call00001"),)),
        Message("tool", "words3", call_id="call00001", tool_name="f"),
        Message("assistant", "words4"),
        Message("user", "words5"),
        Message("assistant", "words6"),
    ),
    tools=({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},),
)
TALKING = Conversation(tuple(each for each in CALLING.messages if each.role != "tool" and not each.tool_calls))
"""The same without tools, for families that have none; two users' turns in a row become one."""
ROLES = ("system", "user", "assistant", "tool")
MASKS = [dict(zip(ROLES, asked, strict=True)) for asked in product([False, True], repeat=4)]


@pytest.mark.parametrize("name", NATIVE)
def test_each_role_is_trained_where_the_mask_asks_for_it_and_only_there(made, name: str):
    for asked in MASKS:
        conversation = _writable(made(name))
        said = "\n".join(_trained(made(name), conversation, LossMask(**asked)))
        found = sorted(re.findall(r"words\d", said))
        wanted = [
            word
            for message in conversation.messages
            if asked[message.role]
            for word in re.findall(r"words\d", f"{message.content} {[call.arguments for call in message.tool_calls]}")
        ]
        assert found == wanted, asked


def _writable(made: ChatRenderer) -> Conversation:
    try:
        made.write(CALLING, LossMask())
    except RowFault:
        first, second, third, *rest = TALKING.messages
        return Conversation((first, second, third, *rest))
    return CALLING


RICH = (
    Message("system", "s"),
    Message("user", "a", images=(Image(0, 64, 64, b""),)),
    Message("assistant", "", "b", tool_calls=(ToolCall("f", {"a": 1}, "call00001"),)),
    Message("tool", "c", call_id="call00001", tool_name="f"),
    Message("assistant", "d", "e"),
    Message("user", "f"),
    Message("assistant", "g"),
)
"""Thoughts, a call and an image: something for every switch."""
OTHER_VALUES = {
    "reasoning_effort": "high",
    "date_string": "1 Jan 2026",
    "conversation_start_date": "2026-01-01",
    "knowledge_cutoff": "2025-01",
    "model_identity": "You are a test.",
}
"""Of the switches that are words; the others are turned from what they are by default."""
SWITCHED = [
    (name, key)
    for table in get_args(prime_renderer_schema.Renderer)
    for name in get_args(table.model_fields["name"].annotation)
    for key in table.model_fields
    if name in NATIVE and any(isinstance(mark, Obeyed) for mark in table.model_fields[key].metadata) and key != "name"
]
CONFIG = """
max_steps = 1
[model]
name = "burnish/tiny"
[data]
name = "data.jsonl"
[renderer]
name = "{name}"
"""


def test_every_switch_of_the_config_is_tried():
    assert {key for _, key in SWITCHED} == set(prime_renderer_schema.SWITCHES)


@pytest.mark.parametrize(("name", "key"), SWITCHED)
def test_a_switch_in_the_config_changes_what_is_written(name: str, key: str):
    plain = read_config(CONFIG.format(name=name)).spec.renderer
    value = OTHER_VALUES.get(key, not _by_default(name, key))
    turned = read_config(CONFIG.format(name=name) + f"{key} = {json.dumps(value)}\n").spec.renderer
    assert _texts(plain) != _texts(turned)


def _by_default(name: str, key: str) -> bool:
    table = next(
        each
        for each in get_args(prime_renderer_schema.Renderer)
        if name in get_args(each.model_fields["name"].annotation)
    )
    value = table.model_fields[key].default
    return True if value is None else value


def _texts(wish: Renderer) -> list[str]:
    """Conversations and a prompt as the script writes them, of what it can write."""
    script = NATIVE[wish.name](wish)
    rich = RICH if script.shows_images else tuple(replace(message, images=()) for message in RICH)
    plain = (*rich[:2], rich[-1])
    texts = ["".join(piece.text for piece in script.write_prompt(plain[:2]))]
    for messages, tools in product((rich, plain), ((), CALLING.tools)):
        with suppress(RowFault):
            pieces = script.write(Conversation(messages, tools=tools), LossMask())
            texts.append("".join(piece.text for piece in pieces))
    return texts
