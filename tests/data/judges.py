"""Who judges what is rendered: the package `renderers`, and transformers under a family's own template.

Both get a real, fetched tokenizer; where a family's own cannot be had, another's to which its control tokens are added.
"""

import json
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from burnish.data.conversations import Conversation, Message, ToolCall
from burnish.data.render import ChatRenderer, load_chat_renderer
from burnish.data.render.renderer import Rendered
from burnish.spec.train import LossMask, Renderer
from fetch import Unreachable, fetch_family, fetch_harmony


@cache
def fetched(family: str) -> Path:
    """A folder with a family's real tokenizer; the test is skipped where it cannot be had."""
    try:
        return fetch_family(family)
    except Unreachable as reason:
        pytest.skip(str(reason))


@cache
def harmony() -> Any:
    """`openai_harmony`'s own encoding, with its vocabulary found without a network."""
    from openai_harmony import HarmonyEncodingName, load_harmony_encoding

    try:
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(fetch_harmony())
    except Unreachable as reason:
        pytest.skip(str(reason))
    return load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)


@cache
def tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """transformers' own, with the folder's template and its `bos_token` and the like."""
    config = json.loads((folder / "tokenizer_config.json").read_text())
    named = {key: _content(config[key]) for key in ("bos_token", "eos_token", "unk_token") if config.get(key)}
    made = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **named)
    template = config.get("chat_template")
    if isinstance(template, list):
        template = next(each["template"] for each in template if each["name"] == "default")
    made.chat_template = template
    return made


def with_tokens(folder: Path, base: Path, tokens: Sequence[str], template: str | None = None, **config: Any) -> Path:
    """A folder whose tokenizer is the one in `base`, with more control tokens and another template."""
    made = json.loads((base / "tokenizer.json").read_text())
    known = {token["content"] for token in made["added_tokens"]}
    first = max([token["id"] for token in made["added_tokens"]] + list(made["model"]["vocab"].values())) + 1
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    new = [token for token in tokens if token not in known]
    made["added_tokens"] += [{"id": first + place, "content": token, **plain} for place, token in enumerate(new)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(made))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, **config}))
    return folder


def _content(token: Any) -> str:
    return token["content"] if isinstance(token, dict) else token


def as_dicts(messages: Iterable[Message]) -> list[Any]:
    """Turns as OpenAI's API has them, which is what judges read."""
    return [_as_dict(message) for message in messages]


def _as_dict(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.role == "tool":
        turn |= {"tool_call_id": message.call_id} if message.call_id else {}
        turn |= {"name": message.tool_name} if message.tool_name else {}
    return turn


def _call(call: ToolCall) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    return made | ({"id": call.id} if call.id else {})


def judged_text(folder: Path, conversation: Conversation, **how: Any) -> str:
    """What transformers makes of a conversation with the folder's template, as text."""
    text: Any = tokenizer(folder).apply_chat_template(
        as_dicts(conversation.messages), tools=list(conversation.tools) or None, tokenize=False, **how
    )
    return text


def judged_ids(folder: Path, text: str) -> list[int]:
    return tokenizer(folder).encode(text, add_special_tokens=False)


def oracle_sample(folder: Path, config: Any, conversation: Conversation, **how: Any) -> tuple[list[int], list[bool]]:
    """Tokens and mask of the package `renderers`."""
    from renderers import create_renderer
    from renderers.base import build_training_sample

    renderer = _oracle(folder, config, create_renderer)
    tools: Any = list(conversation.tools) or None
    made = build_training_sample(renderer, as_dicts(conversation.messages), tools=tools, **how)
    return list(made.token_ids), list(made.loss_mask)


_ORACLES: dict[tuple[Path, str], Any] = {}


def _oracle(folder: Path, config: Any, create: Any) -> Any:
    key = (folder, repr(config))
    if key not in _ORACLES:
        _ORACLES[key] = create(tokenizer(folder), config)
    return _ORACLES[key]


def oracle_prompt(folder: Path, config: Any, messages: Sequence[Message]) -> list[int]:
    from renderers import create_renderer

    return _oracle(folder, config, create_renderer).render_ids(as_dicts(messages), add_generation_prompt=True)


@cache
def renderer(folder: Path, name: str = "auto", **switches: Any) -> ChatRenderer:
    return load_chat_renderer(folder, Renderer.model_validate({"name": name, **switches}))


def rendered(made: ChatRenderer, conversation: Conversation, loss_mask: LossMask = LossMask()) -> Rendered:
    """The conversation as one sample."""
    return made.render(conversation, loss_mask)


def trained_text(made: ChatRenderer, conversation: Conversation, loss_mask: LossMask = LossMask()) -> str:
    row = made.render(conversation, loss_mask)
    return made.decode(row.token_ids[row.loss_mask > 0])


TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "find_bus",
        "description": "Finds a bus é.",
        "parameters": {
            "type": "object",
            "properties": {
                "stop": {"type": "string", "description": "Where from?"},
                "line": {"type": "integer", "default": 4},
                "kind": {"type": "string", "enum": ["day", "night"]},
            },
            "required": ["stop"],
        },
    },
}
OTHER: dict[str, Any] = {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}}
ARGUMENTS = ({}, {"stop": "Tarn Street"}, {"a": {"b": [1, None, True, 2.5, {"c": "ü漢"}]}, "d": 'say "hi"\n\\'})

