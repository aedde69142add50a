"""Qwen3: ChatML with a think block in the last answer, thoughts taken out of earlier ones, and tools."""

import json
from dataclasses import dataclass
from typing import Any

from burnish.data.conversations import Conversation, Message, ToolCall
from burnish.data.render.chatml import END, HEADER, NEWLINE, NOTHING, START, plain_turn, turn_end
from burnish.data.render.pieces import Piece, is_trained
from burnish.spec.train import LossMask

TOOLS_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
TOOLS_AFTER = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call>"
)


@dataclass(frozen=True)
class Qwen3:
    enable_thinking: bool = True
    """Off, an answer without thoughts follows an empty block that the prompt already holds."""
    name: str = "qwen3"
    end_of_turn: str = END

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages, pieces = conversation.messages, self._opening(conversation, loss_mask)
        last_query = _last_query(messages)
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                last = place == len(messages) - 1
                pieces += self._answer(message, trained, thinks=place > last_query, last=last)
            elif message.role == "tool":
                pieces += _tool_result(messages, place, trained)
            elif message.role == "user" or place:
                pieces += plain_turn(message.role, message.content, trained)
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        pieces = [*self.write(Conversation(messages), NOTHING), HEADER]
        return pieces if self.enable_thinking else [*pieces, *_thoughts("", "", False, prompted=True)]

    def _opening(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        first = conversation.messages[0]
        words = first.content if first.role == "system" else None
        trained = words is not None and is_trained(first, loss_mask)
        if not conversation.tools:
            return [] if words is None else plain_turn("system", words, trained)
        tools = "".join("\n" + _json(tool) for tool in conversation.tools)
        return [
            Piece(f"{START}system\n", False, control=True),
            *([] if words is None else [Piece(f"{words}\n\n", trained)]),
            Piece(TOOLS_BEFORE, False, control=True),
            Piece(tools, False),
            Piece(TOOLS_AFTER, False, control=True),
            *turn_end(False),
        ]

    def _answer(self, message: Message, trained: bool, *, thinks: bool, last: bool) -> list[Piece]:
        thoughts, content = _split_thoughts(message)
        pieces = [HEADER]
        if thinks and (last or thoughts):
            # Where thinking is off, the empty block belongs to the prompt and is not for the model to say.
            prompted = not self.enable_thinking and not thoughts.strip("\n")
            pieces += _thoughts(thoughts.strip("\n"), content.lstrip("\n"), trained, prompted=prompted)
        else:
            pieces.append(Piece(content, trained))
        for number, call in enumerate(message.tool_calls):
            pieces += _call(call, trained, after_text=bool(number or content))
        return [*pieces, *turn_end(trained)]


def _thoughts(thoughts: str, answer: str, trained: bool, *, prompted: bool) -> list[Piece]:
    block = [
        Piece("<think>", trained and not prompted, control=True),
        Piece(f"\n{thoughts}\n", trained and not prompted),
        Piece("</think>", trained and not prompted, control=True),
    ]
    if prompted:
        return [*block, Piece("\n\n", False), Piece(answer, trained)]
    return [*block, Piece(f"\n\n{answer}", trained)]


def _call(call: ToolCall, trained: bool, *, after_text: bool) -> list[Piece]:
    return [
        Piece("\n" if after_text else "", trained),
        Piece("<tool_call>", trained, control=True),
        Piece(f'\n{{"name": "{call.name}", "arguments": {_json(call.arguments)}}}\n', trained),
        Piece("</tool_call>", trained, control=True),
    ]


def _split_thoughts(message: Message) -> tuple[str, str]:
    content = message.content
    if message.reasoning is not None:
        return message.reasoning, content
    if "</think>" not in content:
        return "", content
    thoughts = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
    return thoughts, content.split("</think>")[-1].lstrip("\n")


def _last_query(messages: tuple[Message, ...]) -> int:
    """The place of the last real question; a tool's result in a user's turn is none."""
    for place in range(len(messages) - 1, -1, -1):
        content = messages[place].content
        if messages[place].role == "user" and not (
            content.startswith("<tool_response>") and content.endswith("</tool_response>")
        ):
            return place
    return len(messages) - 1


def _tool_result(messages: tuple[Message, ...], place: int, trained: bool) -> list[Piece]:
    """Results in a row share one user turn."""
    opens = place == 0 or messages[place - 1].role != "tool"
    closes = place == len(messages) - 1 or messages[place + 1].role != "tool"
    return [
        *([Piece(f"{START}user", False, control=True)] if opens else []),
        NEWLINE,
        Piece("<tool_response>", False, control=True),
        *_body("\n", messages[place].content, "\n", trained),
        Piece("</tool_response>", False, control=True),
        *(turn_end(False) if closes else []),
    ]


def _body(before: str, text: str, after: str, trained: bool) -> list[Piece]:
    if not trained:
        return [Piece(before + text + after, False)]
    return [Piece(before, False), Piece(text, True), Piece(after, False)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
