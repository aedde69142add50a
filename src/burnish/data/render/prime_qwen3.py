"""PrimeIntellect's form of Qwen3: think marks without newlines, kept in every turn, and calls between XML tags.

Held against `renderers` 0.1.12, from which it differs on purpose in this: text of a row is never a control token, an
answer that begins with a newline is encoded apart from its header, and thoughts before a call are written (that
package drops them). A loss mask that asks for words of other roles may train the newline that shares their last token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from burnish.data.conversations import Conversation, Message
from burnish.data.render.chatml import END, HEADER, NOTHING, START, body, opening_system, plain_turn, turn_end
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.tool_calls import as_python, compact, tagged
from burnish.spec.train import LossMask

GREETING = "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks."
TOOLS_BEFORE = "# Tools\n\nYou have access to the following functions:\n\n<tools>\n"
HOW_TO_CALL = (
    "</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested "
    "within <tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the function call, "
    "but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current knowledge and do "
    "not tell the user about function calls\n</IMPORTANT>"
)


@dataclass(frozen=True)
class PrimeQwen3:
    name: str = "prime-qwen3"
    end_of_turn: str = END
    needs: tuple[str, ...] = (START, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages = conversation.messages
        pieces = _opening(conversation, loss_mask)
        first = 1 if messages[:1] and messages[0].role == "system" else 0
        for place in range(first, len(messages)):
            message = messages[place]
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                pieces += [HEADER, *_answer(message, trained), *turn_end(trained)]
            elif message.role == "tool":
                pieces += _result(messages, place, first, trained)
            else:
                pieces += plain_turn(message.role, message.content, trained)
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), HEADER]

    def history(self, conversation: Conversation) -> History:
        return History()


def _opening(conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
    said = opening_system(conversation)
    trained = said is not None and is_trained(said, loss_mask)
    if not conversation.tools:
        return [] if said is None else plain_turn("system", said.content, trained)
    return [
        control(START, "system"),
        *body("system\n", GREETING if said is None else said.content, "\n\n", "system", trained),
        control(TOOLS_BEFORE, "system"),
        words("".join(map(_definition, conversation.tools)), "system", False),
        control(f"{HOW_TO_CALL}{END}\n", "system"),
    ]


def _answer(message: Message, trained: bool) -> list[Piece]:
    answer = message.content.strip() if message.tool_calls or message.reasoning is not None else message.content
    before = answer + "\n\n" if message.tool_calls and answer else answer
    pieces = []
    if message.reasoning is not None:
        pieces = [
            control("<think>", "assistant", trained),
            words(message.reasoning.strip(), "assistant", trained),
            control("</think>", "assistant", trained),
        ]
        before = "\n" + before if answer or message.tool_calls else ""
    if before:
        pieces.append(words(before, "assistant", trained))
    for number, call in enumerate(message.tool_calls):
        pieces += [
            control("\n<tool_call>" if number else "<tool_call>", "assistant", trained),
            words(tagged(call, as_python), "assistant", trained),
            control("</tool_call>", "assistant", trained),
        ]
    return pieces


def _result(messages: tuple[Message, ...], place: int, first: int, trained: bool) -> list[Piece]:
    """Results in a row share one user turn; a conversation that begins with one has no header for it."""
    opens = place > first and messages[place - 1].role != "tool"
    closes = place == len(messages) - 1 or messages[place + 1].role != "tool"
    return [
        control(f"{START}user\n<tool_response>" if opens else "<tool_response>", "tool"),
        *body("\n", messages[place].content, "\n", "tool", trained),
        control(f"</tool_response>\n{END}\n" if closes else "</tool_response>\n", "tool"),
    ]


def _definition(tool: dict[str, Any]) -> str:
    """A tool's schema between XML tags, what JSON schema calls `properties` one by one; each on its lines."""
    inner = tool.get("function")
    function: Mapping[str, Any] = inner if isinstance(inner, dict) else tool
    text = f"<function>\n<name>{function.get('name', '')}</name>{_described(function)}\n<parameters>"
    parameters = function.get("parameters")
    if isinstance(parameters, dict):
        properties = parameters.get("properties")
        for name, fields in properties.items() if isinstance(properties, dict) else ():
            text += f"\n<parameter>\n<name>{name}</name>"
            if isinstance(fields, dict):
                kind = f"\n<type>{fields['type']}</type>" if "type" in fields else ""
                text += kind + _described(fields) + _others(fields, "name", "type", "description")
            text += "\n</parameter>"
        text += _others(parameters, "type", "properties")
    return text + f"\n</parameters>{_others(function, 'type', 'name', 'description', 'parameters')}\n</function>\n"


def _described(fields: Mapping[str, Any]) -> str:
    return f"\n<description>{str(fields['description']).strip()}</description>" if "description" in fields else ""


def _others(fields: Mapping[str, Any], *told: str) -> str:
    return "".join(
        f"\n<{key}>{compact(value) if isinstance(value, dict | list) else value}</{key}>"
        for key, value in fields.items()
        if key not in told
    )