USER, SYSTEM = Message("user", "Next bus from Tarn Street?"), Message("system", "Be brief.")
ANSWER, MORE, LAST = (
    Message("assistant", "In four minutes."),
    Message("user", "And then?"),
    Message("assistant", "Ten."),
)

PLAIN: dict[str, Conversation] = {
    "single": Conversation((USER, ANSWER)),
    "system": Conversation((SYSTEM, USER, ANSWER)),
    "empty system": Conversation((Message("system", ""), USER, ANSWER)),
    "several turns": Conversation((SYSTEM, USER, ANSWER, MORE, LAST)),
    "ends on the user": Conversation((USER, ANSWER, MORE)),
    "empty answer": Conversation((USER, Message("assistant", ""), MORE, LAST)),
    "outer space": Conversation((Message("user", " \n two\n\n lines \n"), Message("assistant", "  a\n b \n\n"))),
    "answer on a new line": Conversation((USER, Message("assistant", "\n\nSo."), MORE, Message("assistant", "\tSo."))),
    "letters of many scripts": Conversation(
        (Message("user", "漢字 é 🚌 ﬁ"), Message("assistant", "здравствуйте 👩‍👩‍👧"))
    ),
    "thoughts in the text": Conversation((USER, Message("assistant", "<think>\nhm\n</think>\n\nYes."))),
}


def calling(*arguments: Any, said: str = "", tools: bool = True, ids: bool = True) -> Conversation:
    """A question, calls made together, their results and an answer."""
    calls = tuple(ToolCall("find_bus", each, f"call{place:05}" if ids else "") for place, each in enumerate(arguments))
    results = (
        Message("tool", f'{{"due": {place}}}', call_id=call.id, tool_name=call.name) for place, call in enumerate(calls)
    )
    messages = (USER, Message("assistant", said, tool_calls=calls), *results, ANSWER)
    return Conversation(messages, tools=(TOOL, OTHER) if tools else ())


WORDS = st.text("ab .:<>|/\n\t'1é漢", max_size=10) | st.sampled_from(
    ["Hello there.", "- one\n- two", "x\n\n\ny", "a  b"]
)


def alternating(words: st.SearchStrategy[str] = WORDS) -> st.SearchStrategy[Conversation]:
    """Perhaps a system turn, then user and assistant by turns; it may end on either."""

    def made(system: str | None, said: list[str]) -> Conversation:
        opening = () if system is None else (Message("system", system),)
        turns = (Message("assistant" if place % 2 else "user", text) for place, text in enumerate(said))
        return Conversation((*opening, *turns))

    return st.builds(made, st.none() | words, st.lists(words, min_size=1, max_size=6))
