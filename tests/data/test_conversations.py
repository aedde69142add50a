import json

import pytest

from burnish.data.conversations import Message, ToolCall, read_conversation
from burnish.data.formats import Record
from burnish.data.json_text import write_json
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
    parts = [{"type": "text", "text": "fif"}, {"type": "text", "text": "th"}, {"type": "text", "text": None}, "!"]
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


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_have_several_names(name):
    assert _read({"messages": [CHAT[0], {**CHAT[1], name: "hm", "refusal": None}]}).messages[1].reasoning == "hm"


@pytest.mark.parametrize(
    "response", ["b", {"role": "assistant", "content": "b"}, [{"role": "assistant", "content": "b"}]]
)
def test_only_the_response_is_trained_of_messages_with_one(response):
    conversation = _read({"messages": [*CHAT, {"role": "user", "content": "r"}], "response": response})
    assert [message.content for message in conversation.messages] == ["q", "a", "r", "b"]
    assert [message.trained for message in conversation.messages] == [False, False, False, None]
    assert _turns({"messages": CHAT[:1], "response": response}) == [("user", "q"), ("assistant", "b")]
    assert [message.trained for message in _read({"messages": CHAT, "response": None}).messages] == [None, None]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": CHAT},
        {"messages": [{"role": "system", "content": "s"}, *CHAT]},
        {"prompt": "q", "completion": "a"},
        {"conversations": CHAT},
        {"instruction": "q", "output": "a"},
    ],
)
def test_a_system_column_comes_first_in_every_layout(row):
    assert _turns({**row, "system": "s"}) == [("system", "s"), *ASKED]


CALL = ToolCall("find", {"stop": "Tarn"})
CALL_TEXT = '{"name": "find", "arguments": {"stop": "Tarn"}}'


def test_sharegpt_calls_and_observations_are_calls_and_results():
    turns = [
        {"from": "human", "value": "When?"},
        {"from": "function_call", "value": CALL_TEXT},
        {"from": "observation", "value": "4"},
        {"from": "function_call", "value": f"[{CALL_TEXT}, {CALL_TEXT}]"},
        {"from": "function", "value": "5"},
        {"from": "gpt", "value": "Four."},
    ]
    row = {"conversations": turns, "tools": '[{"name": "find", "parameters": {}}]'}
    messages = _read(row).messages
    assert [(message.role, message.content, message.tool_calls) for message in messages] == [
        ("user", "When?", ()),
        ("assistant", "", (CALL,)),
        ("tool", "4", ()),
        ("assistant", "", (CALL, CALL)),
        ("tool", "5", ()),
        ("assistant", "Four.", ()),
    ]
    assert _read(row).tools == ({"type": "function", "function": {"name": "find", "parameters": {}}},)


def test_the_older_form_of_a_call_is_a_call():
    turn = {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": '{"stop": "Tarn"}'}}
    results = {"role": "function", "name": "find", "content": "4"}
    messages = _read({"messages": [CHAT[0], turn, results, CHAT[1]]}).messages
    assert messages[1].tool_calls == (CALL,)
    assert (messages[2].role, messages[2].tool_name) == ("tool", "find")


FUNCTION = {"name": "find", "description": "Finds.", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("column", ["tools", "tool_defs"])
@pytest.mark.parametrize(
    "tool", [FUNCTION, {"type": "function", **FUNCTION}, {"type": "function", "function": FUNCTION}]
)
@pytest.mark.parametrize("write", [list, json.dumps, lambda tools: [json.dumps(tool) for tool in tools]])
def test_tools_come_into_one_shape(column, tool, write):
    assert _read({"messages": CHAT, column: write([tool])}).tools == ({"type": "function", "function": FUNCTION},)


@pytest.mark.parametrize(
    "text",
    [
        '{"z": 1, "a": 1.0, "m": 1e5, "k": 2.50}',
        '{"n": 123456789012345678901234567890, "deep": {"null": null, "list": [null, {"x": null}]}}',
        '{"é": "\u2028 日本 😀", "quote": "\\"\\n"}',
    ],
)
def test_json_text_survives_to_the_letter(text):
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": text}}]}
    row = {"messages": [CHAT[0], call], "tools": f'[{{"type": "function", "function": {{"name": "f", "x": {text}}}}}]'}
    conversation = _read(row)
    assert write_json(conversation.messages[1].tool_calls[0].arguments) == text
    assert write_json(conversation.tools[0]["function"]["x"]) == text


def test_a_name_an_id_and_what_else_stands_beside_the_text_do_no_harm():
    turns = [{**turn, "name": "n", "tool_call_id": "c", "id": 3, "timestamp": 4.5, "score": None} for turn in CHAT]
    assert _turns({"messages": turns, "source": "web", "id": 7}) == ASKED
    assert _turns({"messages": CHAT, "chat_template_kwargs": {}}) == ASKED


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
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}, CHAT[1]]}, "has only 0"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}, CHAT[1]]}, "type 'audio'"),
        ({"messages": CHAT, "images": ["x.png"]}, "the row has 1 images, and the messages a place for 0 of them"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 4}]}, CHAT[1]]}, "whose text is a number"),
        ({"messages": [{"role": ["x"] * 999, "content": "q"}, CHAT[1]]}, "has the unknown role ['x', 'x'"),
        ({"messages": [{"role": "user", "text": "q"}, CHAT[1]]}, "messages[0] has no content, but text"),
        ({"messages": [CHAT[0], {"role": "assistant", "content": None, "refusal": "No."}]}, "no content, but refusal"),
        ({"messages": [{"role": "user", "content": "a", "value": "b"}, CHAT[1]]}, "content and value, and they differ"),
        ({"messages": [CHAT[0], {**CHAT[1], "thinking": "a", "reasoning": "b"}]}, "reasoning and thinking, and they d"),
        ({"messages": [CHAT[0], {**CHAT[1], "thinking": True}]}, "messages[1].thinking is a truth value, not text"),
        ({"messages": CHAT, "chat_template_kwargs": {"enable_thinking": False}}, "(enable_thinking) is not obeyed"),
        ({"messages": CHAT, "system": 4}, "system is a number, not text"),
        ({"messages": [{"role": "system", "content": "a"}, *CHAT], "system": "b"}, "another system turn"),
        ({"messages": CHAT[:1], "response": CHAT[:1]}, "response holds no assistant turn"),
        ({"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "f(x)"}]}, "not JSON"),
        ({"messages": CHAT, "tools": ["f"]}, "tools is text, but not JSON"),
        ({"messages": CHAT, "tools": [4]}, "tools is not a list of function schemas"),
        ({"messages": [CHAT[0], {**CHAT[1], "content": "\ud800"}], "tools": '["\ud800"]'}, "not JSON"),
        ({"messages": [CHAT[0], {**CHAT[1], "weight": 0.5}]}, "weight is 0.5; it may be 0 or 1"),
        ({"messages": [CHAT[0], {**CHAT[1], "tool_calls": [{"id": 1}]}]}, "a call without a function name"),
        ({"messages": CHAT, "tools": "{"}, "tools is text, but not JSON"),
        ({"text": ""}, "text is empty"),
    ],
)
def test_a_row_that_cannot_be_used_says_what_was_found(row, reason):
    assert reason in _fault(row)
