"""Any accepted layout becomes a `Conversation`. Knows column names and roles, nothing of files or tokens."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from burnish.data.formats import Record
from burnish.data.ledger import BadRow, RowFault
from burnish.errors import DataError

Role = Literal["system", "user", "assistant", "tool"]
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "tool": "tool",
    "observation": "tool",
}

UNDERSTOOD = (
    "messages; prompt and completion; instruction and output (Alpaca); conversations with from and value (ShareGPT); "
    "text in a dataset that has nothing else"
)


DEEPEST = 64
"""Levels of a tool's schema or arguments."""


class ToolCall(NamedTuple):
    name: str
    arguments: Any
    """An object; JSON text in the row was parsed, so that both spellings render alike."""
    id: str = ""
    """What results name it by; empty where the row says nothing."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message, looked at but not unpacked."""

    at: int
    """How many letters of the message's content come before it."""
    width: int
    """Pixels."""
    height: int
    source: Path | bytes
    """A file of the data set, or the file's bytes: PNG, JPEG, WebP, GIF or BMP."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str
    reasoning: str | None = None
    """`reasoning_content`: thoughts kept beside the text."""
    trained: bool | None = None
    """What the row itself says (`weight`, `train`, or being a prompt); None leaves it to the loss mask."""
    tool_calls: tuple[ToolCall, ...] = ()
    images: tuple[Image, ...] = ()
    call_id: str = ""
    """Of a tool's result: the id of the call that it answers (`tool_call_id`)."""
    tool_name: str = ""
    """Of a tool's result: the function's name (`name`), where the row gives it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: tuple[Message, ...]
    where: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    """Schemas of the functions the assistant may call, as the row gives them."""
    text: str | None = None
    """Plain text instead of turns; then `messages` is empty."""


def read_conversation(record: Record) -> Conversation:
    """The conversation in a record; `DataError` at its `file:line` if there is none."""
    try:
        return parse_conversation(record)
    except RowFault as fault:
        raise DataError(f"{BadRow(record.where, str(fault))}.", hint=f"Understood are: {UNDERSTOOD}.") from fault


def parse_conversation(record: Record, *, images_per_message: int | None = None) -> Conversation:
    """As `read_conversation`, with a `RowFault` for a row that cannot be used. A null column is an absent one."""
    row = record.value
    if row.get("messages") is not None:
        messages = _messages(row["messages"], "messages")
    elif row.get("prompt") is not None and row.get("completion") is not None:
        messages = _prompt_completion(row["prompt"], row["completion"])
    elif row.get("conversations") is not None:
        messages = _messages(row["conversations"], "conversations")
        messages = _with_system(row.get("system"), messages)
    elif row.get("instruction") is not None and row.get("output") is not None:
        messages = _alpaca(row)
    elif row.get("text") is not None:
        return Conversation((), record.where, text=_plain_text(row["text"]))
    else:
        raise RowFault(_no_layout(row))
    if not any(message.role == "assistant" for message in messages):
        raise RowFault("no assistant turn, so nothing to learn from")
    if row.get("images") or row.get("image"):
        raise RowFault("the row has images, and images are not trained")
    return Conversation(messages, record.where, tools=_tools(row))


def read_messages(turns: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Turns as a chat holds them: `[{"role": "user", "content": "Hello"}]`."""
    return tuple(
        turn if isinstance(turn, Message) else _message(dict(turn), f"messages[{place}]")
        for place, turn in enumerate(turns)
    )


def _messages(value: Any, column: str) -> tuple[Message, ...]:
    if isinstance(value, str):
        value = _parsed(value, column)
    if not isinstance(value, list):
        raise RowFault(f"{column} is {_kind(value)}, not a list of turns")
    if not value:
        raise RowFault(f"{column} is empty")
    return tuple(_message(turn, f"{column}[{place}]") for place, turn in enumerate(value))


def _message(turn: Any, place: str) -> Message:
    if not isinstance(turn, dict):
        raise RowFault(f"{place} is {_kind(turn)}, not an object with role and content")
    named = turn.get("role") or turn.get("from")
    role = ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        found = "has no role" if named is None else f"has the unknown role {named!r}"
        raise RowFault(f"{place} {found} (known are {', '.join(ROLES)})")
    content = turn["content"] if turn.get("content") is not None else turn.get("value")
    return Message(
        role,
        _content(content, place),
        reasoning=_reasoning(turn.get("reasoning_content"), place),
        trained=_trained(turn, place),
        tool_calls=_tool_calls(turn["tool_calls"], place) if turn.get("tool_calls") else (),
        call_id=_label(turn, "tool_call_id", "id") if role == "tool" else "",
        tool_name=_label(turn, "name") if role == "tool" else "",
    )


def _label(value: dict[str, Any], *keys: str) -> str:
    """The first of these that is text; ids are only compared and written, so a number's spelling will do."""
    return next((str(value[key]) for key in keys if isinstance(value.get(key), str | int) and value[key] != ""), "")


