import json

import pytest

from burnish.data.conversations import Message, ToolCall, read_conversation
from burnish.data.formats import Record
from burnish.errors import DataError


def _read(row: dict):
    return read_conversation(Record(row, "train.jsonl", 17))


def _turns(row: dict) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in _read(row).messages]


def _fault(row: dict) -> str:
    with pytest.raises(DataError) as caught:
        _read(row)
    assert caught.value.message.startswith("train.jsonl:17: ")
    assert "messages" in caught.value.hint
    return caught.value.message


ASKED = [("user", "q"), ("assistant", "a")]
CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": CHAT},
        {"messages": json.dumps(CHAT)},
        {"messages": CHAT, "prompt": None, "completion": None},
        {"messages": CHAT, "prompt": "other", "completion": "other"},
        {"prompt": "q", "completion": "a"},
        {"messages": None, "prompt": CHAT[:1], "completion": CHAT[1:]},
        {"prompt": CHAT[0], "completion": "a"},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"conversations": CHAT},
        {"instruction": "q", "input": "", "output": "a"},
        {"instruction": "q", "input": None, "output": "a"},
    ],
)
def test_every_layout_comes_to_the_same_turns(row):
    assert _turns(row) == ASKED


def test_alpacas_input_follows_the_instruction_and_a_system_column_comes_first():
    row = {"instruction": "Add.", "input": "1 2", "output": "3", "system": "Be exact."}
    assert _turns(row) == [("system", "Be exact."), ("user", "Add.\n\n1 2"), ("assistant", "3")]


def test_only_the_completion_is_trained_even_where_the_prompt_holds_answers():
    conversation = _read({"prompt": [*CHAT, {"role": "user", "content": "r"}], "completion": "b"})
    assert [message.trained for message in conversation.messages] == [False, False, False, None]


def test_a_developer_is_a_system():
    assert _turns({"messages": [{"role": "developer", "content": "s"}, *CHAT]})[0] == ("system", "s")


def test_content_parts_are_joined_and_null_is_nothing():
    parts = [{"type": "text", "text": "fif"}, {"type": "text", "text": "th"}, "!"]
    assert _turns({"messages": [{"role": "user", "content": None}, {"role": "assistant", "content": parts}]}) == [
        ("user", ""),
        ("assistant", "fifth!"),
    ]


@pytest.mark.parametrize("calls", [None, []])
def test_null_or_empty_tool_calls_are_none(calls):
    row = {"messages": [CHAT[0], {**CHAT[1], "tool_calls": calls}], "tools": None}
    assert _read(row).messages[1] == Message("assistant", "a")
    assert _read(row).tools == ()


@pytest.mark.parametrize("arguments", ['{"level": 3}', {"level": 3}])
def test_tool_arguments_as_text_or_object_are_the_same_call(arguments):
    call = {"id": "c1", "type": "function", "function": {"name": "set_dial", "arguments": arguments}}
    row = {"messages": [CHAT[0], {"role": "assistant", "content": None, "tool_calls": [call]}]}
    assert _read(row).messages[1].tool_calls == (ToolCall("set_dial", {"level": 3}, "c1"),)


def test_a_result_knows_the_call_that_it_answers():
    call = {"id": 7, "function": {"name": "f", "arguments": {}}}
    result = {"role": "tool", "tool_call_id": 7, "name": "f", "content": "x"}
    row = {"messages": [CHAT[0], {"role": "assistant", "content": "", "tool_calls": [call]}, result, CHAT[1]]}
    _, asked, answered, said = _read(row).messages
    assert (asked.tool_calls[0].id, answered.call_id, answered.tool_name) == ("7", "7", "f")
    assert (said.call_id, said.tool_name) == ("", "")


@pytest.mark.parametrize(
    ("turn", "trained"),
    [({}, None), ({"weight": 0}, False), ({"weight": 1}, None), ({"train": True}, True), ({"train": 0}, False)],
)
def test_a_turn_may_say_whether_it_is_trained(turn, trained):
    assert _read({"messages": [CHAT[0], {**CHAT[1], **turn}]}).messages[1].trained is trained


def test_reasoning_is_kept_beside_the_text():
    row = {"messages": [CHAT[0], {**CHAT[1], "reasoning_content": "hm"}]}
    assert _read(row).messages[1].reasoning == "hm"


def test_plain_text_has_no_turns():
    assert _read({"text": "Once"}).text == "Once"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no known columns: it has none"),
        ({"question": "q", "answer": "a", "messages": None}, "it has question, answer (null: messages)"),
        ({"messages": []}, "messages is empty"),
        ({"messages": "hello"}, "messages is text, but not JSON"),
        ({"messages": {"role": "user"}}, "messages is an object, not a list"),
        ({"messages": ["hello"]}, "messages[0] is a string, not an object"),
        ({"messages": CHAT[:1]}, "no assistant turn"),
        ({"messages": [{"role": "robot", "content": "x"}, CHAT[1]]}, "messages[0] has the unknown role 'robot'"),
        ({"messages": [{"content": "x"}, CHAT[1]]}, "messages[0] has no role"),
        ({"messages": [{"role": "user", "content": 4}, CHAT[1]]}, "messages[0].content is a number, not text"),
        ({"prompt": "q", "completion": CHAT[:1]}, "completion holds no assistant turn"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}, CHAT[1]]}, "images are not trained"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}, CHAT[1]]}, "type 'audio'"),
        ({"messages": CHAT, "images": ["x.png"]}, "images are not trained"),
        ({"messages": [CHAT[0], {**CHAT[1], "weight": 0.5}]}, "weight is 0.5; it may be 0 or 1"),
        ({"messages": [CHAT[0], {**CHAT[1], "tool_calls": [{"id": 1}]}]}, "a call without a function name"),
        ({"messages": CHAT, "tools": "{"}, "tools is text, but not JSON"),
        ({"text": ""}, "text is empty"),
    ],
)
def test_a_row_that_cannot_be_used_says_what_was_found(row, reason):
    assert reason in _fault(row)
