"""The model's own chat template, whatever it is, with a mask: from its generation markers, else by prefix.

A turn is trained from where a prompt up to it would end to the control token that closes it. Where the template
rewrites earlier text, so that the prompt is no prefix, the row is refused rather than masked askew.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from burnish.data.conversations import Conversation, Message, RowFault, ToolCall
from burnish.data.json_text import write_json
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.thinking import split_thoughts
from burnish.data.render.vocabulary import Vocabulary
from burnish.errors import ModelError
from burnish.spec.train import LossMask

# Unicode sets these aside for a program's own use inside a process; no text holds them.
_SHIELD, _SHIELD_END, _TRAINED, _TRAINED_END = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
_SHIELDED = re.compile(f"{_SHIELD}([0-9]+){_SHIELD_END}")
_FENCE, _FENCE_END = "\ufdd4", "\ufdd5"
_FENCES = re.compile(f"({_FENCE}(?:[0-9]+{_FENCE_END})?)")
_OPENS = re.compile(f"{_FENCE}([0-9]+){_FENCE_END}")
_OWN = re.compile("[\ufdd0-\ufdd5]")
_PROBE = "Probe"

Span = tuple[int, int]


class _Seen(NamedTuple):
    """What a template made of a conversation."""

    text: str
    """Shielded."""
    spans: dict[int, Span]
    """Where the words of each message stand, as far as that can be told."""
    history: History


class _Turn(NamedTuple):
    span: Span
    role: str
    trained: bool


class TemplateScript:
    """One template; `variables` are the model's `bos_token` and its like."""

    name = "auto"
    needs = ()
    shows_images = False

    def __init__(self, source: str, vocabulary: Vocabulary, variables: dict[str, str]) -> None:
        self._vocabulary = vocabulary
        self._variables = variables
        self._template = _compile(source)
        self._last: tuple[Conversation, _Seen] | None = None
        self._marks_turns = re.search(r"\{%-?\s*generation\b", source) is not None
        self.end_of_turn = self._find_end_of_turn()

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        if self.end_of_turn is None:
            raise RowFault("the model's chat template does not close the assistant's turn with a control token")
        seen = self._look(conversation)
        messages = conversation.messages
        turns = []
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if trained and place in seen.history.askew:
                raise RowFault(
                    "the model's chat template writes a turn otherwise once others follow it, "
                    "so what is trained cannot be told"
                )
            if trained and place not in seen.spans:
                raise RowFault(f"the text of messages[{place}] cannot be told from the rest, so it cannot be trained")
            if place in seen.spans:
                turns.append(_Turn(seen.spans[place], message.role, trained))
        if messages[-1].role == "assistant" and len(messages) - 1 in seen.history.thoughtless:
            raise RowFault("reasoning_content is not rendered by the model's chat template")
        return list(self._pieces(seen.text, turns))

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        text, _ = self._render(self._shield(Conversation(messages)), prompt=True)
        return list(self._pieces(text, []))

    def history(self, conversation: Conversation) -> History:
        return self._look(conversation).history

    def text(self, conversation: Conversation, *, prompt: bool) -> str:
        """What the template makes of it, as text."""
        return self._unshield(self._render(self._shield(conversation), prompt=prompt)[0])

    def _render(self, conversation: Conversation, *, prompt: bool) -> tuple[str, list[Span]]:
        """The rendered text, and what its generation markers enclose."""
        try:
            marked = self._template.render(
                messages=[_as_dict(message) for message in conversation.messages],
                tools=list(conversation.tools) or None,
                documents=None,
                add_generation_prompt=prompt,
                **self._variables,
            )
        except Exception as error:  # a template is a program of the model's, and fails as it likes
            raise RowFault(f"the model's chat template refuses the row ({error})") from error
        return _take_marks(marked)

    def _look(self, conversation: Conversation) -> "_Seen":
        """Asked twice of one conversation, the template answers once."""
        if self._last is None or self._last[0] is not conversation:
            self._last = (conversation, self._see(conversation))
        return self._last[1]

    def _see(self, conversation: Conversation) -> "_Seen":
        shielded = self._shield(conversation)
        text, marked = self._render(shielded, prompt=False)
        _check_kept(conversation, self._unshield(text))
        answers = self._marked_spans(shielded, text, marked) if self._marks_turns else self._spans(shielded, text)
        told = [place for place, message in enumerate(conversation.messages) if message.role == "assistant"]
        askew = tuple(place for place in told if place not in answers)
        spans = self._other_spans(shielded, text) | answers
        lost = self._lost_thoughts(shielded)
        thoughtless = tuple(place for place in answers if place in lost)
        return _Seen(text, spans, History(thoughtless, askew))

    def _spans(self, conversation: Conversation, text: str) -> dict[int, Span]:
        """Where each assistant turn stands that is preceded by exactly its prompt."""
        spans = {}
        for place, message in enumerate(conversation.messages):
            if message.role != "assistant" or not place:
                continue
            before = Conversation(conversation.messages[:place], tools=conversation.tools)
            prompt = self._render(before, prompt=True)[0]
            if text.startswith(prompt):
                spans[place] = (len(prompt), self._end_after(text, len(prompt)))
        return spans

    def _lost_thoughts(self, conversation: Conversation) -> set[int]:
        """Turns whose thoughts the template leaves out: with marks in their place, no mark is to be seen."""
        marked = {
            place: _marked_thoughts(place, message)
            for place, message in enumerate(conversation.messages)
            if message.role == "assistant" and split_thoughts(message)[0].strip()
        }
        if not marked:
            return set()
        messages = tuple(marked.get(place, message) for place, message in enumerate(conversation.messages))
        text, _ = self._render(replace(conversation, messages=messages), prompt=False)
        return {place for place in marked if _fence(place) not in text}

    def _other_spans(self, conversation: Conversation, text: str) -> dict[int, Span]:
        """Where the words of system, user and tool stand, found by fencing them in."""
        messages = tuple(
            message if message.role == "assistant" else replace(message, content=_fenced(place, message.content))
            for place, message in enumerate(conversation.messages)
        )
        try:
            fenced, _ = self._render(replace(conversation, messages=messages), prompt=False)
        except RowFault:
            return {}
        return _fenced_spans(fenced, text)

    def _marked_spans(self, conversation: Conversation, text: str, marked: list[Span]) -> dict[int, Span]:
        answers = [place for place, message in enumerate(conversation.messages) if message.role == "assistant"]
        if len(marked) != len(answers):
            raise RowFault("the model's chat template marks another number of turns than the row has")
        end = self.end_of_turn or ""
        stops = [stop + len(end) if text.startswith(end, stop) else stop for _, stop in marked]
        return {place: (start, stop) for place, (start, _), stop in zip(answers, marked, stops, strict=True)}

    def _end_after(self, text: str, start: int) -> int:
        assert self.end_of_turn is not None
        found = text.find(self.end_of_turn, start)
        if found < 0:
            raise RowFault("the model's chat template leaves an assistant's turn open")
        return found + len(self.end_of_turn)

    def _pieces(self, text: str, turns: list["_Turn"]) -> Iterator[Piece]:
        place = 0
        for (start, stop), role, trained in sorted(turns):
            yield from self._split_control(text[place:start], "", False)
            yield from self._split_control(text[start:stop], role, trained)
            place = stop
        yield from self._split_control(text[place:], "", False)

    def _split_control(self, text: str, role: str, trained: bool) -> Iterator[Piece]:
        place = 0
        for found in self._vocabulary.control_pattern.finditer(text):
            if found.start() > place:
                yield words(self._unshield(text[place : found.start()]), role, trained)
            yield control(found.group(), role, trained)
            place = found.end()
        if place < len(text):
            yield words(self._unshield(text[place:]), role, trained)

    def _shield(self, conversation: Conversation) -> Conversation:
        """The conversation with every control token in its text hidden from the template and from the splitting."""
        numbers = self._vocabulary.control_tokens

        def hide(text: str) -> str:
            if _OWN.search(text):
                raise RowFault("the text holds noncharacters (U+FDD0 to U+FDD5)")
            return self._vocabulary.control_pattern.sub(
                lambda found: f"{_SHIELD}{numbers[found.group()]}{_SHIELD_END}", text
            )

        messages = tuple(
            replace(
                message,
                content=hide(message.content),
                reasoning=None if message.reasoning is None else hide(message.reasoning),
                tool_calls=tuple(
                    ToolCall(hide(call.name), _each_text(call.arguments, hide), hide(call.id))
                    for call in message.tool_calls
                ),
                call_id=hide(message.call_id),
                tool_name=hide(message.tool_name),
            )
            for message in conversation.messages
        )
        return replace(conversation, messages=messages, tools=_each_text(conversation.tools, hide))

    def _unshield(self, text: str) -> str:
        return _SHIELDED.sub(lambda found: self._vocabulary.token_of(int(found.group(1))) or "", text)

    def _find_end_of_turn(self) -> str | None:
        asked = Message("user", "Question")
        try:
            text, _ = self._render(Conversation((asked, Message("assistant", _PROBE))), prompt=False)
        except RowFault:
            return None
        found = self._vocabulary.control_pattern.search(text, text.rfind(_PROBE) + len(_PROBE))
        return found.group() if found else None