def _content(content: Any, place: str) -> str:
    """Text as it is; a list of text parts joined; null as nothing."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(_part(part, place) for part in content)
    raise RowFault(f"{place}.content is {_kind(content)}, not text")


def _part(part: Any, place: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        kind = part.get("type", "text")
        if kind == "text" and isinstance(part.get("text"), str):
            return part["text"]
        if isinstance(kind, str) and kind.startswith("image"):
            raise RowFault(f"{place} holds an image, and images are not trained")
        raise RowFault(f"{place} holds a content part of type {kind!r}, which is not understood")
    raise RowFault(f"{place} holds a content part that is {_kind(part)}")


def _reasoning(value: Any, place: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise RowFault(f"{place}.reasoning_content is {_kind(value)}, not text")


def _trained(turn: dict[str, Any], place: str) -> bool | None:
    for key in ("train", "weight"):
        if turn.get(key) is not None:
            if turn[key] not in (0, 1):
                raise RowFault(f"{place}.{key} is {turn[key]!r}; it may be 0 or 1")
            # A weight of 1 is what every turn has; it does not train one that the mask leaves out.
            return None if key == "weight" and turn[key] else bool(turn[key])
    return None


def _tool_calls(value: Any, place: str) -> tuple[ToolCall, ...]:
    if isinstance(value, str):
        value = _parsed(value, f"{place}.tool_calls")
    calls = []
    for call in value if isinstance(value, list) else [value]:
        function = call.get("function") or call if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RowFault(f"{place}.tool_calls holds a call without a function name")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            arguments = _parsed(arguments, f"{place}.tool_calls arguments") if arguments.strip() else {}
        arguments = _plain(arguments, f"{place}.tool_calls arguments")
        arguments = {} if arguments is None else arguments
        calls.append(ToolCall(function["name"], arguments, _label(call, "id", "tool_call_id")))
    return tuple(calls)


def _tools(row: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    value = row.get("tools") or row.get("tool_defs") or ()
    if isinstance(value, str):
        value = _parsed(value, "tools") or ()
    if not isinstance(value, list | tuple) or not all(isinstance(tool, dict) for tool in value):
        raise RowFault("tools is not a list of function schemas")
    if not all(isinstance(tool.get("function", {}), dict) for tool in value):
        raise RowFault("tools holds a function that is not an object")
    return tuple(_plain(tool, "tools") for tool in value)


def _prompt_completion(prompt: Any, completion: Any) -> tuple[Message, ...]:
    """Only the completion is trained, even where the prompt holds assistant turns."""
    context = _side(prompt, "prompt", "user")
    answer = _side(completion, "completion", "assistant")
    if not any(message.role == "assistant" for message in answer):
        raise RowFault("completion holds no assistant turn")
    return (*(replace(message, trained=False) for message in context), *answer)


def _side(value: Any, column: str, role: Role) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message(role, value),)
    return _messages([value] if isinstance(value, dict) else value, column)


def _alpaca(row: dict[str, Any]) -> tuple[Message, ...]:
    instruction, more, output = row["instruction"], row.get("input") or "", row["output"]
    if not all(isinstance(each, str) for each in (instruction, more, output)):
        raise RowFault("instruction, input and output must be text")
    asked = f"{instruction}\n\n{more}" if more else instruction
    return _with_system(row.get("system"), (Message("user", asked), Message("assistant", output)))


def _with_system(system: Any, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return (Message("system", system), *messages) if isinstance(system, str) and system else messages


def _plain_text(value: Any) -> str:
    if not isinstance(value, str):
        raise RowFault(f"text is {_kind(value)}, not text")
    if not value:
        raise RowFault("text is empty")
    return value


def _parsed(text: str, place: str) -> Any:
    try:
        value = json.loads(text)
        orjson.loads(text)  # refuses what json lets pass: NaN, half a surrogate pair
    except (RecursionError, ValueError) as error:
        raise RowFault(f"{place} is text, but not JSON ({error})") from error
    return value


def _plain(value: Any, place: str, depth: int = 0) -> Any:
    """The value as it is, if JSON can write it: parquet has dates and bytes, and nesting may have no end."""
    if depth > DEEPEST:
        raise RowFault(f"{place} is nested more than {DEEPEST} deep")
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _plain(each, place, depth + 1)
    if value is not None and not isinstance(value, str | bool | int | float | list | dict):
        raise RowFault(f"{place} holds a {type(value).__name__}, which JSON cannot write")
    return value


def _no_layout(row: dict[str, Any]) -> str:
    found = [name for name, value in row.items() if value is not None]
    empty = [name for name, value in row.items() if value is None]
    shown = ", ".join(found) if found else "none"
    nulls = f" (null: {', '.join(empty)})" if empty else ""
    return f"no known columns: it has {shown}{nulls}; understood are {UNDERSTOOD}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {str: "a string", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "an object")
