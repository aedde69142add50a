"""The model's own chat template, whatever it is, with a mask: from its generation markers, else by prefix.

A turn is trained from where a prompt up to it would end to the control token that closes it. Where the template
rewrites earlier text, so that the prompt is no prefix, the row is refused rather than masked askew.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from burnish.data.conversations import Conversation, Message, RowFault, ToolCall
from burnish.data.json_text import write_json
from burnish.data.render.answers import NineLetterIds
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


class _Manner(NamedTuple):
    """How calls of tools are handed to a template; templates differ in what they take."""

    null_content: bool = False
    """Nothing said beside a call is null, not an empty text."""
    json_text: bool = False
    """Arguments as JSON text, not as an object."""
    numbered: bool = False
    """Ids of nine letters."""


_MANNERS = tuple(_Manner(*flags) for flags in product((False, True), repeat=3))
_CLOCK = datetime(2024, 7, 26)
"""What a template that asks for the day is told, each day: no day may train other tokens than another."""


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
        self._leaves_open = False
        """Whether the last answer is left without the token that ends earlier ones."""
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
        shielded, faults = self._shield(Conversation(messages)), []
        for manner in _manners(shielded):
            try:
                return list(self._pieces(self._render(shielded, prompt=True, manner=manner)[0], []))
            except RowFault as fault:
                faults.append(fault)
        raise faults[0]

    def history(self, conversation: Conversation) -> History:
        return self._look(conversation).history

    def text(self, conversation: Conversation, *, prompt: bool) -> str:
        """What the template makes of it, as text."""
        return self._unshield(self._render(self._shield(conversation), prompt=prompt)[0])

    def _render(
        self, conversation: Conversation, *, prompt: bool, manner: _Manner = _MANNERS[0]
    ) -> tuple[str, list[Span]]:
        """The rendered text, and what its generation markers enclose."""
        messages = _with_numbers(conversation.messages) if manner.numbered else conversation.messages
        try:
            marked = self._template.render(
                messages=[_as_dict(message, manner) for message in messages],
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
        faults: list[RowFault] = []
        for manner in _manners(conversation):
            try:
                return self._see_as(shielded, manner)
            except RowFault as fault:
                faults.append(fault)
        raise faults[0]

    def _see_as(self, conversation: Conversation, manner: _Manner) -> "_Seen":
        text, marked = self._render(conversation, prompt=False, manner=manner)
        if self._leaves_open and conversation.messages[-1].role == "assistant":
            text += self.end_of_turn or ""
        fenced = self._fenced(conversation, manner)
        _check_kept(conversation, text, fenced)
        others = {} if fenced is None else _fenced_spans(fenced, text, len(conversation.messages))
        if self._marks_turns:
            answers = self._marked_spans(conversation, text, marked)
        else:
            answers = self._spans(conversation, text, manner)
        answers = {place: span for place, span in answers.items() if not _reaches(span, place, others)}
        told = [place for place, message in enumerate(conversation.messages) if message.role == "assistant"]
        askew = tuple(place for place in told if place not in answers)
        spans = {place: span for place, span in others.items() if place not in told} | answers
        lost = self._lost_thoughts(conversation, manner)
        thoughtless = tuple(place for place in answers if place in lost)
        return _Seen(text, spans, History(thoughtless, askew))

    def _spans(self, conversation: Conversation, text: str, manner: _Manner) -> dict[int, Span]:
        """Where each assistant turn stands that is preceded by exactly its prompt."""
        spans = {}
        for place, message in enumerate(conversation.messages):
            if message.role != "assistant" or not place:
                continue
            prompt = self._render(_first(conversation, place), prompt=True, manner=manner)[0]
            if text.startswith(prompt):
                if self._is_open(conversation, place, prompt, manner):
                    continue
                spans[place] = (len(prompt), self._end_after(text, len(prompt)))
        return spans

    def _is_open(self, conversation: Conversation, place: int, prompt: str, manner: _Manner) -> bool:
        """Whether a call is not closed before its result, which would be trained as if it were said."""
        messages = conversation.messages
        if place + 1 == len(messages) or messages[place + 1].role != "tool":
            return False
        alone = self._render(_first(conversation, place + 1), prompt=False, manner=manner)[0]
        return alone.startswith(prompt) and (self.end_of_turn or "") not in alone[len(prompt) :]

    def _lost_thoughts(self, conversation: Conversation, manner: _Manner) -> set[int]:
        """Turns whose thoughts the template leaves out: with marks in their place, no mark is to be seen."""
        marked = {
            place: _marked_thoughts(place, message)
            for place, message in enumerate(conversation.messages)
            if message.role == "assistant" and split_thoughts(message)[0].strip()
        }
        if not marked:
            return set()
        messages = tuple(marked.get(place, message) for place, message in enumerate(conversation.messages))
        text, _ = self._render(replace(conversation, messages=messages), prompt=False, manner=manner)
        return {place for place in marked if _fence(place) not in text}

    def _fenced(self, conversation: Conversation, manner: _Manner) -> str | None:
        """The text with each message's words fenced in; None where the template does not take fences.

        Thoughts between marks are the template's to move, so a message that has any stays without.
        """
        number, messages = len(conversation.messages), []
        for place, message in enumerate(conversation.messages):
            messages.append(_fenced(place, number, message))
            number += len(message.tool_calls)
        try:
            text, _ = self._render(replace(conversation, messages=tuple(messages)), prompt=False, manner=manner)
        except RowFault:
            return None
        if self._leaves_open and conversation.messages[-1].role == "assistant":
            text += self.end_of_turn or ""
        return text

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
        """Cut where what is trained begins and ends, and no more: a text and what is around it may share tokens."""
        place = 0
        context: list[_Turn] = []
        for turn in sorted(turns):
            if not turn.trained and turn.role != "assistant":
                context.append(turn)
                continue
            start, stop = turn.span
            yield from self._split_control(text, place, start, context)
            yield from self._split_control(text, start, stop, [turn])
            place, context = stop, []
        yield from self._split_control(text, place, len(text), context)

    def _split_control(self, text: str, start: int, stop: int, turns: list["_Turn"]) -> Iterator[Piece]:
        """A part of the text, in which `turns` stand; a piece is of the first turn that it touches."""
        place = start
        for found in self._vocabulary.control_pattern.finditer(text, start, stop):
            if found.start() > place:
                role, trained = _whose(turns, place, found.start())
                yield words(self._unshield(text[place : found.start()]), role, trained)
            yield control(found.group(), *_whose(turns, found.start(), found.end()))
            place = found.end()
        if place < stop:
            yield words(self._unshield(text[place:stop]), *_whose(turns, place, stop))

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
        asked, again = Message("user", "Question"), Message("user", "Again")
        exchange = (asked, Message("assistant", _PROBE))
        if end := self._control_behind_probe(exchange):
            return end
        # Earlier answers may be closed where the last is not. But what opens the next turn closes none.
        end = self._control_behind_probe((*exchange, again))
        try:
            before = self._render(Conversation((asked,)), prompt=False)[0].split("Question")[0]
        except RowFault:
            return None
        if end is None or (end in before and end != self._variables.get("eos_token")):
            return None
        self._leaves_open = True
        return end

    def _control_behind_probe(self, messages: tuple[Message, ...]) -> str | None:
        try:
            text, _ = self._render(Conversation(messages), prompt=False)
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
    """As transformers compiles a chat template, with a clock that stands still."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationMarks, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = write_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _CLOCK.strftime
    try:
        return environment.from_string(source)
    except (jinja2.TemplateSyntaxError, RecursionError) as error:
        raise ModelError(
            f"The model's chat template cannot be read ({error}).",
            hint='Mend it, or name a renderer: [renderer] name = "chatml".',
        ) from error


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _as_dict(message: Message, manner: _Manner) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [_call_as_dict(call, manner) for call in message.tool_calls]
        if manner.null_content and not message.content:
            turn["content"] = None
    if message.call_id:
        turn["tool_call_id"] = message.call_id
    if message.tool_name:
        turn["name"] = message.tool_name
    return turn


