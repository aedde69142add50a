"""ChatML: `<|im_start|>ROLE`, newline, the text, `<|im_end|>`, newline. And two relatives."""

from dataclasses import dataclass
from typing import ClassVar

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.render.pieces import History, Piece, control, is_trained, words
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
        refuse_tools(conversation, self.name)
        pieces = self.opening(conversation.messages)
        for message in conversation.messages:
            pieces += self.turn(message, is_trained(message, loss_mask))
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), HEADER]

    def history(self, conversation: Conversation) -> History:
        return History()

    def opening(self, messages: tuple[Message, ...]) -> list[Piece]:
        return []

    def turn(self, message: Message, trained: bool) -> list[Piece]:
        if message.reasoning:
            raise RowFault(f"reasoning_content is not rendered by `{self.name}`")
        return plain_turn(message.role, message.content, trained)


@dataclass(frozen=True)
class SmolLM(ChatML):
    """SmolLM2's form: a system turn of its own where the row has none at its start."""

    name: str = "smollm"
    greeting: ClassVar[str] = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

    def opening(self, messages: tuple[Message, ...]) -> list[Piece]:
        if messages and messages[0].role == "system":
            return []
        return [control(f"{START}system\n{self.greeting}{END}\n", "system")]


@dataclass(frozen=True)
class PrimeQwen3(ChatML):
    """PrimeIntellect's Qwen3 form: think marks without newlines, kept in every turn."""

    name: str = "prime-qwen3"

    def turn(self, message: Message, trained: bool) -> list[Piece]:
        if message.reasoning is None or message.role != "assistant":
            return plain_turn(message.role, message.content, trained)
        answer = message.content.strip()
        return [
            HEADER,
            control("<think>", "assistant", trained),
            words(message.reasoning.strip(), "assistant", trained),
            control("</think>", "assistant", trained),
            words(f"\n{answer}" if answer else "", "assistant", trained),
            *turn_end("assistant", trained),
        ]


NOTHING = LossMask(assistant=False)


def plain_turn(role: str, content: str, trained: bool) -> list[Piece]:
    if trained or role == "assistant":
        # What the model says begins a piece of its own, as when it is sampled after the header.
        return [control(f"{START}{role}\n", role), words(content, role, trained), *turn_end(role, trained)]
    return [control(START, role), words(f"{role}\n{content}", role, False), *turn_end(role, False)]


def turn_end(role: str, trained: bool) -> list[Piece]:
    return [control(END, role, trained), control("\n", role)]


def refuse_tools(conversation: Conversation, name: str) -> None:
    if conversation.tools:
        raise RowFault(f"tools are not rendered by `{name}`")
    if any(message.tool_calls for message in conversation.messages):
        raise RowFault(f"tool calls are not rendered by `{name}`")
