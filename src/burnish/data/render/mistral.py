"""Mistral's third form, as Nemo has it: `[INST]`, the question, `[/INST]`, the answer, `</s>`, without a space between.

What the system turn says and the schemas of tools stand at the last question, wherever that is. So an earlier answer
was given to another text than the one which a whole conversation puts before it, and is trained apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from burnish.data.conversations import Conversation, Message, RowFault, ToolCall
from burnish.data.json_text import write_json
from burnish.data.render.answers import NineLetterIds
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning, refuse_text_beside_calls
from burnish.spec.train import LossMask

BOS, END, ASKS, ASKED = "<s>", "</s>", "[INST]", "[/INST]"
NOTHING = LossMask(assistant=False)


@dataclass(frozen=True)
class Mistral:
    name: str = "mistral"
    end_of_turn: str = END
    needs: tuple[str, ...] = (BOS, END, ASKS, ASKED)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages = conversation.messages
        refuse_reasoning(messages, self.name)
        self._check_order(messages)
        last, ids = _last_question(messages), NineLetterIds()
        pieces = [control(BOS)]
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if message.role == "user":
                if place == last:
                    pieces += _schemas(conversation)
                    pieces += _question(message, trained, messages[0], loss_mask)
                else:
                    pieces += _question(message, trained)
            elif message.role == "tool":
                pieces += _result(message, trained, ids.of_result(message))
            elif message.tool_calls:
                refuse_text_beside_calls(message, self.name)
                pieces += _calls(message.tool_calls, trained, ids)
            elif message.role == "assistant":
                pieces += [words(message.content, "assistant", trained), control(END, "assistant", trained)]
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return self.write(Conversation(messages), NOTHING)

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        if not conversation.tools and messages[0].role != "system":
            return History()
        before = enumerate(messages[: max(_last_question(messages), 0)])
        return History(askew=tuple(place for place, message in before if message.role == "assistant"))

    def _check_order(self, messages: tuple[Message, ...]) -> None:
        asked = False
        for place, message in enumerate(messages):
            if message.role == "system":
                if place:
                    raise RowFault(f"messages[{place}] is a system turn, and `{self.name}` has one at the start alone")
            elif message.role != "tool" and not message.tool_calls:
                if asked == (message.role == "user"):
                    raise RowFault(
                        f"messages[{place}] is of the {message.role}, where `{self.name}` has the other speak: "
                        "user and assistant take turns"
                    )
                asked = not asked


def _last_question(messages: tuple[Message, ...]) -> int:
    places = (place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "user")
    return next(places, -1)


def _question(
    message: Message, trained: bool, first: Message | None = None, loss_mask: LossMask = NOTHING
) -> list[Piece]:
    pieces = [control(ASKS, "user")]
    if first and first.role == "system":
        if not trained and not is_trained(first, loss_mask):
            pieces.append(words(f"{first.content}\n\n{message.content}", "user", False))
            return [*pieces, control(ASKED, "user")]
        pieces += [words(first.content, "system", is_trained(first, loss_mask)), control("\n\n", "user")]
    return [*pieces, words(message.content, "user", trained), control(ASKED, "user")]


def _schemas(conversation: Conversation) -> list[Piece]:
    if not conversation.tools:
        return []
    listed = ", ".join(map(_schema, conversation.tools))
    return [
        control("[AVAILABLE_TOOLS]", "user"),
        words(f"[{listed}]", "user", False),
        control("[/AVAILABLE_TOOLS]", "user"),
    ]


def _schema(tool: dict[str, Any]) -> str:
    function = tool.get("function", tool)
    return f'{{"type": "function", "function": {{{", ".join(_fields(function))}}}}}'


def _fields(function: dict[str, Any]) -> Iterator[str]:
    """Of text the family's template writes the letters alone, quotes and newlines unescaped."""
    for key, value in function.items():
        if key != "return":
            yield f'"{key}": "{value}"' if isinstance(value, str) else f'"{key}": {write_json(value)}'


def _calls(calls: tuple[ToolCall, ...], trained: bool, ids: NineLetterIds) -> list[Piece]:
    listed = ", ".join(
        f'{{"name": {write_json(call.name)}, "arguments": {write_json(call.arguments)}, "id": "{ids.of_call(call)}"}}'
        for call in calls
    )
    return [
        control("[TOOL_CALLS]", "assistant", trained),
        words(f"[{listed}]", "assistant", trained),
        control(END, "assistant", trained),
    ]


def _result(message: Message, trained: bool, call_id: str) -> list[Piece]:
    before, after = '{"content": ', f', "call_id": "{call_id}"}}'
    opens, closes = control("[TOOL_RESULTS]", "tool"), control("[/TOOL_RESULTS]", "tool")
    if not trained:
        return [opens, words(before + message.content + after, "tool", False), closes]
    return [opens, control(before, "tool"), words(message.content, "tool", True), control(after, "tool"), closes]
