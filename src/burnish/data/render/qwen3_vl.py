"""Qwen3-VL: Qwen3's form without thinking, with images among the text of questions and of tools' results.

Held against `renderers` 0.1.12, from which it differs on purpose in this: text of a row is never a control token; a
system turn further on, an image in another turn and reasoning are refused, where that package leaves them out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.render.chatml import END, HEADER, NOTHING, START, body, turn_end
from burnish.data.render.image_grid import QWEN3_VL, ImageGrid
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.qwen3 import json_calls, opening, tool_result
from burnish.data.render.refusals import refuse_later_system, refuse_reasoning
from burnish.spec.train import LossMask

VISION, VISION_END, PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"


@dataclass(frozen=True)
class Qwen3VL:
    add_vision_id: bool = False
    """Number the images in the text: `Picture 1: `."""
    grid: ImageGrid = QWEN3_VL
    name: str = "qwen3-vl"
    end_of_turn: str = END
    needs: tuple[str, ...] = (START, END, VISION, VISION_END, PAD)
    shows_images: bool = True

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages, pieces = conversation.messages, opening(conversation, loss_mask)
        refuse_later_system(messages, self.name)
        refuse_reasoning(messages, self.name)
        refuse_spoken_images(messages, self.name)
        pictures = Pictures(self.grid, numbered=self.add_vision_id, joined=True)
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                said = message.content + "\n" if message.tool_calls and message.content else message.content
                calls = json_calls(message.tool_calls, trained)
                pieces += [HEADER, words(said, "assistant", trained), *calls, *turn_end(trained)]
            elif message.role == "tool":
                inner = pictures.show("\n", message, message.content, "\n", trained)
                pieces += tool_result(messages, place, inner)
            elif message.role == "user":
                inner = pictures.show("user\n", message, message.content, "", trained)
                pieces += [control(START, "user"), *inner, control(f"{END}\n", "user")]
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), HEADER]

    def history(self, conversation: Conversation) -> History:
        return History()


class Pictures:
    """The images of one conversation, in order."""

    def __init__(self, grid: ImageGrid, *, numbered: bool, joined: bool) -> None:
        self._grid = grid
        self._numbers: Iterator[int] | None = count(1) if numbered else None
        self._joined = joined
        """Whether the words put behind a row's text may share its last token."""

    def show(self, before: str, message: Message, text: str, after: str, trained: bool) -> list[Piece]:
        """A message's text with its images in their places; of both, only the row's words may be trained."""
        if not message.images:
            return body(before, text, after, message.role, trained)
        pieces, start = [], 0
        for image in message.images:
            label = f"Picture {next(self._numbers)}: " if self._numbers else ""
            pieces += self._part(before, text[start : image.at], label, message.role, trained)
            pads = f"{VISION}{PAD * self._grid.tokens(image)}{VISION_END}"
            pieces.append(Piece(pads, False, True, message.role, image))
            before, start = "", image.at
        return [*pieces, *self._part("", text[start:], after, message.role, trained)]

    def _part(self, before: str, text: str, after: str, role: str, trained: bool) -> list[Piece]:
        if self._joined or not after:
            return body(before, text, after, role, trained)
        return [*body(before, text, "", role, trained), words(after, role, False)]


def refuse_spoken_images(messages: tuple[Message, ...], name: str) -> None:
    for place, message in enumerate(messages):
        if message.images and message.role in ("system", "assistant"):
            raise RowFault(f"messages[{place}] has images, and `{name}` has none in a turn of {message.role}")
