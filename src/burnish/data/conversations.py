"""Any accepted layout becomes a `Conversation`. Knows column names and roles, nothing of files or tokens."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from burnish.data.files import DataFile
from burnish.data.formats import Record
from burnish.data.images import look_at
from burnish.data.ledger import BadRow, RowFault
from burnish.data.tools import ToolCall, label, parsed, read_calls, read_tools
from burnish.errors import DataError

Role = Literal["system", "user", "assistant", "tool"]
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "function_call": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
}
"""What rows call them. A `function_call` is an assistant's turn whose text is the call (ShareGPT)."""

UNDERSTOOD = (
    "messages, also with response; prompt and completion; instruction and output (Alpaca); conversations with from "
    "and value (ShareGPT); text in a dataset that has nothing else"
)


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
    _refuse_switches(row.get("chat_template_kwargs"))
    pictures = _Pictures(row, record.origin, images_per_message)
    messages = _turns(row, pictures)
    if messages is None and row.get("text") is not None:
        pictures.refuse_rest("text")
        return Conversation((), record.where, text=_plain_text(row["text"]))
    if messages is None:
        raise RowFault(_no_layout(record))
    if not any(message.role == "assistant" for message in messages):
        raise RowFault("no assistant turn, so nothing to learn from")
    pictures.refuse_rest("the messages")
    return Conversation(_with_system(row.get("system"), messages), record.where, tools=read_tools(row))


