"""OLMo 2's form: `<|ROLE|>`, newline, the text, newline; an answer ends with `<|endoftext|>`, which also opens the row.

The headers are letters, not tokens, so a text may share one with the newline that closes it.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning, refuse_tools
from burnish.spec.train import LossMask

END = "<|endoftext|>"
NOTHING = LossMask(assistant=False)
ANSWERS = control("<|assistant|>\n", "assistant")


@dataclass(frozen=True)
class Olmo:
    name: str = "olmo"
    end_of_turn: str = END
    needs: tuple[str, ...] = (END,)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        refuse_tools(conversation, self.name)
        refuse_reasoning(conversation.messages, self.name)
        pieces, last = [control(END)], len(conversation.messages) - 1
        for place, message in enumerate(conversation.messages):
            trained = is_trained(message, loss_mask)
            if message.role != "assistant":
                pieces += _asked(message, trained)
                continue
            pieces += [ANSWERS, words(message.content, "assistant", trained), control(END, "assistant", trained)]
            if place < last:
                pieces.append(control("\n"))
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), ANSWERS]

    def history(self, conversation: Conversation) -> History:
        return History()


def _asked(message: Message, trained: bool) -> list[Piece]:
    role, text = message.role, message.content
    if not trained:
        return [words(f"<|{role}|>\n{text}\n", role, False)]
    return [control(f"<|{role}|>\n", role), words(text, role, True), control("\n", role)]
