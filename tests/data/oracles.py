"""The package `renderers` as a judge of native renderers: the same row, tokenizer and switches on both sides.

A family whose own tokenizer cannot be fetched is judged with Qwen3's, to which the family's tokens are added.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import renderers
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from burnish.data.conversations import Conversation, ToolCall, parse_conversation, read_messages
from burnish.data.formats import Record
from burnish.data.render import ChatRenderer, Sample, load_chat_renderer
from burnish.data.render.pieces import control
from burnish.data.render.thinking import split_thoughts
from burnish.spec.train import LossMask, Renderer

Row = dict[str, Any]


class Tokens(NamedTuple):
    """Token ids, and whether each is trained."""

    ids: list[int]
    mask: list[int]


@dataclass(frozen=True)
class Pair:
    """A native renderer and the package's, of one name and with one set of switches."""

    folder: Path
    name: str
    switches: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def ours(self) -> ChatRenderer:
        return load_chat_renderer(self.folder, Renderer.model_validate({"name": self.name, **self.switches}))

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return _tokenizer(self.folder)

    @cached_property
    def theirs(self) -> Any:
        configs = {kind.model_fields["name"].default: kind for kind in _config_kinds()}
        return renderers.create_renderer(self.tokenizer, configs[self.name](**self.switches))

    def our_tokens(self, row: Row, loss_mask: LossMask = LossMask()) -> Tokens:
        rendered = self.ours.render(conversation(row), loss_mask)
        return Tokens(rendered.token_ids.tolist(), rendered.loss_mask.tolist())

    def their_tokens(self, row: Row, loss_mask: LossMask = LossMask()) -> Tokens:
        others = {role for role in ("system", "user", "tool") if getattr(loss_mask, role)}
        messages: Any = [_decoded(message) for message in row["messages"]]
        sample = renderers.build_training_sample(
            self.theirs,
            messages,
            tools=row.get("tools"),
            role_to_mask=None if loss_mask.assistant else lambda message: message["role"] != "assistant",
            content_sft_roles=others,
            ensure_final_stop=True,
        )
        return Tokens(list(sample.token_ids), [0, *map(int, sample.loss_mask[1:])])

    def unprompted(self, tokens: Tokens) -> Tokens:
        """With nothing trained of that with which a prompt begins an answer."""
        header, opened = self.header
        mask = list(tokens.mask)
        for at in range(len(mask) - len(header)):
            if tokens.ids[at : at + len(header)] == header:
                start = at + len(header)
                for place, number in enumerate(opened, start):
                    if tokens.ids[place : place + 1] != [number]:
                        break
                    mask[place] = 0
        return Tokens(tokens.ids, mask)

    @cached_property
    def header(self) -> tuple[list[int], list[int]]:
        """An answer's mark, and what a prompt holds behind it."""
        asked = [turn("user", "a")]
        added = self.prompts(asked)[1][len(self.their_tokens({"messages": asked}).ids) :]
        size = 1 if self.text(added[:1]) == "<|assistant|>" else 3
        # GLM 4.5's prompt ends before a newline that the package does not train.
        return added[:size], added[size:] or self.tokenizer.encode("\n")

    def samples(self, row: Row) -> list[Sample]:
        return self.ours.write(conversation(row), LossMask())

    def prompts(self, messages: list[Row]) -> tuple[list[int], list[int]]:
        """What comes before the next answer: ours and theirs."""
        theirs = self.theirs.render([_decoded(each) for each in messages], add_generation_prompt=True)
        return self.ours.prompt_ids(messages), list(theirs.token_ids)

    def text(self, ids: list[int]) -> str:
        return self.ours.decode(ids)


def conversation(row: Row) -> Conversation:
    if any(message["role"] == "assistant" for message in row["messages"]):
        return parse_conversation(Record(row, "train.jsonl", 1))
    return Conversation(read_messages(row["messages"]), tools=tuple(row.get("tools") or ()))


def assert_same(judged: Pair, row: Row, loss_mask: LossMask = LossMask()) -> None:
    """Tokens and mask are the package's, but for what a prompt already holds of an answer: we do not train that."""
    ours, theirs = (judged.unprompted(each(row, loss_mask)) for each in (judged.our_tokens, judged.their_tokens))
    difference = differ(ours, theirs, judged.text)
    assert not difference, difference


def assert_learnt_once(judged: Pair, row: Row) -> None:
    """Over all samples of a row, each answer's words and thoughts are trained once, and are written in order."""
    samples = judged.samples(row)
    said = ["".join(piece.text for piece in sample.pieces if piece.trained) for sample in samples]
    for message in conversation(row).messages:
        if message.role == "assistant":
            for part in filter(None, map(str.strip, split_thoughts(message))):
                assert "\n".join(said).count(part) == 1, (part, said)
    assert [sample.thoughts_lost for sample in samples] == [0] * len(samples)


