"""GLM's forms against the package `renderers`, token by token and with the mask.

GLM 4.5's prompt ends before the newline of a think block, so we train that, and the package does not.

GLM's own tokenizer cannot be fetched, so Qwen3's stands in, with GLM's tokens added.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    ASK,
    PLAIN,
    SAY,
    THOUGHT,
    THOUGHT_CALLS,
    TOOLED,
    Pair,
    assert_learnt_once,
    assert_letters,
    assert_same,
    call,
    conversations,
    family_folder,
    result,
    trained,
    turn,
)

from burnish.spec.train import LossMask
from fetch import Unreachable, fetch_qwen3

pytestmark = pytest.mark.weights

SPECIAL = (
    "<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>",
    "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
)  # fmt: skip
PLAIN_TOKENS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "/nothink",
)  # fmt: skip

SWITCHES: list[tuple[str, dict[str, Any]]] = [
    ("glm-5.3", {}),
    ("glm-5.3", {"clear_thinking": True, "reasoning_effort": "low"}),
    ("glm-5.3", {"reasoning_effort": "high"}),
    ("glm-4.5", {}),
    ("glm-4.5", {"enable_thinking": False}),
    ("glm-5", {}),
    ("glm-5", {"clear_thinking": False}),
    ("glm-5", {"enable_thinking": False}),
    ("glm-5.1", {}),
    ("glm-5.1", {"clear_thinking": False}),
    ("glm-5.1", {"enable_thinking": False}),
]
ROWS = {**PLAIN, **TOOLED, **THOUGHT, **THOUGHT_CALLS}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        base = fetch_qwen3()
    except Unreachable as reason:
        pytest.skip(str(reason))
    return family_folder(base, tmp_path_factory.mktemp("models") / "glm", SPECIAL, PLAIN_TOKENS)


@cache
def pair(folder: Path, name: str, **switches: Any) -> Pair:
    return Pair(folder, name, switches)


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@pytest.mark.parametrize("what", ROWS)
def test_tokens_and_mask_are_the_packages(folder, name, switches, what):
    assert_same(pair(folder, name, **switches), ROWS[what])


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@settings(deadline=None, max_examples=12)
@given(row=conversations())
def test_tokens_and_mask_of_any_conversation_are_the_packages(folder, name, switches, row):
    assert_same(pair(folder, name, **switches), row)


@pytest.mark.parametrize("name", ["glm-5.3", "glm-5", "glm-4.5"])
@settings(deadline=None, max_examples=12)
@given(row=conversations(), system=st.booleans(), user=st.booleans(), tool=st.booleans())
def test_other_roles_are_trained_by_their_words_alone(folder, name, row, system, user, tool):
    judged, loss_mask = pair(folder, name), LossMask(system=system, user=user, tool=tool)
    ours, theirs = judged.our_tokens(row, loss_mask), judged.their_tokens(row, loss_mask)
    assert ours.ids == theirs.ids
    extra = [number for number, one, two in zip(ours.ids, ours.mask, theirs.mask, strict=True) if one != two]
    assert set(judged.text(extra)) <= ({"\n"} if name == "glm-4.5" else set())


CROSSED = [
    ASK,
    turn("assistant", "", tool_calls=[call("look", {}, 0), call("now", {}, 1)]),
    result("noon", "now", 1),
    result("found", "look", 0),
    SAY,
]


def test_results_stand_in_the_order_of_their_calls_in_glm_5_3_alone(folder):
    for name, first, second in (("glm-5.3", "found", "noon"), ("glm-5", "noon", "found")):
        judged, row = pair(folder, name), {"messages": CROSSED}
        assert_same(judged, row)
        text = judged.text(judged.our_tokens(row).ids)
        assert text.index(first) < text.index(second)


@pytest.mark.parametrize("ids", [("", ""), ("one", "one"), ("functions.look:0", "other"), ("functions.now:1", "")])
def test_results_that_do_not_match_the_calls_stay_as_they_are(folder, ids):
    results = [
        {key: value for key, value in {**each, "tool_call_id": number}.items() if value != ""}
        for each, number in zip(CROSSED[2:4], ids, strict=True)
    ]
    assert_same(pair(folder, "glm-5.3"), {"messages": [*CROSSED[:2], *results, SAY]})


def test_the_mark_of_the_next_turn_is_the_answers_to_say_and_only_if_that_is_trained(folder):
    judged = pair(folder, "glm-5.3")
    row = {"messages": [ASK, SAY, turn("user", "And?"), SAY]}
    said = trained(judged, judged.our_tokens(row))
    assert said == "</think>A thing.<|user|></think>A thing.<|endoftext|>"
    row["messages"][1] = {**SAY, "weight": 0}
    assert trained(judged, judged.our_tokens(row)) == "</think>A thing.<|endoftext|>"
    row["messages"][3] = {**SAY, "weight": 0}
    row["messages"][1] = SAY
    assert trained(judged, judged.our_tokens(row)) == "</think>A thing.<|user|>"


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@settings(deadline=None, max_examples=10)
@given(row=conversations())
def test_a_prompt_is_what_comes_before_an_answer_which_is_trained_to_its_end(folder, name, switches, row):
    judged = pair(folder, name, **switches)
    before = row["messages"][: -1 if row["messages"][-1]["role"] == "assistant" else None]
    ours, theirs = judged.prompts(before)
    assert ours == theirs
    thinks = switches.get("enable_thinking") is not False
    answer = turn("assistant", "Done", **({"reasoning_content": "so"} if thinks else {}))
    whole = judged.our_tokens({"messages": [*before, answer]})
    assert whole.ids[: len(ours)] == ours
    assert all(whole.mask[len(ours) :]) and not whole.mask[len(ours) - 1]
    assert judged.text(whole.ids[-1:]) == "<|endoftext|>"


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@pytest.mark.parametrize("row", [*THOUGHT.values(), *THOUGHT_CALLS.values()], ids=[*THOUGHT, *THOUGHT_CALLS])
def test_each_answer_and_its_thoughts_are_learnt_once(folder, name, switches, row):
    assert_learnt_once(pair(folder, name, **switches), row)


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
def test_a_conversation_that_keeps_its_thoughts_is_one_sample(folder, name, switches):
    judged, row = pair(folder, name, **switches), THOUGHT["thoughts of an earlier turn"]
    keeps = switches.get("clear_thinking", name != "glm-5.3") is False
    assert len(judged.samples(row)) == (1 if keeps else 3)


@pytest.mark.parametrize("name", ["glm-5.3", "glm-5", "glm-4.5"])
def test_control_tokens_in_a_rows_text_are_letters(folder, name):
    assert_letters(pair(folder, name), SPECIAL)


def test_a_call_without_text_is_written_without_text(folder):
    calls = [call("now", {})]
    for name in ("glm-4.5", "glm-5", "glm-5.3"):
        rows = ({"messages": [ASK, turn("assistant", said, tool_calls=calls)]} for said in (None, ""))
        null, empty = (pair(folder, name).our_tokens(row) for row in rows)
        assert null == empty and "None" not in pair(folder, name).text(null.ids)


def test_a_reply_ends_with_any_mark_that_an_answer_is_trained_to_end_with(folder):
    judged = pair(folder, "glm-5.3")
    stops = set(judged.ours.stop_token_ids)
    for row in (ROWS["ends on a question"], ROWS["ends on a result"], ROWS["single"]):
        ids, mask = judged.our_tokens(row)
        assert ids[max(at for at, flag in enumerate(mask) if flag)] in stops


def test_a_call_in_a_sample_of_its_own_ends_with_the_mark_of_its_result(folder):
    asked = turn("assistant", "", reasoning_content="which?", tool_calls=[call("now", {})])
    row = {"messages": [ASK, asked, result("noon", "now"), SAY, turn("user", "And?"), SAY]}
    first, second = pair(folder, "glm-5").samples(row)
    said = ["".join(piece.text for piece in sample.pieces if piece.trained) for sample in (first, second)]
    assert said[0] == "which?</think><tool_call>now</tool_call><|observation|>"
    assert said[1] == "A thing.<|user|>A thing.<|endoftext|>"


@pytest.mark.parametrize("name", ["glm-4.5", "glm-5", "glm-5.3"])
def test_an_empty_last_answer_is_closed(folder, name):
    judged = pair(folder, name)
    said = trained(judged, judged.our_tokens({"messages": [ASK, SAY, ASK, turn("assistant", "")]}))
    assert said.endswith("<|endoftext|>") and said.count("<|user|>") == 1