def _call_as_dict(call: ToolCall, manner: _Manner) -> dict[str, Any]:
    arguments = write_json(call.arguments) if manner.json_text else call.arguments
    called = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return called | ({"id": call.id} if call.id else {})


def _manners(conversation: Conversation) -> tuple[_Manner, ...]:
    """Those to be tried in turn: one where nothing is called."""
    return _MANNERS if any(message.tool_calls for message in conversation.messages) else _MANNERS[:1]


def _with_numbers(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    ids, made = NineLetterIds(), []
    for message in messages:
        if message.tool_calls:
            calls = tuple(call._replace(id=ids.of_call(call)) for call in message.tool_calls)
            made.append(replace(message, tool_calls=calls))
        else:
            made.append(replace(message, call_id=ids.of_result(message)) if message.role == "tool" else message)
    return tuple(made)


def _first(conversation: Conversation, count: int) -> Conversation:
    return replace(conversation, messages=conversation.messages[:count])


def _whose(turns: list[_Turn], start: int, stop: int) -> tuple[str, bool]:
    """Role, and whether it is trained, of the turn that a part of the text touches."""
    for (first, last), role, trained in turns:
        if first < stop and start < last:
            return role, trained
    return "", False


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


def _fenced(place: int, number: int, message: Message) -> Message:
    """The words, and from `number` on the names of what is called, in fences inside the space that templates strip."""
    calls = tuple(
        call._replace(name=f"{_fence(number + at)}{call.name}{_FENCE}") for at, call in enumerate(message.tool_calls)
    )
    content = message.content
    said = content.strip()
    if said and not (message.role == "assistant" and "</think>" in content):
        start = content.index(said)
        content = f"{content[:start]}{_fence(place)}{said}{_FENCE}{content[start + len(said) :]}"
    return replace(message, content=content, tool_calls=calls)


def _fenced_spans(fenced: str, text: str, count: int) -> dict[int, Span]:
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
    return {place: span for place, span in spans.items() if place < count} if plain == text else {}


def _reaches(span: Span, place: int, others: dict[int, Span]) -> bool:
    """Whether a turn would end only where a later one has begun: nothing closes it before."""
    return any(span[0] < start < span[1] for later, (start, _) in others.items() if later > place)


def _check_kept(conversation: Conversation, text: str, fenced: str | None) -> None:
    """Refuse a row of which the template would silently leave something out."""
    for tool in conversation.tools:
        if str((tool.get("function") or tool).get("name")) not in text:
            raise RowFault("tools are not rendered by the model's chat template")
    number = len(conversation.messages)
    for place, message in enumerate(conversation.messages):
        for call in message.tool_calls:
            if call.name not in text or (fenced is not None and _fence(number) not in fenced):
                raise RowFault("tool calls are not rendered by the model's chat template")
            number += 1
        said = message.content.strip()
        if not said or "</think>" in said:
            continue
        # Results of tools may be written as JSON.
        written = said in text or write_json(said)[1:-1] in text
        if not written or (fenced is not None and _fence(place) not in fenced):
            raise RowFault(f"the model's chat template leaves out text of messages[{place}]")
