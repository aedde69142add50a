"""Kimi K2: the mark and the name of a role, `<|im_middle|>`, the text, `<|im_end|>`; tools declared before all else.

Held against `renderers` 0.1.12, from which it differs on purpose in this: text of a row is never a control token;
reasoning, for which the form has no place, is refused (that package drops it). A call's function stands in its id
alone, so an id without it is written `functions.NAME:NUMBER`, as the model's makers ask, and results follow.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message, ToolCall
from burnish.data.json_text import write_json
from burnish.data.render.chatml import NOTHING
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning
from burnish.data.render.tool_calls import compact
from burnish.spec.train import LossMask

END, MIDDLE = "<|im_end|>", "<|im_middle|>"
SYSTEM, USER, ASSISTANT = "<|im_system|>", "<|im_user|>", "<|im_assistant|>"
CALLS, CALLS_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, CALL_ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
GREETING = "You are Kimi, an AI assistant created by Moonshot AI."
HEADERS = {
    "system": control(f"{SYSTEM}system{MIDDLE}", "system"),
    "user": control(f"{USER}user{MIDDLE}", "user"),
    "assistant": control(f"{ASSISTANT}assistant{MIDDLE}", "assistant"),
}


@dataclass(frozen=True)
class KimiK2:
    name: str = "kimi-k2"
    end_of_turn: str = END
    needs: tuple[str, ...] = (SYSTEM, USER, ASSISTANT, MIDDLE, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        refuse_reasoning(conversation.messages, self.name)
        pieces, ids = _opening(conversation), CallIds()
        for message in conversation.messages:
            trained = is_trained(message, loss_mask)
            if message.role == "tool":
                pieces += [
                    control(SYSTEM, "tool"),
                    words(message.tool_name or "tool", "tool", False),
                    control(MIDDLE, "tool"),
                    words(f"## Return of {ids.of_result(message)}\n", "tool", False),
                ]
            else:
                pieces.append(HEADERS[message.role])
            pieces.append(words(message.content, message.role, trained))
            if message.tool_calls:
                pieces += _calls([(ids.of_call(call), call) for call in message.tool_calls], trained)
            pieces.append(control(END, message.role, trained and message.role == "assistant"))
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), HEADERS["assistant"]]

    def history(self, conversation: Conversation) -> History:
        return History()


class CallIds:
    """What the calls of one conversation are named by, and their results after them."""

    def __init__(self) -> None:
        self._calls = 0
        self._renamed: dict[str, str] = {}
        self._nameless: list[str] = []
        """Given to calls without an id, whose results have none either and come in their order."""

    def of_call(self, call: ToolCall) -> str:
        number, self._calls = self._calls, self._calls + 1
        if call.name in call.id:
            return call.id
        made = f"functions.{call.name}:{number}"
        if call.id:
            self._renamed[call.id] = made
        else:
            self._nameless.append(made)
        return made

    def of_result(self, message: Message) -> str:
        if not message.call_id and self._nameless:
            return self._nameless.pop(0)
        return self._renamed.get(message.call_id, message.call_id)


def _opening(conversation: Conversation) -> list[Piece]:
    """The tools, and a greeting where the row does not begin with a system turn."""
    pieces = []
    if conversation.tools:
        schemas = write_json(conversation.tools, separators=(",", ":"), sort_keys=True)
        pieces = [
            control(f"{SYSTEM}tool_declare{MIDDLE}", "system"),
            words(schemas, "system", False),
            control(END, "system"),
        ]
    if conversation.messages and conversation.messages[0].role == "system":
        return pieces
    return [*pieces, control(f"{SYSTEM}system{MIDDLE}{GREETING}{END}\n", "system")]


def _calls(calls: list[tuple[str, ToolCall]], trained: bool) -> list[Piece]:
    pieces = [control(CALLS, "assistant", trained)]
    for name, call in calls:
        pieces += [
            control(CALL, "assistant", trained),
            words(name, "assistant", trained),
            control(CALL_ARGUMENTS, "assistant", trained),
            words(compact(call.arguments), "assistant", trained),
            control(CALL_END, "assistant", trained),
        ]
    return [*pieces, control(CALLS_END, "assistant", trained)]