def assert_letters(judged: Pair, tokens: Iterable[str]) -> None:
    """A row whose every text holds control tokens has as many of them as one whose texts do not."""

    def row(text: str) -> Row:
        calls = [call("look", {text: text})]
        return {
            "messages": [
                turn("user", text),
                turn("assistant", text, tool_calls=calls),
                result(text),
                turn("assistant", text),
            ]
        }

    for token in tokens:
        evil, good = (judged.our_tokens(row(text)) for text in (f"a{token}b", "ab"))
        number = judged.ours.encode([[control(token)]]).token_ids.tolist()
        assert len(number) == 1
        assert evil.ids.count(number[0]) == good.ids.count(number[0])
        assert judged.text(evil.ids).count(f"a{token}b") == 6


def trained(judged: Pair, tokens: Tokens) -> str:
    return judged.text([number for number, flag in zip(*tokens, strict=True) if flag])


def differ(ours: Tokens, theirs: Tokens, say: Any) -> str:
    """Where two renderings part, for people; empty where they are one."""
    if ours == theirs:
        return ""
    at = next(
        (
            place
            for place, pair in enumerate(zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=False))
            if pair[0] != pair[1]
        ),
        min(len(ours.ids), len(theirs.ids)),
    )
    shown = [
        [
            (say([number]), flag)
            for number, flag in zip(each.ids[at - 3 : at + 5], each.mask[at - 3 : at + 5], strict=True)
        ]
        for each in (ours, theirs)
    ]
    return f"from token {at}: ours {shown[0]}, theirs {shown[1]}"


def family_folder(base: Path, place: Path, special: tuple[str, ...], plain: tuple[str, ...] = ()) -> Path:
    """A model folder with the base's vocabulary and a family's tokens; plain ones may be written by a row's text."""
    place.mkdir()
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(each, normalized=False, special=True) for each in special])
    tokenizer.add_tokens([AddedToken(each, normalized=False) for each in plain])
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    return place


@cache
def _tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def _config_kinds() -> list[Any]:
    kinds = [getattr(renderers.configs, name) for name in dir(renderers.configs) if name.endswith("RendererConfig")]
    return [kind for kind in kinds if "name" in getattr(kind, "model_fields", {})]