class GenerationMarks(jinja2.ext.Extension):
    """`{% generation %} ... {% endgeneration %}`, as transformers has it: encloses what the assistant says."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's own form)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_enclose"), [], [], body).set_lineno(line)

    def _enclose(self, caller: Callable[[], str]) -> str:
        return f"{_TRAINED}{caller()}{_TRAINED_END}"


def _compile(source: str) -> jinja2.Template:
    """As transformers compiles a chat template, without the clock: what is trained does not hang on the day."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationMarks, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    try:
        return environment.from_string(source)
    except (jinja2.TemplateSyntaxError, RecursionError) as error:
        raise ModelError(
            f"The model's chat template cannot be read ({error}).",
            hint='Mend it, or name a renderer: [renderer] name = "chatml".',
        ) from error


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return write_json(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _as_dict(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            | ({"id": call.id} if call.id else {})
            for call in message.tool_calls
        ]
    if message.call_id:
        turn["tool_call_id"] = message.call_id
    if message.tool_name:
        turn["name"] = message.tool_name
    return turn


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {_each_text(key, change): _each_text(inner, change) for key, inner in value.items()}
        case list() | tuple():
            return type(value)(_each_text(inner, change) for inner in value)
        case _:
            return value


def _take_marks(marked: str) -> tuple[str, list[Span]]:
    """The text without the marks, and the spans they enclosed."""
    text, spans, start = "", [], 0
    for part in re.split(f"([{_TRAINED}{_TRAINED_END}])", marked):
        if part == _TRAINED:
            start = len(text)
        elif part == _TRAINED_END:
            spans.append((start, len(text)))
        else:
            text += part
    return text, spans


def _fence(place: int) -> str:
    return f"{_FENCE}{place}{_FENCE_END}"


def _marked_thoughts(place: int, message: Message) -> Message:
    if message.reasoning is not None:
        return replace(message, reasoning=_fence(place))
    thoughts = split_thoughts(message)[0].strip()
    said = message.content.index("</think>")
    before = message.content[:said].rindex(thoughts)
    return replace(
        message, content=message.content[:before] + _fence(place) + message.content[before + len(thoughts) :]
    )


def _fenced(place: int, content: str) -> str:
    """The words with a fence around them, inside the space that templates strip."""
    said = content.strip()
    if not said:
        return content
    start = content.index(said)
    return f"{content[:start]}{_fence(place)}{said}{_FENCE}{content[start + len(said) :]}"


def _fenced_spans(fenced: str, text: str) -> dict[int, Span]:
    """Where fenced words stand in the text; none where the fences changed more than they enclose."""
    spans: dict[int, Span] = {}
    plain, opened = "", None
    for part in _FENCES.split(fenced):
        if opens := _OPENS.fullmatch(part):
            opened = (int(opens[1]), len(plain))
        elif part == _FENCE:
            if opened:
                spans[opened[0]] = (opened[1], len(plain))
        else:
            plain += part
    return spans if plain == text else {}


def _check_kept(conversation: Conversation, text: str) -> None:
    """Refuse a row of which the template would silently leave something out."""
    for tool in conversation.tools:
        if str((tool.get("function") or tool).get("name")) not in text:
            raise RowFault("tools are not rendered by the model's chat template")
    for place, message in enumerate(conversation.messages):
        if any(call.name not in text for call in message.tool_calls):
            raise RowFault("tool calls are not rendered by the model's chat template")
        if "</think>" not in message.content and message.content.strip() not in text:
            raise RowFault(f"the model's chat template leaves out text of messages[{place}]")