def read_messages(turns: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Turns as a chat holds them: `[{"role": "user", "content": "Hello"}]`."""
    pictures = _Pictures({}, None, None)
    return tuple(
        turn if isinstance(turn, Message) else _message(dict(turn), f"messages[{place}]", pictures)
        for place, turn in enumerate(turns)
    )


def _refuse_switches(kwargs: Any) -> None:
    """`chat_template_kwargs` of a row, but for one that says nothing."""
    if isinstance(kwargs, dict):
        said = any(value is not None for value in kwargs.values())
    else:
        said = kwargs not in (None, "", "{}")
    if said:
        named = ", ".join(kwargs) if isinstance(kwargs, dict) else str(kwargs)[:80]
        raise RowFault(f"chat_template_kwargs ({named}) is not obeyed row by row; set it under [renderer] for all")


def _turns(row: dict[str, Any], pictures: "_Pictures") -> tuple[Message, ...] | None:
    """In the first layout that the row has; None where it has none with turns."""
    if row.get("messages") is not None:
        messages = _messages(row["messages"], "messages", pictures)
        if row.get("response") is None:
            return messages
        return (*_untrained(messages), *_answer(row["response"], "response", pictures))
    if row.get("prompt") is not None and row.get("completion") is not None:
        # Only the completion is trained, even where the prompt holds assistant turns.
        context = _side(row["prompt"], "prompt", "user", pictures)
        return (*_untrained(context), *_answer(row["completion"], "completion", pictures))
    if row.get("conversations") is not None:
        return _messages(row["conversations"], "conversations", pictures)
    if row.get("instruction") is not None and row.get("output") is not None:
        return _alpaca(row, pictures)
    return None


class _Pictures:
    """The images of a row: where they lie, and those of its `images` column that no turn has shown yet."""

    def __init__(self, row: dict[str, Any], origin: DataFile | None, per_message: int | None) -> None:
        self._origin = origin
        self._per_message = per_message
        self._column = _image_column(row)
        self._taken = 0

    @property
    def placed_in_text(self) -> bool:
        """Whether `<image>` in a text is the place for one, or seven letters."""
        return bool(self._column)

    def take(self, references: list[tuple[int, Any]], place: str) -> tuple[Image, ...]:
        """Of a message, each place for an image and what is to be there; None takes the next of the row's column."""
        if self._per_message and len(references) > self._per_message:
            raise RowFault(
                f"{place} has too many images: {len(references)}, and max_images_per_message is {self._per_message}"
            )
        return tuple(self._look(at, self._next(place) if named is None else named, place) for at, named in references)

    def refuse_rest(self, where: str) -> None:
        if self._taken < len(self._column):
            raise RowFault(
                f"the row has {len(self._column)} images, and {where} a place for {self._taken} of them "
                "(<image> in a text, or a part of type image)"
            )

    def _next(self, place: str) -> Any:
        self._taken += 1
        if self._taken > len(self._column):
            raise RowFault(f"{place} has a place for an image, and the row has only {len(self._column)}")
        return self._column[self._taken - 1]

    def _look(self, at: int, reference: Any, place: str) -> Image:
        try:
            width, height, source = look_at(reference, self._origin)
        except RowFault as fault:
            raise RowFault(f"{place}: the image {fault}") from fault
        return Image(at, width, height, source)


def _image_column(row: dict[str, Any]) -> list[Any]:
    column = row.get("images")
    if column in (None, [], ""):
        column = row.get("image")
    elif row.get("image") not in (None, [], ""):
        raise RowFault("the row has an image column and an images column")
    if column in (None, "", b""):
        return []
    if isinstance(column, str) and column.startswith("["):
        column = parsed(column, "images")
    return column if isinstance(column, list) else [column]


def _messages(value: Any, column: str, pictures: _Pictures) -> tuple[Message, ...]:
    if isinstance(value, str):
        value = parsed(value, column)
    if not isinstance(value, list):
        raise RowFault(f"{column} is {_kind(value)}, not a list of turns")
    if not value:
        raise RowFault(f"{column} is empty")
    return tuple(_message(turn, f"{column}[{place}]", pictures) for place, turn in enumerate(value))


def _message(turn: Any, place: str, pictures: _Pictures) -> Message:
    if not isinstance(turn, dict):
        raise RowFault(f"{place} is {_kind(turn)}, not an object with role and content")
    named = turn.get("role") or turn.get("from")
    role = ROLES.get(named) if isinstance(named, str) else None
    if (
        role
        and turn.keys() == _PLAIN
        and isinstance(turn["content"], str)
        and named != "function_call"
        and not pictures.placed_in_text
    ):
        return Message(role, turn["content"])
    if role is None:
        found = "has no role" if named is None else f"has the unknown role {repr(named)[:60]}"
        raise RowFault(f"{place} {found} (known are {', '.join(ROLES)})")
    said = _said(turn, place)
    calls: tuple[ToolCall, ...] = ()
    if named == "function_call":
        said, calls = None, read_calls(said, place)
    elif turn.get("tool_calls"):
        calls = read_calls(turn["tool_calls"], f"{place}.tool_calls")
    elif turn.get("function_call"):
        calls = read_calls(turn["function_call"], f"{place}.function_call")
    content, images = _content(said, place, pictures)
    reasoning = _reasoning(turn, place)
    if reasoning and role != "assistant":
        raise RowFault(f"{place} is a turn of {role} and has thoughts, which are the assistant's alone")
    if said is None and not (calls or reasoning):
        _refuse_unread(turn, place)
    return Message(
        role,
        content,
        reasoning=reasoning,
        trained=_trained(turn, place),
        tool_calls=calls,
        images=images,
        call_id=label(turn, "tool_call_id", "id") if role == "tool" else "",
        tool_name=label(turn, "name") if role == "tool" else "",
    )


_PLAIN = {"role", "content"}
"""What most turns hold, so that there is nothing more to look for; millions of them are read."""


def _said(turn: dict[str, Any], place: str) -> Any:
    content, value = turn.get("content"), turn.get("value")
    if content is not None and value is not None and content != value:
        raise RowFault(f"{place} has content and value, and they differ")
    return value if content is None else content


_READ = {
    *("role", "from", "content", "value", "reasoning_content", "reasoning", "thinking", "tool_calls", "function_call"),
    *("weight", "train", "name", "tool_call_id", "id"),
}
"""What is read of a turn. More may stand there beside its text: dates, scores."""


def _refuse_unread(turn: dict[str, Any], place: str) -> None:
    """An empty turn is one that was said; a turn whose words stand under another name is not."""
    unread = [key for key, value in turn.items() if key not in _READ and value not in (None, "", [], {})]
    if unread:
        raise RowFault(f"{place} has no content, but {', '.join(map(str, unread[:8]))}; a turn's text is its content")


def _content(content: Any, place: str, pictures: _Pictures) -> tuple[str, tuple[Image, ...]]:
    """Text as it is; parts joined, with images where they stand; null as nothing."""
    if isinstance(content, str) and not pictures.placed_in_text:
        return content, ()
    if content is None:
        return "", ()
    if not isinstance(content, str | list):
        raise RowFault(f"{place}.content is {_kind(content)}, not text")
    text, references = "", []
    for part in content if isinstance(content, list) else [content]:
        words, named = _part(part, place)
        if words is None:
            references.append((len(text), named))
            continue
        for number, piece in enumerate(_IMAGE.split(words) if pictures.placed_in_text else [words]):
            if number:
                references.append((len(text), None))
            text += piece
    return text, pictures.take(references, place)


_IMAGE = re.compile("<image>")


def _part(part: Any, place: str) -> tuple[str | None, Any]:
    """The words of a part, or None and what names its image; None for that too where the row's column does."""
    if isinstance(part, str):
        return part, None
    if not isinstance(part, dict):
        raise RowFault(f"{place} holds a content part that is {_kind(part)}")
    kind = part.get("type") or next((key for key in ("text", "image_url", "image") if part.get(key) is not None), None)
    if kind == "text":
        if isinstance(part.get("text"), str | None):
            return part.get("text") or "", None
        raise RowFault(f"{place} holds a content part whose text is {_kind(part['text'])}")
    if kind in ("image", "image_url"):
        named = next((part[key] for key in _NAMING if part.get(key) is not None), None)
        others = [key for key in part if key not in (*_NAMING, "type") and part[key] is not None]
        if named is None and others:
            raise RowFault(f"{place} holds an image under {', '.join(map(str, others))}, which is not understood")
        return None, named
    raise RowFault(f"{place} holds a content part of type {repr(kind)[:60]}, which is not understood")


_NAMING = ("image", "image_url", "url", "path", "bytes")


def _reasoning(turn: dict[str, Any], place: str) -> str | None:
    """`reasoning_content`, or one of the names that others have for it."""
    found = [(key, turn[key]) for key in ("reasoning_content", "reasoning", "thinking") if turn.get(key) is not None]
    for key, value in found:
        if not isinstance(value, str):
            raise RowFault(f"{place}.{key} is {_kind(value)}, not text")
        if value != found[0][1]:
            raise RowFault(f"{place} has {found[0][0]} and {key}, and they differ")
    return found[0][1] if found else None


def _trained(turn: dict[str, Any], place: str) -> bool | None:
    for key in ("train", "weight"):
        if turn.get(key) is not None:
            if turn[key] not in (0, 1):
                raise RowFault(f"{place}.{key} is {repr(turn[key])[:60]}; it may be 0 or 1")
            # A weight of 1 is what every turn has; it does not train one that the mask leaves out.
            return None if key == "weight" and turn[key] else bool(turn[key])
    return None


def _untrained(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(replace(message, trained=False) for message in messages)


def _answer(value: Any, column: str, pictures: _Pictures) -> tuple[Message, ...]:
    answer = _side(value, column, "assistant", pictures)
    if not any(message.role == "assistant" for message in answer):
        raise RowFault(f"{column} holds no assistant turn")
    return answer


def _side(value: Any, column: str, role: Role, pictures: _Pictures) -> tuple[Message, ...]:
    """Text, one turn or several."""
    if isinstance(value, str):
        content, images = _content(value, column, pictures)
        return (Message(role, content, images=images),)
    return _messages([value] if isinstance(value, dict) else value, column, pictures)


def _alpaca(row: dict[str, Any], pictures: _Pictures) -> tuple[Message, ...]:
    instruction, more, output = row["instruction"], row.get("input") or "", row["output"]
    if not all(isinstance(each, str) for each in (instruction, more, output)):
        raise RowFault("instruction, input and output must be text")
    asked = f"{instruction}\n\n{more}" if more else instruction
    return (*_side(asked, "instruction", "user", pictures), *_side(output, "output", "assistant", pictures))


def _with_system(system: Any, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A system column comes first, whatever the layout."""
    if not system:
        return messages
    if not isinstance(system, str):
        raise RowFault(f"system is {_kind(system)}, not text")
    if messages[0].role != "system":
        return (Message("system", system), *messages)
    if messages[0].content != system:
        raise RowFault("the row has a system column and another system turn")
    return messages


def _plain_text(value: Any) -> str:
    if not isinstance(value, str):
        raise RowFault(f"text is {_kind(value)}, not text")
    if not value:
        raise RowFault("text is empty")
    return value


def _no_layout(record: Record) -> str:
    found = [str(name)[:40] for name, value in record.value.items() if value is not None]
    empty = [str(name)[:40] for name, value in record.value.items() if value is None]
    shown = ", ".join(found[:20]) if found else "none"
    nulls = f" (null: {', '.join(empty[:20])})" if empty else ""
    header = "; the first line of the file names its columns" if re.search(r"\.[ct]sv\b", record.file) else ""
    return f"no known columns: it has {shown}{nulls}{header}; understood are {UNDERSTOOD}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {str: "a string", bool: "a truth value", int: "a number", list: "a list"}
    return names.get(type(value), "a number" if isinstance(value, float) else "an object")