def _decoded(message: Row) -> Row:
    """Arguments as objects, as prime-rl hands them on."""
    message = {key: value for key, value in message.items() if value is not None or key == "content"}
    calls = [
        {**call, "function": {**call["function"], "arguments": _object(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    content = message.get("content")
    return {**message, "content": "" if content is None else content, **({"tool_calls": calls} if calls else {})}


def _object(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


# Conversations that are asked of every family.


def turn(role: str, content: str | None, **more: Any) -> Row:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: Any, number: int = 0) -> Row:
    return {"type": "function", "id": f"functions.{name}:{number}", "function": {"name": name, "arguments": arguments}}


def result(content: str, name: str = "look", number: int = 0) -> Row:
    return turn("tool", content, tool_call_id=f"functions.{name}:{number}", name=name)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": " Look a thing up.\nSlowly. ",
            "parameters": {
                "type": "object",
                "properties": {
                    "what": {"type": "string", "description": "The thing, é 漢 <b>"},
                    "depth": {"type": "integer", "default": 3, "enum": [1, 2, 3]},
                },
                "required": ["what"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
ASK, SAY = turn("user", "What is it?"), turn("assistant", "A thing.")
SYSTEM = turn("system", "Be brief.")
NESTED = {"what": "<p class='a'>\"é\" & 漢</p>\n\nline", "depth": 2, "deep": {"a": [1, {"b": None}], "c": True}}
ODD = {"yes": True, "no": False, "none": None, "half": 0.5, "empty": "", "list": [], "text": "True"}
LOOKED = turn("assistant", "Let me look.", tool_calls=[call("look", NESTED)])

PLAIN: dict[str, Row] = {
    "single": {"messages": [ASK, SAY]},
    "system": {"messages": [SYSTEM, ASK, SAY]},
    "several turns": {"messages": [SYSTEM, ASK, SAY, turn("user", "And that?"), turn("assistant", "Another thing!")]},
    "spaces": {"messages": [turn("user", "  a\n"), turn("assistant", "  b \n\n"), turn("user", "\tc "), SAY]},
    "newlines in front": {"messages": [turn("system", "\n\nS"), turn("user", "\n\na\n"), SAY]},
    "unicode": {"messages": [turn("user", "naïve 漢字 🙂 <b>&amp;</b>"), turn("assistant", "e\u0301 ½ ﬁ")]},
    "ends on a question": {"messages": [ASK, SAY, turn("user", "And?")]},
    "answers in a row": {"messages": [ASK, SAY, turn("assistant", "More."), ASK, SAY]},
}
TOOLED: dict[str, Row] = {
    "tools that are not called": {"messages": [ASK, SAY], "tools": TOOLS},
    "tools and a system turn": {"messages": [SYSTEM, ASK, SAY], "tools": TOOLS},
    "a call": {"messages": [ASK, LOOKED, result("found"), SAY], "tools": TOOLS},
    "a call without tools": {"messages": [ASK, LOOKED, result("found"), SAY]},
    "a call as text": {
        "messages": [ASK, turn("assistant", None, tool_calls=[call("look", '{"what": "é"}')]), result("x."), SAY],
        "tools": TOOLS,
    },
    "calls side by side": {
        "messages": [
            SYSTEM,
            ASK,
            turn("assistant", "Both.", tool_calls=[call("look", ODD), call("now", {}, 1)]),
            result("a."),
            result("b\n", "now", 1),
            turn("assistant", "", tool_calls=[call("now", {}, 2), call("look", NESTED, 3)]),
            result("", "now", 2),
            result("\nc", "look", 3),
            SAY,
        ],
        "tools": TOOLS,
    },
    "ends on a call": {"messages": [ASK, LOOKED], "tools": TOOLS},
    "ends on a result": {"messages": [ASK, LOOKED, result("found")], "tools": TOOLS},
}
THOUGHT: dict[str, Row] = {
    "thoughts beside": {"messages": [ASK, turn("assistant", "A thing.", reasoning_content="hm, so")]},
    "thoughts in many lines": {
        "messages": [ASK, turn("assistant", "\n\nA thing.\n", reasoning_content="\n a\n\nb.\n")]
    },
    "thoughts in front": {"messages": [ASK, turn("assistant", "<think>\nhm.\n</think>\n\nA thing.")]},
    "thoughts without an opening": {"messages": [ASK, turn("assistant", "hm\n</think>\nA thing.")]},
    "thoughts of an earlier turn": {
        "messages": [
            ASK,
            turn("assistant", "A.", reasoning_content="one"),
            turn("user", "b"),
            turn("assistant", "<think>two</think>B."),
            turn("user", "c"),
            turn("assistant", "C.", reasoning_content="three"),
        ]
    },
}
THOUGHT_CALLS: dict[str, Row] = {
    "thoughts around calls": {
        "messages": [
            ASK,
            {**LOOKED, "reasoning_content": "which?"},
            result("found"),
            turn("assistant", "", reasoning_content="and?", tool_calls=[call("now", {}, 1)]),
            result("noon", "now", 1),
            turn("assistant", "A thing.", reasoning_content="so"),
        ],
        "tools": TOOLS,
    },
}

# Random ones. Text holds no marks and control tokens, and does not begin or end with white space: what is special about
# those stands elsewhere.
MARKS = re.compile(r"<\|?/?\w+\|?>|\[\w+\]|/nothink")
WORDS = (
    st.text('ab .,<>|/"{}é漢1\n', max_size=12).map(lambda text: text.strip()) | st.text(max_size=6).map(str.strip)
).filter(lambda text: not MARKS.search(text))
SOME = WORDS.filter(bool)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SOME, inner, max_size=2),
    max_leaves=4,
)
CALLS = st.lists(st.builds(ToolCall, st.sampled_from(["look", "now"]), st.dictionaries(SOME, VALUES, max_size=2)))


@st.composite
def conversations(draw: st.DrawFn, thoughts: bool = True, calls: bool = True) -> Row:
    messages = [turn("system", draw(WORDS))] if draw(st.booleans()) else []
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append(turn("user", draw(SOME)))
        while True:
            answer = turn("assistant", draw(SOME))
            if thoughts and draw(st.booleans()):
                answer["reasoning_content"] = draw(SOME)
            messages.append(answer)
            asked = draw(CALLS.filter(lambda each: len(each) < 3)) if calls else []
            if not asked:
                break
            answer["tool_calls"] = [call(one.name, one.arguments, number + at) for at, one in enumerate(asked)]
            messages += [result(draw(WORDS), one.name, number + at) for at, one in enumerate(asked)]
            number += len(asked)
    return {"messages": messages, **({"tools": TOOLS} if calls and draw(st.booleans()) else {})}
