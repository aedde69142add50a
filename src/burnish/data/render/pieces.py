"""What a renderer writes: pieces of text, each with whether it is trained, in one go so that the two cannot drift."""

from functools import lru_cache
from typing import NamedTuple, Protocol

from burnish.data.conversations import Conversation, Image, Message
from burnish.spec.train import LossMask


class Piece(NamedTuple):
    text: str
    trained: bool
    control: bool = False
    """The renderer's own words, in which `<|im_end|>` is the token; in a row's text it is ten letters."""
    role: str = ""
    """Whose turn it is part of: `system`, `user`, `assistant`, `tool`; empty between turns."""
    image: Image | None = None
    """The image whose tokens these are; never trained, never cut in two."""


@lru_cache(maxsize=4096)  # there are few, and they are asked for in every turn
def control(text: str, role: str = "", trained: bool = False) -> Piece:
    """Words of the renderer's own."""
    return Piece(text, trained, True, role)


def words(text: str, role: str, trained: bool) -> Piece:
    """Words of the row."""
    return Piece(text, trained, False, role)


class History(NamedTuple):
    """Assistant turns, by place, that a whole conversation does not hold as they were said."""

    thoughtless: tuple[int, ...] = ()
    """Written without their thoughts."""
    askew: tuple[int, ...] = ()
    """Written so that what was said cannot be told from the rest, so they cannot be trained there."""

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(sorted({*self.thoughtless, *self.askew}))


class Script(Protocol):
    """How one family of models writes a conversation down."""

    @property
    def name(self) -> str: ...

    @property
    def end_of_turn(self) -> str | None:
        """The control token that closes an assistant's turn."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Control tokens that the model's tokenizer must hold."""
        ...

    @property
    def shows_images(self) -> bool:
        """Whether it writes a message's images; else a conversation that has any never reaches it."""
        ...

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        """The whole conversation. `RowFault` if this family has no way to write it."""
        ...

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        """The same, up to where the assistant speaks next."""
        ...

    def history(self, conversation: Conversation) -> History:
        """What `write` leaves out of earlier turns."""
        ...


def is_trained(message: Message, loss_mask: LossMask) -> bool:
    return getattr(loss_mask, message.role) if message.trained is None else message.trained
