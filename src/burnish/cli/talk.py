"""One conversation with a model: who said what so far. Imports torch, so that whoever needs no model does not."""

from collections.abc import Iterator
from pathlib import Path

from burnish.data.conversations import Message
from burnish.train.generate import ChatModel


class Talk:
    """The conversation so far."""

    def __init__(
        self, folder: Path, *, base: Path | None, system: str | None, max_tokens: int, temperature: float
    ) -> None:
        self._model = ChatModel.load(folder, base=base)
        self._limits = {"max_tokens": max_tokens, "temperature": temperature}
        self._messages = [Message("system", system)] if system else []

    def say(self, text: str) -> Iterator[str]:
        """The reply, piece by piece; both turns are remembered once it is whole."""
        asked = [*self._messages, Message("user", text)]
        pieces = []
        for piece in self._model.reply(asked, **self._limits):
            pieces.append(piece)
            yield piece
        self._messages = [*asked, Message("assistant", "".join(pieces))]
