"""The real Qwen3 and SmolLM2 as judges: their templates, their tokenizers, transformers' rendering of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_folders import QWEN3, SMOLLM2, load
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from burnish.data.conversations import Conversation, Message, Role, ToolCall, read_messages
from burnish.data.prepare import prepare_data
from burnish.spec.train import LossMask, SourceData, TrainSpec
from fetch import Unreachable, fetch_qwen3, fetch_smollm2

pytestmark = pytest.mark.weights

WORDS = st.text("ab <>|/\n\t'1é漢", max_size=10)
THINKING = st.builds("<think>\n{}\n</think>\n\n{}".format, WORDS, WORDS)
RESULTS = st.builds("<tool_response>{}</tool_response>".format, WORDS)
ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant", "system", "tool"])
TURNS = st.builds(Message, ROLES, WORDS | THINKING | RESULTS) | st.builds(
    Message, st.just("assistant"), WORDS, st.none() | WORDS
)
CALLS = st.builds(
    Message,
    st.just("assistant"),
    WORDS,
    tool_calls=st.lists(st.builds(ToolCall, st.just("f"), st.dictionaries(WORDS, st.integers())), max_size=2).map(
        tuple
    ),
)
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "description": "é", "parameters": {}}}


class Judge:
    """What transformers makes of turns with a family's own template."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = folder / "chat_template.jinja"
        config = json.loads((folder / "tokenizer_config.json").read_text())
        self.template = own.read_text() if own.is_file() else config["chat_template"]
        self._tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))

    def text(self, messages: tuple[Message, ...], template: str | None = None, **how: Any) -> str:
        turns: list[Any] = [_turn(message) for message in messages]
        template = template or self.template
        text: Any = self._tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False, **how)
        return text

    def ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


def _turn(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [{"function": call._asdict()} for call in message.tool_calls]
    return turn


def _judge(fetch: Callable[[], Path]) -> Judge:
    try:
        return Judge(fetch())
    except Unreachable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def qwen3() -> Judge:
    return _judge(fetch_qwen3)


@pytest.fixture(scope="session")
def smollm2() -> Judge:
    return _judge(fetch_smollm2)


@settings(deadline=None, max_examples=40)
@given(messages=st.lists(TURNS | CALLS, min_size=1, max_size=6).map(tuple), tools=st.booleans(), thinking=st.booleans())
def test_our_qwen3_template_writes_what_the_real_one_does(qwen3, messages, tools, thinking):
    how: dict[str, Any] = {"tools": [TOOL] if tools else None, "enable_thinking": thinking}
    for prompt in (False, True):
        ours, theirs = (
            qwen3.text(messages, template, add_generation_prompt=prompt, **how) for template in (QWEN3, None)
        )
        assert ours == theirs


@settings(deadline=None, max_examples=20)
@given(messages=st.lists(TURNS, min_size=1, max_size=6).map(tuple), prompt=st.booleans())
def test_our_smollm2_template_writes_what_the_real_one_does(smollm2, messages, prompt):
    ours, theirs = (smollm2.text(messages, each, add_generation_prompt=prompt) for each in (SMOLLM2, None))
    assert ours == theirs


@pytest.mark.parametrize(("family", "name"), [("qwen3", "qwen3"), ("smollm2", "smollm")])
@settings(deadline=None, max_examples=20)
@given(messages=st.lists(st.builds(Message, ROLES, WORDS | THINKING), min_size=1).map(tuple))
def test_native_code_writes_the_tokens_of_the_real_template(request, family, name, messages):
    judge = request.getfixturevalue(family)
    for wish in ("auto", name):
        renderer = load(judge.folder, wish)
        assert renderer.name == (f"auto ({name})" if wish == "auto" else name)
        ids = renderer.render(Conversation(messages), LossMask()).token_ids.tolist()
        text = judge.text(messages)
        assert renderer.decode(ids) == text
        if not re.search(r"<\|im_start\|>assistant\n\s", text):
            # An answer that begins with white space is encoded as it is sampled: apart from its header.
            assert ids == judge.ids(text)


ROWS = [
    {"messages": [{"role": "user", "content": f"What is {n} plus {n}?"}, {"role": "assistant", "content": f"{n + n}."}]}
    for n in range(40)
]


@pytest.mark.parametrize("family", ["qwen3", "smollm2"])
def test_prepared_data_counts_the_tokens_that_transformers_does(request, tmp_path, family):
    judge = request.getfixturevalue(family)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    spec = TrainSpec(model=family, data=SourceData(path="."), row_tokens=256, steps=1)
    prepared = prepare_data(
        spec, model_directory=judge.folder, data_path=tmp_path, store_directory=tmp_path / "store", say=lambda _: None
    )
    turns = [read_messages(row["messages"]) for row in ROWS]
    whole = [judge.ids(judge.text(each)) for each in turns]
    prompts = [judge.ids(judge.text(each[:1], add_generation_prompt=True)) for each in turns]
    assert all(one[: len(two)] == two for one, two in zip(whole, prompts, strict=True))
    newline = len(judge.ids("\n"))
    assert prepared.facts.tokens == sum(map(len, whole))
    assert prepared.facts.trained_tokens == sum(map(len, whole)) - sum(map(len, prompts)) - newline * len(ROWS)
    assert prepared.facts.conversations_used == len(ROWS)
