"""Llama 3.2's form: `<|start_header_id|>ROLE<|end_header_id|>`, two newlines, the stripped text, `<|eot_id|>`.

A system turn always opens the row, with a knowledge cutoff and a date; a call is one JSON object and the whole turn.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.json_text import write_json
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning, refuse_text_beside_calls
from burnish.spec.train import LossMask

BOS, START, STOP, END = "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"
DATE = "26 Jul 2024"
"""What the family's own template writes where there is no clock. No day trains other tokens than another."""
NOTHING = LossMask(assistant=False)

_FORMAT = (
    'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.'
    "Do not use variables.\n\n"
)
TOOLS_FOR_SYSTEM = (
    "You have access to the following functions. To call a function, please respond with JSON for a function call."
    + _FORMAT
)
TOOLS_FOR_USER = (
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that "
    "best answers the given prompt.\n\n" + _FORMAT
)


@dataclass(frozen=True)
class Llama3:
    date_string: str = DATE
    tools_in_user_message: bool = True
    """Tools stand before the first question, else in the system turn."""
    name: str = "llama-3"
    end_of_turn: str = END
    needs: tuple[str, ...] = (BOS, START, STOP, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages = conversation.messages
        refuse_reasoning(messages, self.name)
        opens = 1 if messages and messages[0].role == "system" else 0
        pieces = self._system(conversation, loss_mask)
        if conversation.tools and self.tools_in_user_message:
            pieces += self._question_with_tools(conversation, opens, loss_mask)
            opens += 1
        for message in messages[opens:]:
            pieces += self._turn(message, is_trained(message, loss_mask))
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), _header("assistant", "assistant")]

    def history(self, conversation: Conversation) -> History:
        return History()

    def _system(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        environment = "Environment: ipython\n" if conversation.tools else ""
        dates = f"Cutting Knowledge Date: December 2023\nToday Date: {self.date_string}\n\n"
        pieces = [control(f"{BOS}{START}system{STOP}\n\n{environment}{dates}", "system")]
        if conversation.tools and not self.tools_in_user_message:
            pieces += [control(TOOLS_FOR_SYSTEM, "system"), _schemas(conversation, "system")]
        first = conversation.messages[0] if conversation.messages else None
        if first and first.role == "system":
            pieces.append(words(first.content.strip(), "system", is_trained(first, loss_mask)))
        return [*pieces, control(END, "system")]

    def _question_with_tools(self, conversation: Conversation, place: int, loss_mask: LossMask) -> list[Piece]:
        if place >= len(conversation.messages) or conversation.messages[place].role != "user":
            raise RowFault("tools are written into the first question, and the row does not begin with one")
        message = conversation.messages[place]
        return [
            _header("user", "user"),
            control(TOOLS_FOR_USER, "user"),
            _schemas(conversation, "user"),
            words(message.content.strip(), "user", is_trained(message, loss_mask)),
            control(END, "user"),
        ]

    def _turn(self, message: Message, trained: bool) -> list[Piece]:
        role = message.role
        if role == "tool":
            # The family's template writes a result as JSON, and so puts text in quotes.
            return _whole("ipython", role, write_json(message.content), trained)
        if role == "assistant":
            said = self._call(message) if message.tool_calls else message.content.strip()
            return [_header(role, role), words(said, role, trained), control(END, role, trained)]
        return _whole(role, role, message.content.strip(), trained)

    def _call(self, message: Message) -> str:
        refuse_text_beside_calls(message, self.name)
        if len(message.tool_calls) != 1:
            raise RowFault(f"`{self.name}` writes one tool call in a turn, and here are {len(message.tool_calls)}")
        call = message.tool_calls[0]
        return f'{{"name": "{call.name}", "parameters": {write_json(call.arguments)}}}'


def _header(named: str, role: str) -> Piece:
    return control(f"{START}{named}{STOP}\n\n", role)


def _whole(named: str, role: str, text: str, trained: bool) -> list[Piece]:
    return [_header(named, role), words(text, role, trained), control(END, role)]


def _schemas(conversation: Conversation, role: str) -> Piece:
    text = "".join(write_json(tool, indent=4) + "\n\n" for tool in conversation.tools)
    return words(text, role, False)
