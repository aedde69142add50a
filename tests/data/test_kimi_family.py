"""Kimi K2's form against the package `renderers`, token by token and with the mask.

Kimi's own tokenizer cannot be fetched, so Qwen3's stands in, with Kimi's tokens added.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    ASK,
    PLAIN,
    SAY,
    TOOLED,
    Pair,
    assert_letters,
    assert_same,
    call,
    conversations,
    family_folder,
    result,
    trained,
    turn,
)

from burnish.data.conversations import RowFault
from burnish.spec.train import LossMask
from fetch import Unreachable, fetch_qwen3

pytestmark = pytest.mark.weights

SPECIAL = (
    "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
)  # fmt: skip
ROWS = {**PLAIN, **TOOLED}


@pytest.fixture(scope="session")
def kimi(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    try:
        base = fetch_qwen3()
    except Unreachable as reason:
        pytest.skip(str(reason))
    return Pair(family_folder(base, tmp_path_factory.mktemp("models") / "kimi", SPECIAL), "kimi-k2")


@pytest.mark.parametrize("what", ROWS)
def test_tokens_and_mask_are_the_packages(kimi, what):
    assert_same(kimi, ROWS[what])


@settings(deadline=None, max_examples=40)
@given(
    row=conversations(thoughts=False),
    loss_mask=st.builds(LossMask, system=st.booleans(), user=st.booleans(), tool=st.booleans()),
)
def test_tokens_and_mask_of_any_conversation_are_the_packages(kimi, row, loss_mask):
    assert_same(kimi, row, loss_mask)


@settings(deadline=None, max_examples=20)
@given(row=conversations(thoughts=False))
def test_a_prompt_is_what_comes_before_an_answer_which_is_trained_to_its_end(kimi, row):
    before = row["messages"][: -1 if row["messages"][-1]["role"] == "assistant" else None]
    ours, theirs = kimi.prompts(before)
    assert ours == theirs
    whole = kimi.our_tokens({"messages": [*before, turn("assistant", "Done")]})
    assert whole.ids[: len(ours)] == ours
    assert all(whole.mask[len(ours) :]) and not whole.mask[len(ours) - 1]
    assert kimi.text(whole.ids[-1:]) == "<|im_end|>"


def test_a_call_is_named_where_its_id_does_not_and_its_result_with_it(kimi):
    def written(first: str | None, second: str | None) -> str:
        calls = [{**call("look", {}), "id": first}, {**call("now", {}), "id": second}]
        results = [{**result("a"), "tool_call_id": first}, {**result("b", "now"), "tool_call_id": second}]
        row = {"messages": [ASK, turn("assistant", "", tool_calls=calls), *results, SAY]}
        return kimi.text(kimi.our_tokens(row).ids)

    named = written("functions.look:0", "functions.now:1")
    assert written("call_x1", "call_x2") == written(None, None) == named
    assert "## Return of functions.now:1\nb" in named


def test_reasoning_is_refused(kimi):
    row = {"messages": [ASK, {**SAY, "reasoning_content": "hm"}]}
    with pytest.raises(RowFault, match="reasoning_content is not rendered by `kimi-k2`"):
        kimi.our_tokens(row)


def test_an_answer_and_its_end_are_trained(kimi):
    assert trained(kimi, kimi.our_tokens({"messages": [ASK, SAY, ASK, SAY]})) == "A thing.<|im_end|>" * 2


def test_control_tokens_in_a_rows_text_are_letters(kimi):
    assert_letters(kimi, SPECIAL)
