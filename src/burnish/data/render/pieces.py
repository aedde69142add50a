"""What a renderer writes: pieces of text, each with whether it is trained, in one go so that the two cannot drift."""

from typing import NamedTuple, Protocol

from burnish.data.conversations import Conversation, Message
from burnish.spec.train import LossMask


class Piece(NamedTuple):
    text: str
    trained: bool
    control: bool = False
    """The renderer's own words, in which `<|im_end|>` is the token; in a row's text it is ten letters."""


class Script(Protocol):
    """How one family of models writes a conversation down."""

    @property
    def name(self) -> str: ...

    @property
    def end_of_turn(self) -> str | None:
        """The control token that closes an assistant's turn."""
        ...

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        """The whole conversation. `RowFault` if this family has no way to write it."""
        ...

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        """The same, up to where the assistant speaks next."""
        ...


def is_trained(message: Message, loss_mask: LossMask) -> bool:
    return getattr(loss_mask, message.role) if message.trained is None else message.trained
