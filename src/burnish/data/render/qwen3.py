"""Qwen3: ChatML with a think block in the last answer, thoughts taken out of earlier ones, and tools."""

import json
from dataclasses import dataclass
from typing import Any

from burnish.data.conversations import Conversation, Message, ToolCall
from burnish.data.render.chatml import END, HEADER, NOTHING, START, plain_turn, turn_end
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.thinking import last_query, split_thoughts, thoughts_before
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
    needs: tuple[str, ...] = (START, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages, pieces = conversation.messages, self._opening(conversation, loss_mask)
        query = last_query(messages)
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                last = place == len(messages) - 1
                pieces += self._answer(message, trained, thinks=place > query, last=last)
            elif message.role == "tool":
                pieces += _tool_result(messages, place, trained)
            elif message.role == "user" or place:
                pieces += plain_turn(message.role, message.content, trained)
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        pieces = [*self.write(Conversation(messages), NOTHING), HEADER]
        return pieces if self.enable_thinking else [*pieces, *_thoughts("", "", False, prompted=True)]

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        return History(thoughtless=thoughts_before(messages, last_query(messages)))

    def _opening(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        first = conversation.messages[0]
        said = first.content if first.role == "system" else None
        trained = said is not None and is_trained(first, loss_mask)
        if not conversation.tools:
            return [] if said is None else plain_turn("system", said, trained)
        tools = "".join("\n" + _json(tool) for tool in conversation.tools)
        return [
            control(f"{START}system\n", "system"),
            *([] if said is None else [words(f"{said}\n\n", "system", trained)]),
            control(TOOLS_BEFORE, "system"),
            words(tools, "system", False),
            control(TOOLS_AFTER, "system"),
            *turn_end("system", False),
        ]

    def _answer(self, message: Message, trained: bool, *, thinks: bool, last: bool) -> list[Piece]:
        thoughts, content = split_thoughts(message)
        pieces = [HEADER]
        if thinks and (last or thoughts):
            # Where thinking is off, the empty block belongs to the prompt and is not for the model to say.
            prompted = not self.enable_thinking and not thoughts.strip("\n")
            pieces += _thoughts(thoughts.strip("\n"), content.lstrip("\n"), trained, prompted=prompted)
        else:
            pieces.append(words(content, "assistant", trained))
        for number, call in enumerate(message.tool_calls):
            pieces += _call(call, trained, after_text=bool(number or content))
        return [*pieces, *turn_end("assistant", trained)]


def _thoughts(thoughts: str, answer: str, trained: bool, *, prompted: bool) -> list[Piece]:
    said = trained and not prompted
    block = [
        control("<think>", "assistant", said),
        words(f"\n{thoughts}\n", "assistant", said),
        control("</think>", "assistant", said),
    ]
    if prompted:
        return [*block, words("\n\n", "assistant", False), words(answer, "assistant", trained)]
    return [*block, words(f"\n\n{answer}", "assistant", trained)]


def _call(call: ToolCall, trained: bool, *, after_text: bool) -> list[Piece]:
    called = f'\n{{"name": "{call.name}", "arguments": {_json(call.arguments)}}}\n'
    return [
        words("\n" if after_text else "", "assistant", trained),
        control("<tool_call>", "assistant", trained),
        words(called, "assistant", trained),
        control("</tool_call>", "assistant", trained),
    ]


def _tool_result(messages: tuple[Message, ...], place: int, trained: bool) -> list[Piece]:
    """Results in a row share one user turn."""
    opens = place == 0 or messages[place - 1].role != "tool"
    closes = place == len(messages) - 1 or messages[place + 1].role != "tool"
    return [
        *([control(f"{START}user", "tool")] if opens else []),
        control("\n", "tool"),
        control("<tool_response>", "tool"),
        *_body("\n", messages[place].content, "\n", trained),
        control("</tool_response>", "tool"),
        *(turn_end("tool", False) if closes else []),
    ]


def _body(before: str, text: str, after: str, trained: bool) -> list[Piece]:
    if not trained:
        return [words(before + text + after, "tool", False)]
    return [words(before, "tool", False), words(text, "tool", True), words(after, "tool", False)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
