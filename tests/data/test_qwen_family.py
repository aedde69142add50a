"""Qwen's forms against the package `renderers`, token by token and with the mask."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    LOOKED,
    PLAIN,
    THOUGHT,
    THOUGHT_CALLS,
    TOOLED,
    Pair,
    Row,
    assert_learnt_once,
    assert_letters,
    assert_same,
    call,
    conversations,
    trained,
    turn,
)

from burnish.data.conversations import RowFault
from burnish.spec.train import LossMask
from fetch import Unreachable, fetch_qwen3

pytestmark = pytest.mark.weights


@cache
def pair(name: str, **switches: Any) -> Pair:
    return Pair(_folder(), name, switches)


@cache
def _folder() -> Path:
    try:
        return fetch_qwen3()
    except Unreachable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", ["prime-qwen3", "qwen3"])
@pytest.mark.parametrize("what", [*PLAIN, *TOOLED, *THOUGHT])
def test_tokens_and_mask_are_the_packages(name, what):
    assert_same(pair(name), {**PLAIN, **TOOLED, **THOUGHT}[what])


@pytest.mark.parametrize("name", ["prime-qwen3", "qwen3"])
@settings(deadline=None, max_examples=60)
@given(row=conversations())
def test_tokens_and_mask_of_any_conversation_are_the_packages(name, row):
    if name == "prime-qwen3":
        row = _without_thoughts_at_calls(row)
    assert_same(pair(name), row)


@pytest.mark.parametrize("name", ["prime-qwen3", "qwen3"])
@settings(deadline=None, max_examples=30)
@given(row=conversations(), system=st.booleans(), user=st.booleans(), tool=st.booleans(), assistant=st.booleans())
def test_other_roles_are_trained_by_their_words_alone(name, row, system, user, tool, assistant):
    if name == "prime-qwen3":
        row = _without_thoughts_at_calls(row)
    loss_mask = LossMask(system=system, user=user, tool=tool, assistant=assistant)
    ours, theirs = pair(name).our_tokens(row, loss_mask), pair(name).their_tokens(row, loss_mask)
    assert ours.ids == theirs.ids
    extra = [number for number, one, two in zip(ours.ids, ours.mask, theirs.mask, strict=True) if one != two]
    # A body keeps the newlines behind it where a vocabulary may join them to its last letter.
    assert set(pair(name).text(extra)) <= {"\n"}


def _without_thoughts_at_calls(row: Row) -> Row:
    """The package drops those for prime-qwen3."""
    messages = [
        {key: value for key, value in each.items() if key != "reasoning_content" or "tool_calls" not in each}
        for each in row["messages"]
    ]
    return {**row, "messages": messages}


@pytest.mark.parametrize("what", THOUGHT_CALLS)
def test_qwen3_keeps_the_thoughts_between_calls(what):
    assert_same(pair("qwen3"), THOUGHT_CALLS[what])


@settings(deadline=None, max_examples=40)
@given(row=conversations())
def test_qwen3_writes_what_the_models_own_template_does(row):
    judged = pair("qwen3")
    turns = [{**each, "content": each["content"] or ""} for each in row["messages"]]
    theirs: Any = judged.tokenizer.apply_chat_template(
        turns, tools=row.get("tools"), tokenize=False, chat_template=_template()
    )
    assert judged.our_tokens(row).ids == judged.tokenizer.encode(theirs, add_special_tokens=False)


@cache
def _template() -> str:
    return json.loads((_folder() / "tokenizer_config.json").read_text())["chat_template"]


@pytest.mark.parametrize("what", [*PLAIN, *TOOLED, *THOUGHT])
def test_without_thinking_qwen3_differs_by_the_block_that_the_prompt_holds(what):
    judged, row = pair("qwen3", enable_thinking=False), {**PLAIN, **TOOLED, **THOUGHT}[what]
    ours, theirs = judged.our_tokens(row), judged.their_tokens(row)
    assert ours.ids == theirs.ids
    assert trained(judged, ours) == trained(judged, theirs).replace("<think>\n\n</think>\n\n", "")


SWITCHES: list[tuple[str, dict[str, Any]]] = [
    ("prime-qwen3", {}),
    ("qwen3", {}),
    ("qwen3", {"enable_thinking": False}),
]


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@settings(deadline=None, max_examples=25)
@given(row=conversations())
def test_a_prompt_is_what_comes_before_an_answer_which_is_trained_to_its_end(name, switches, row):
    if name == "prime-qwen3":
        row = _without_thoughts_at_calls(row)
    judged = pair(name, **switches)
    before = row["messages"][: -1 if row["messages"][-1]["role"] == "assistant" else None]
    ours, theirs = judged.prompts(before)
    assert ours == theirs
    whole = judged.our_tokens({"messages": [*before, turn("assistant", "Done", **_thinking(switches))]})
    assert whole.ids[: len(ours)] == ours
    assert not any(whole.mask[: len(ours) - 1]) or any(each["role"] == "assistant" for each in before)
    end = len(whole.ids) - 1 - whole.mask[::-1].index(1)
    assert judged.text([whole.ids[end]]) in ENDS
    assert all(whole.mask[len(ours) : end + 1])


ENDS = ("<|im_end|>",)


def _thinking(switches: dict[str, Any]) -> Row:
    return {} if switches.get("enable_thinking") is False else {"reasoning_content": "so"}


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@pytest.mark.parametrize("row", [*THOUGHT.values(), *THOUGHT_CALLS.values()], ids=[*THOUGHT, *THOUGHT_CALLS])
def test_each_answer_and_its_thoughts_are_learnt_once(name, switches, row):
    assert_learnt_once(pair(name, **switches), row)


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
def test_control_tokens_in_a_rows_text_are_letters(name, switches):
    assert_letters(pair(name, **switches), ["<|im_end|>", "<|im_start|>"])


def test_prime_qwen3_keeps_thoughts_before_a_call():
    row = {"messages": [turn("user", "a"), {**LOOKED, "reasoning_content": "which?"}]}
    said = trained(pair("prime-qwen3"), pair("prime-qwen3").our_tokens(row))
    assert said.startswith("<think>which?</think>\nLet me look.\n\n<tool_call>\n<function=look>\n")
    row["messages"][1] = {**row["messages"][1], "content": None}
    said = trained(pair("prime-qwen3"), pair("prime-qwen3").our_tokens(row))
    assert said.startswith("<think>which?</think>\n<tool_call>\n<function=look>\n")


def test_arguments_without_names_are_refused():
    row = {"messages": [turn("user", "a"), turn("assistant", "", tool_calls=[call("look", [1])])]}
    with pytest.raises(RowFault, match="the arguments of the call of 'look' are not an object"):
        pair("prime-qwen3").our_tokens(row)
