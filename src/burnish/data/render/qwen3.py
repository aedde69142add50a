"""Qwen3: ChatML with a think block in the last answer, thoughts taken out of earlier ones, and tools.

Held against the model's own template in transformers and against `renderers` 0.1.12. Where thinking is off, an empty
think block stands in every answer without thoughts, as in that package: each prompt held one (the template forgets
it in earlier turns). On purpose it differs from both in this: text of a row is never a control token, an answer that
begins with a newline is encoded apart from its header, and the block that a prompt holds is not trained.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message, ToolCall
from burnish.data.render.chatml import END, HEADER, NOTHING, START, body, opening_system, plain_turn, turn_end
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.thinking import last_query, split_thoughts, thoughts_before
from burnish.data.render.tool_calls import compact
from burnish.spec.train import LossMask

TOOLS_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
)
TOOLS_AFTER = (
    "</tools>\n\nFor each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call>"
)
EMPTY_BLOCK = [control("<think>", "assistant"), words("\n\n", "assistant", False), control("</think>", "assistant")]


@dataclass(frozen=True)
class Qwen3:
    enable_thinking: bool = True
    """Off, an answer without thoughts follows an empty block that the prompt already holds."""
    name: str = "qwen3"
    end_of_turn: str = END
    needs: tuple[str, ...] = (START, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages, pieces = conversation.messages, opening(conversation, loss_mask)
        query = last_query(messages)
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                last = place == len(messages) - 1
                pieces += self._answer(message, trained, thinks=place > query, last=last)
            elif message.role == "tool":
                pieces += tool_result(messages, place, body("\n", message.content, "\n", "tool", trained))
            elif message.role == "user" or place:
                pieces += plain_turn(message.role, message.content, trained)
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        pieces = [*self.write(Conversation(messages), NOTHING), HEADER]
        return pieces if self.enable_thinking else [*pieces, *EMPTY_BLOCK, words("\n\n", "assistant", False)]

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        # Where nobody asks, not even the last answer has its thoughts.
        return History(thoughtless=thoughts_before(messages, last_query(messages) + 1))

    def _answer(self, message: Message, trained: bool, *, thinks: bool, last: bool) -> list[Piece]:
        thoughts, content = split_thoughts(message)
        after = "\n" if message.tool_calls and content else ""
        if not self.enable_thinking and not thoughts:
            pieces = [*EMPTY_BLOCK, words("\n\n", "assistant", False)]
            pieces.append(words(content.lstrip("\n") + after, "assistant", trained))
        elif thinks and (last or thoughts):
            pieces = [
                control("<think>", "assistant", trained),
                words("\n" + thoughts.strip("\n") + "\n", "assistant", trained),
                control("</think>", "assistant", trained),
                words("\n\n" + content.lstrip("\n") + after, "assistant", trained),
            ]
        else:
            pieces = [words(content + after, "assistant", trained)]
        return [HEADER, *pieces, *json_calls(message.tool_calls, trained), *turn_end(trained)]


def opening(conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
    """The system turn: the row's own words, then its tools."""
    said = opening_system(conversation)
    trained = said is not None and is_trained(said, loss_mask)
    if not conversation.tools:
        return [] if said is None else plain_turn("system", said.content, trained)
    return [
        control(START, "system"),
        *([] if said is None else body("system\n", said.content, "\n\n", "system", trained)),
        control(TOOLS_BEFORE if said is not None else f"system\n{TOOLS_BEFORE}", "system"),
        words("".join(compact(tool) + "\n" for tool in conversation.tools), "system", False),
        control(f"{TOOLS_AFTER}{END}\n", "system"),
    ]


def json_calls(calls: tuple[ToolCall, ...], trained: bool) -> list[Piece]:
    pieces = []
    for number, call in enumerate(calls):
        called = f'\n{{"name": "{call.name}", "arguments": {compact(call.arguments)}}}\n'
        pieces += [
            control("\n<tool_call>" if number else "<tool_call>", "assistant", trained),
            words(called, "assistant", trained),
            control("</tool_call>", "assistant", trained),
        ]
    return pieces


def tool_result(messages: tuple[Message, ...], place: int, inner: list[Piece]) -> list[Piece]:
    """Results in a row share one user turn."""
    opens = place == 0 or messages[place - 1].role != "tool"
    closes = place == len(messages) - 1 or messages[place + 1].role != "tool"
    return [
        control(f"{START}user\n<tool_response>" if opens else "\n<tool_response>", "tool"),
        *inner,
        control(f"</tool_response>{END}\n" if closes else "</tool_response>", "tool"),
    ]
