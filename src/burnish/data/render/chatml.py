"""ChatML: `<|im_start|>ROLE`, newline, the text, `<|im_end|>`, newline. And a relative, and what the families share.

Of an assistant's turn the end is trained with the words; of any other role, where a loss mask asks for it, the words
alone. A turn that is not trained is one text with its header, as a template's tokens are; what is trained begins
a piece of its own, as when it is sampled.
"""

from dataclasses import dataclass
from typing import ClassVar

from burnish.data.conversations import Conversation, Message
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_calls, refuse_reasoning, refuse_schemas
from burnish.spec.train import LossMask

START, END = "<|im_start|>", "<|im_end|>"
HEADER = control(f"{START}assistant\n", "assistant")


@dataclass(frozen=True)
class ChatML:
    """The bare form: nothing is added to what the row says."""

    name: str = "chatml"
    end_of_turn: str = END
    needs: tuple[str, ...] = (START, END)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        # Results of tools stay: they are turns like others, of a role of their own.
        refuse_schemas(conversation, self.name)
        refuse_calls(conversation.messages, self.name)
        refuse_reasoning(conversation.messages, self.name)
        pieces = self.opening(conversation.messages)
        for message in conversation.messages:
            pieces += plain_turn(message.role, message.content, is_trained(message, loss_mask))
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), HEADER]

    def history(self, conversation: Conversation) -> History:
        return History()

    def opening(self, messages: tuple[Message, ...]) -> list[Piece]:
        return []


@dataclass(frozen=True)
class SmolLM(ChatML):
    """SmolLM2's form: a system turn of its own where the row has none at its start."""

    name: str = "smollm"
    greeting: ClassVar[str] = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

    def opening(self, messages: tuple[Message, ...]) -> list[Piece]:
        if messages and messages[0].role == "system":
            return []
        return [control(f"{START}system\n{self.greeting}{END}\n", "system")]


NOTHING = LossMask(assistant=False)


def opening_system(conversation: Conversation) -> Message | None:
    """The system turn that a row begins with."""
    first = conversation.messages[:1]
    return first[0] if first and first[0].role == "system" else None


def plain_turn(role: str, content: str, trained: bool) -> list[Piece]:
    if role == "assistant":
        return [HEADER, words(content, role, trained), *turn_end(trained)]
    return [control(START, role), *body(f"{role}\n", content, "", role, trained), control(f"{END}\n", role)]


def turn_end(trained: bool) -> list[Piece]:
    """Of an assistant's turn."""
    if not trained:
        return [control(f"{END}\n", "assistant")]
    return [control(END, "assistant", True), control("\n", "assistant")]


def body(before: str, text: str, after: str, role: str, trained: bool) -> list[Piece]:
    """A row's text between a renderer's own, which may share tokens with it.

    Trained, a full stop keeps the newline behind it, which vocabularies join to it; a letter does not.
    """
    if not trained or not text:
        return [words(before + text + after, role, False)]
    pieces = [words(before, role, False)] if before else []
    if not after:
        return [*pieces, words(text, role, True)]
    if not text[-1].isalnum():
        return [*pieces, words(text + after, role, True)]
    return [*pieces, words(text, role, True), words(after, role, False)]
