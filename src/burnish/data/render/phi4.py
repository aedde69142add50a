"""Phi-4's form: `<|im_start|>ROLE<|im_sep|>`, the text, `<|im_end|>`, and no white space at all."""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning, refuse_tools
from burnish.spec.train import LossMask

START, SEPARATOR, END = "<|im_start|>", "<|im_sep|>", "<|im_end|>"
NOTHING = LossMask(assistant=False)


@dataclass(frozen=True)
class Phi4:
    name: str = "phi-4"
    end_of_turn: str = END
    needs: tuple[str, ...] = (START, SEPARATOR, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        refuse_tools(conversation, self.name)
        refuse_reasoning(conversation.messages, self.name)
        pieces: list[Piece] = []
        for message in conversation.messages:
            trained = is_trained(message, loss_mask)
            pieces += [
                _header(message.role),
                words(message.content, message.role, trained),
                control(END, message.role, trained and message.role == "assistant"),
            ]
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), _header("assistant")]

    def history(self, conversation: Conversation) -> History:
        return History()


def _header(role: str) -> Piece:
    return control(f"{START}{role}{SEPARATOR}", role)
