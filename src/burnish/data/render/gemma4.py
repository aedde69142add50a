"""Gemma 4's form: `<|turn>ROLE`, newline, the stripped text, `<turn|>`, newline. Thoughts, calls, results have marks.

A model's turn lasts until it has answered: what it calls for, the results and the answer stand in one. It asks for a
result with the mark that opens it, so that mark is trained. Thoughts before the last question are left out, but,
where they are preserved, those before a call.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.json_text import write_json
from burnish.data.render.answers import functions_of_results
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.spec.train import LossMask

BOS, START, END = "<bos>", "<|turn>", "<turn|>"
THOUGHTS, THOUGHT, CALL, CALLED, RESULT, RESULTED = (
    "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
)  # fmt: skip
NOTHING = LossMask(assistant=False)
QUOTE = '<|"|>'
# Stands for the quote while text is put together; no text holds it.
_QUOTE = "\ufdd0"


@dataclass(frozen=True)
class Gemma4:
    enable_thinking: bool = False
    preserve_thinking: bool = False
    name: str = "gemma4"
    end_of_turn: str = END
    needs: tuple[str, ...] = (BOS, START, END, THOUGHTS, THOUGHT, CALL, CALLED, RESULT, RESULTED, QUOTE, "<|think|>")
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages = conversation.messages
        opens = bool(messages) and messages[0].role == "system"
        pieces = [control(BOS)]
        if opens or self.enable_thinking or conversation.tools:
            pieces += self._system(messages[0] if opens else None, conversation.tools, loss_mask)
        functions, hidden = functions_of_results(messages), set(self.history(conversation).thoughtless)
        before, place = "", int(opens)
        while place < len(messages):
            message = messages[place]
            if message.role == "tool":
                raise RowFault(f"messages[{place}] is a tool's result, and no call is before it")
            after = place + 1
            while message.tool_calls and after < len(messages) and messages[after].role == "tool":
                after += 1
            next_role = messages[after].role if after < len(messages) else ""
            if not message.role == before == "assistant":
                pieces.append(_header(message.role))
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                results = [(result, functions[place + 1 + at]) for at, result in enumerate(messages[place + 1 : after])]
                pieces += self._answer(message, results, trained, loss_mask, next_role, thinks=place not in hidden)
            else:
                pieces += [words(message.content.strip(), message.role, trained), control(f"{END}\n", message.role)]
            before, place = message.role, after
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        pieces = self.write(Conversation(messages), NOTHING)
        last = messages[-1] if messages else None
        if last and last.role == "tool":
            return [*pieces, control(f"{THOUGHTS}thought\n", "assistant")] if self.enable_thinking else pieces
        return pieces if last and last.tool_calls else [*pieces, _header("assistant")]

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        asked = max((place for place, message in enumerate(messages) if message.role == "user"), default=-1)
        thoughtless = (
            place
            for place, message in enumerate(messages[: asked + 1])
            if message.role == "assistant" and message.reasoning and not (self.preserve_thinking and message.tool_calls)
        )
        return History(thoughtless=tuple(thoughtless))

    def _system(self, message: Message | None, tools: tuple[dict[str, Any], ...], loss_mask: LossMask) -> list[Piece]:
        pieces = [_header("system")]
        if self.enable_thinking:
            pieces.append(control("<|think|>\n", "system"))
        if message:
            pieces.append(words(message.content.strip(), "system", is_trained(message, loss_mask)))
        for tool in tools:
            if tool.get("type") in (None, "function"):
                declared = _quoted(_declaration(tool.get("function") or tool), "system", False)
                pieces += [control("<|tool>", "system"), *declared, control("<tool|>", "system")]
        return [*pieces, control(f"{END}\n", "system")]

    def _answer(
        self,
        message: Message,
        results: list[tuple[Message, str]],
        trained: bool,
        loss_mask: LossMask,
        next_role: str,
        *,
        thinks: bool,
    ) -> list[Piece]:
        said = message.content.strip()
        if THOUGHTS in said or THOUGHT in said:
            raise RowFault(f"the text holds thoughts between marks, which `{self.name}` takes from reasoning_content")
        pieces: list[Piece] = []
        if message.reasoning and thinks:
            thoughts = words(f"thought\n{message.reasoning}\n", "assistant", trained)
            pieces += [control(THOUGHTS, "assistant", trained), thoughts, control(THOUGHT, "assistant", trained)]
        for call in message.tool_calls:
            if not isinstance(call.arguments, dict):
                raise RowFault(f"the arguments of the call of {call.name!r} are not an object, so they have no names")
            called = _quoted(f"call:{_safe(call.name)}{_value(call.arguments, quote_keys=False)}", "assistant", trained)
            pieces += [control(CALL, "assistant", trained), *called, control(CALLED, "assistant", trained)]
        if message.tool_calls:
            pieces.append(control(RESULT, "assistant", trained))
        for number, (result, function) in enumerate(results):
            pieces += [control(RESULT, "tool")] if number else []
            pieces += _result(result, function, is_trained(result, loss_mask))
        pieces.append(words(said, "assistant", trained))
        waits = bool(message.tool_calls) and not results
        unfinished = bool(results) and not said and not next_role
        if waits or unfinished or next_role == "assistant":
            return pieces
        return [*pieces, control(END, "assistant", trained), control("\n", "assistant")]


def _header(role: str) -> Piece:
    return control(f"{START}{'model' if role == 'assistant' else role}\n", role)


def _result(message: Message, function: str, trained: bool) -> list[Piece]:
    return [
        words(f"response:{function}{{value:", "tool", False),
        control(QUOTE, "tool", trained),
        words(message.content, "tool", trained),
        control(QUOTE, "tool", trained),
        words("}", "tool", False),
        control(RESULTED, "tool"),
    ]


def _quoted(text: str, role: str, trained: bool) -> Iterator[Piece]:
    for place, part in enumerate(text.split(_QUOTE)):
        if place:
            yield control(QUOTE, role, trained)
        if part:
            yield words(part, role, trained)


def _safe(text: Any) -> str:
    if _QUOTE in str(text):
        raise RowFault("the text holds a noncharacter (U+FDD0)")
    return str(text)


def _text(text: Any) -> str:
    return f"{_QUOTE}{_safe(text)}{_QUOTE}"


def _texts(values: Iterable[Any]) -> str:
    return f"[{','.join(map(_text, values))}]"


def _sorted(value: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(value.items(), key=lambda each: each[0].lower())


def _value(value: Any, *, quote_keys: bool = True) -> str:
    match value:
        case str():
            return _text(value)
        case dict():
            spell = _text if quote_keys else _safe
            fields = (f"{spell(key)}:{_value(inner, quote_keys=quote_keys)}" for key, inner in _sorted(value))
            return f"{{{','.join(fields)}}}"
        case list():
            return f"[{','.join(_value(inner, quote_keys=quote_keys) for inner in value)}]"
        case _:
            return write_json(value)


def _declaration(function: dict[str, Any]) -> str:
    text = f"declaration:{_safe(function.get('name') or '')}{{description:{_text(function.get('description') or '')}"
    parameters = function.get("parameters")
    if isinstance(parameters, dict) and parameters:
        text += f",parameters:{{{','.join(_parameters(parameters))}}}"
    if "response" in function:
        text += f",response:{{{','.join(_response(function['response']))}}}"
    return text + "}"


def _parameters(schema: dict[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        yield f"properties:{{{_properties(properties)}}}"
    if schema.get("required"):
        yield f"required:{_texts(schema['required'])}"
    if schema.get("type"):
        yield f"type:{_text(str(schema['type']).upper())}"


def _response(schema: Any) -> Iterator[str]:
    schema = schema if isinstance(schema, dict) else {}
    if schema.get("description"):
        yield f"description:{_text(schema['description'])}"
    if str(schema.get("type") or "").upper() == "OBJECT":
        yield f"type:{_text('OBJECT')}"


def _properties(properties: dict[str, Any], leave_out: frozenset[str] = frozenset()) -> str:
    return ",".join(
        f"{_safe(name)}:{{{','.join(_property(schema if isinstance(schema, dict) else {}))}}}"
        for name, schema in _sorted(properties)
        if name not in leave_out
    )


_OWN = frozenset({"description", "type", "properties", "required", "nullable"})


def _property(schema: dict[str, Any]) -> Iterator[str]:
    kind = str(schema.get("type") or "").upper()
    if schema.get("description"):
        yield f"description:{_text(schema['description'])}"
    if kind == "STRING" and schema.get("enum"):
        yield f"enum:{_value(schema['enum'])}"
    if kind == "ARRAY" and isinstance(schema.get("items"), dict) and schema["items"]:
        yield f"items:{{{','.join(_items(schema['items']))}}}"
    if schema.get("nullable"):
        yield "nullable:true"
    if kind == "OBJECT":
        inner = schema.get("properties")
        # Without properties of its own, other keys of the schema are read as such.
        yield f"properties:{{{_properties(inner) if isinstance(inner, dict) else _properties(schema, _OWN)}}}"
        if schema.get("required"):
            yield f"required:{_texts(schema['required'])}"
    yield f"type:{_text(kind)}"


def _items(schema: dict[str, Any]) -> Iterator[str]:
    for key, value in _sorted(schema):
        if value is None:
            continue
        match key:
            case "properties":
                yield f"properties:{{{_properties(value) if isinstance(value, dict) else ''}}}"
            case "required":
                yield f"required:{_texts(value)}"
            case "type":
                kinds = value.upper() if isinstance(value, str) else [str(each).upper() for each in value]
                yield f"type:{_value(kinds)}"
            case _:
                yield f"{_safe(key)}:{_value(value)}"
