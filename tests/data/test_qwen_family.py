"""Qwen's forms against the package `renderers`, token by token and with the mask."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chat_folders import QWEN3
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
    conversation,
    conversations,
    trained,
    turn,
)

from burnish.data.conversations import RowFault
from burnish.data.render import load_chat_renderer
from burnish.data.render.pieces import control
from burnish.data.render.template import TemplateScript
from burnish.spec.train import LossMask, Renderer
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


SWITCHES: list[tuple[str, dict[str, Any]]] = [
    ("prime-qwen3", {}),
    ("qwen3", {}),
    ("qwen3", {"enable_thinking": False}),
    ("qwen3-vl", {}),
    ("qwen3.5", {}),
    ("qwen3.5", {"enable_thinking": False}),
    ("qwen3.6", {}),
    ("qwen3.6", {"preserve_thinking": True}),
    ("qwen3.6", {"enable_thinking": False}),
    ("qwen3.6", {"enable_thinking": False, "preserve_thinking": True}),
]
ROWS = {**PLAIN, **TOOLED, **THOUGHT, **THOUGHT_CALLS}


def fit(name: str, row: Row) -> Row:
    """Without the thoughts that a family refuses, or that the package drops for it: those are tested apart."""
    if name not in ("prime-qwen3", "qwen3-vl"):
        return row
    messages = [
        {key: value for key, value in each.items() if key != "reasoning_content" or not hides(name, each)}
        for each in row["messages"]
    ]
    return {**row, "messages": messages}


def hides(name: str, message: Row) -> bool:
    return name == "qwen3-vl" or "tool_calls" in message


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@pytest.mark.parametrize("what", ROWS)
def test_tokens_and_mask_are_the_packages(name, switches, what):
    assert_same(pair(name, **switches), fit(name, ROWS[what]))


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@settings(deadline=None, max_examples=20)
@given(row=conversations())
def test_tokens_and_mask_of_any_conversation_are_the_packages(name, switches, row):
    assert_same(pair(name, **switches), fit(name, row))


@pytest.mark.parametrize("name", ["prime-qwen3", "qwen3", "qwen3-vl", "qwen3.6"])
@settings(deadline=None, max_examples=15)
@given(row=conversations(), system=st.booleans(), user=st.booleans(), tool=st.booleans(), assistant=st.booleans())
def test_other_roles_are_trained_by_their_words_alone(name, row, system, user, tool, assistant):
    row = fit(name, row)
    loss_mask = LossMask(system=system, user=user, tool=tool, assistant=assistant)
    judged = pair(name)
    ours, theirs = (judged.unprompted(each(row, loss_mask)) for each in (judged.our_tokens, judged.their_tokens))
    assert ours.ids == theirs.ids
    extra = [number for number, one, two in zip(ours.ids, ours.mask, theirs.mask, strict=True) if one != two]
    # A body keeps the newlines behind it where a vocabulary may join them to its last letter.
    assert set(judged.text(extra)) <= {"\n"}


@pytest.mark.parametrize("name", ["qwen3", "auto"])
@settings(deadline=None, max_examples=30)
@given(row=conversations())
def test_qwen3_writes_what_the_models_own_template_does(name, row):
    judged = pair(name)
    theirs: Any = judged.tokenizer.apply_chat_template(
        row["messages"], tools=row.get("tools"), tokenize=False, chat_template=_template()
    )
    assert judged.our_tokens(row).ids == judged.tokenizer.encode(theirs, add_special_tokens=False)


@pytest.mark.parametrize("what", TOOLED)
def test_auto_writes_tools_natively_where_the_template_is_qwen3s(monkeypatch, what):
    judged = pair("auto")
    assert judged.ours.name == "auto (qwen3)"
    monkeypatch.delattr(TemplateScript, "write")
    assert judged.our_tokens(TOOLED[what]) == pair("qwen3").our_tokens(TOOLED[what])


def test_auto_leaves_tools_to_a_template_that_writes_them_otherwise(bpe_folder):
    folder = bpe_folder(QWEN3.replace("You may call", "You can call"))
    renderer = load_chat_renderer(folder, Renderer())
    assert renderer.name == "auto (qwen3)"
    text = renderer.decode(renderer.render(conversation(TOOLED["a call"]), LossMask()).token_ids)
    assert "You can call" in text and '{"name": "look"' in text


def test_a_template_is_told_the_ids_of_calls_in_which_control_tokens_are_letters(bpe_folder):
    template = (
        "{% for each in messages %}<|im_start|>{{ each.role }}\n{{ each.content }}"
        "{% for call in each.tool_calls or [] %}[{{ call.id }} {{ call.function.name }}]{% endfor %}"
        "{% if each.role == 'tool' %}[{{ each.tool_call_id }} {{ each.name }}]{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    renderer = load_chat_renderer(bpe_folder(template), Renderer())
    asked = {"id": "<|im_end|>1", "function": {"name": "look", "arguments": {}}}
    answered = turn("tool", "x", tool_call_id="<|im_end|>1", name="<|im_end|>look")
    row = {"messages": [turn("user", "a"), turn("assistant", "", tool_calls=[asked]), answered, turn("assistant", "b")]}
    ids = renderer.render(conversation(row), LossMask()).token_ids.tolist()
    assert "[<|im_end|>1 look]" in renderer.decode(ids) and "[<|im_end|>1 <|im_end|>look]" in renderer.decode(ids)
    assert ids.count(renderer.encode([[control("<|im_end|>")]]).token_ids[0]) == 4


@cache
def _template() -> str:
    return json.loads((_folder() / "tokenizer_config.json").read_text())["chat_template"]


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
@settings(deadline=None, max_examples=25)
@given(row=conversations())
def test_a_prompt_is_what_comes_before_an_answer_which_is_trained_to_its_end(name, switches, row):
    row = fit(name, row)
    judged = pair(name, **switches)
    before = row["messages"][: -1 if row["messages"][-1]["role"] == "assistant" else None]
    ours, theirs = judged.prompts(before)
    assert ours == theirs
    whole = judged.our_tokens({"messages": [*before, turn("assistant", "Done", **_thinking(name, switches))]})
    assert whole.ids[: len(ours)] == ours
    assert not any(whole.mask[: len(ours) - 1]) or any(each["role"] == "assistant" for each in before)
    end = len(whole.ids) - 1 - whole.mask[::-1].index(1)
    assert judged.text([whole.ids[end]]) in ENDS
    assert all(whole.mask[len(ours) : end + 1])


ENDS = ("<|im_end|>",)


def _thinking(name: str, switches: dict[str, Any]) -> Row:
    thinks = name != "qwen3-vl" and switches.get("enable_thinking") is not False
    return {"reasoning_content": "so"} if thinks else {}


@pytest.mark.parametrize(("name", "switches"), [each for each in SWITCHES if each[0] != "qwen3-vl"])
@pytest.mark.parametrize("row", [*THOUGHT.values(), *THOUGHT_CALLS.values()], ids=[*THOUGHT, *THOUGHT_CALLS])
def test_each_answer_and_its_thoughts_are_learnt_once(name, switches, row):
    assert_learnt_once(pair(name, **switches), row)


@pytest.mark.parametrize(("name", "switches"), SWITCHES)
def test_a_conversation_that_keeps_its_thoughts_is_one_sample(name, switches):
    judged, row = pair(name, **switches), fit(name, THOUGHT["thoughts of an earlier turn"])
    keeps = name in ("prime-qwen3", "qwen3-vl") or switches.get("preserve_thinking") is True
    assert len(judged.samples(row)) == (1 if keeps else 3)


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


@pytest.mark.parametrize(("name", "thinks"), [("qwen3.5", False), ("qwen3.6", True)])
def test_whether_qwen3_5_thinks_unless_it_is_told_is_read_from_the_models_own_template(tmp_path, name, thinks):
    opened = "<think>\\n" if thinks else "<think>\\n\\n</think>\\n\\n"
    template = (
        "{% for one in messages %}{{ '<|im_start|>' ~ one.role ~ '\\n' ~ one.content ~ '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n" + opened + "' }}{% endif %}"
    )
    for file in _folder().iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    (tmp_path / "chat_template.jinja").write_text(template)
    judged = Pair(tmp_path, name)
    told = pair(name, enable_thinking=thinks)
    assert judged.ours.prompt_ids(ASKED) == told.ours.prompt_ids(ASKED)
    assert pair(name, enable_thinking=not thinks).ours.prompt_ids(ASKED) != told.ours.prompt_ids(ASKED)
    assert Pair(tmp_path, name, {"enable_thinking": not thinks}).ours.prompt_ids(ASKED) != told.ours.prompt_ids(ASKED)


ASKED = [turn("user", "a")]
