"""Gemma's forms. Gemma 2 and 3: `<start_of_turn>ROLE`, newline, the stripped text, `<end_of_turn>`, newline.

User and model take turns; what a system turn says opens the first question.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning, refuse_tools
from burnish.spec.train import LossMask

BOS, START, END = "<bos>", "<start_of_turn>", "<end_of_turn>"
NOTHING = LossMask(assistant=False)
ANSWERS = control(f"{START}model\n", "assistant")
ASKS = control(f"{START}user\n", "user")


@dataclass(frozen=True)
class Gemma3:
    name: str = "gemma3"
    end_of_turn: str = END
    needs: tuple[str, ...] = (BOS, START, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        refuse_tools(conversation, self.name)
        refuse_reasoning(conversation.messages, self.name)
        messages, pieces = conversation.messages, [control(BOS)]
        if messages and messages[0].role == "system":
            self._check_order(messages[1:], 1)
            if len(messages) > 1:
                pieces += _first_question(messages[0], messages[1], loss_mask)
            messages = messages[2:]
        else:
            self._check_order(messages, 0)
        for message in messages:
            pieces += _turn(message, is_trained(message, loss_mask))
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), ANSWERS]

    def history(self, conversation: Conversation) -> History:
        return History()

    def _check_order(self, messages: tuple[Message, ...], first: int) -> None:
        for place, message in enumerate(messages):
            wanted = "assistant" if place % 2 else "user"
            if message.role != wanted:
                raise RowFault(
                    f"messages[{first + place}] is of the {message.role}, where `{self.name}` has the {wanted} speak: "
                    "user and assistant take turns"
                )


def _first_question(system: Message, question: Message, loss_mask: LossMask) -> list[Piece]:
    opening, asked = system.content, question.content.strip()
    trains_opening, trains_asked = is_trained(system, loss_mask), is_trained(question, loss_mask)
    if not trains_opening and not trains_asked:
        # One text, as its newlines may share a token.
        return [control(START, "user"), words(f"user\n{opening}\n\n{asked}", "user", False), _close("user")]
    return [
        ASKS,
        words(opening, "system", trains_opening),
        control("\n\n", "user"),
        words(asked, "user", trains_asked),
        _close("user"),
    ]


def _turn(message: Message, trained: bool) -> list[Piece]:
    said = words(message.content.strip(), message.role, trained)
    if message.role == "user":
        return [ASKS, said, _close("user")]
    if not trained:
        return [ANSWERS, said, _close("assistant")]
    return [ANSWERS, said, control(END, "assistant", True), control("\n", "assistant")]


def _close(role: str) -> Piece:
    return control(f"{END}\n", role)
