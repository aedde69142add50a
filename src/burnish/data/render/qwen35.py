"""Qwen3.5 and 3.6: ChatML that always opens a think block, calls between XML tags, images as in Qwen3-VL.

Held against `renderers` 0.1.12. Where thinking is off, an empty think block stands in every answer without thoughts, as
there. On purpose they differ in this: text of a row is never a control token, what a prompt holds of a think block
is not trained, and a system turn further on or an image in an answer is refused.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message
from burnish.data.render.chatml import END, HEADER, NOTHING, START, plain_turn, turn_end
from burnish.data.render.image_grid import QWEN3_VL, ImageGrid
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.prime_qwen3 import HOW_TO_CALL, TOOLS_BEFORE
from burnish.data.render.qwen3 import EMPTY_BLOCK, tool_result
from burnish.data.render.qwen3_vl import PAD, VISION, VISION_END, Pictures, refuse_spoken_images
from burnish.data.render.refusals import refuse_later_system
from burnish.data.render.thinking import split_thoughts, thoughts_before
from burnish.data.render.tool_calls import as_json, as_python, compact, tagged
from burnish.spec.train import LossMask


@dataclass(frozen=True)
class Qwen35:
    name: str = "qwen3.5"
    """Or `qwen3.6`, which writes truth values and null among the arguments as JSON does."""
    enable_thinking: bool = True
    """Off, an answer without thoughts follows an empty block that the prompt already holds."""
    preserve_thinking: bool = False
    """Keep the thoughts of answers before the last question."""
    add_vision_id: bool = False
    """Number the images in the text: `Picture 1: `."""
    grid: ImageGrid = QWEN3_VL
    end_of_turn: str = END
    needs: tuple[str, ...] = (START, END, "<think>", "</think>", VISION, VISION_END, PAD)
    shows_images: bool = True

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages, pieces = conversation.messages, _opening(conversation, loss_mask)
        refuse_later_system(messages, self.name)
        refuse_spoken_images(messages, self.name)
        query = _last_query(messages)
        pictures = Pictures(self.grid, numbered=self.add_vision_id, joined=False)
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            # Space around a text goes, but not where images stand in it.
            content = message.content if message.images else message.content.strip()
            if message.role == "assistant":
                pieces += self._answer(message, trained, thinks=place > query)
            elif message.role == "tool":
                pieces += tool_result(messages, place, pictures.show("\n", message, content, "\n", trained))
            elif message.role == "user":
                inner = pictures.show("user\n", message, content, "", trained)
                pieces += [control(START, "user"), *inner, control(f"{END}\n", "user")]
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        pieces = [*self.write(Conversation(messages), NOTHING), HEADER]
        if self.enable_thinking:
            return [*pieces, control("<think>\n", "assistant")]
        return [*pieces, *EMPTY_BLOCK, words("\n\n", "assistant", False)]

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        return History() if self.preserve_thinking else History(thoughts_before(messages, _last_query(messages)))

    def _answer(self, message: Message, trained: bool, *, thinks: bool) -> list[Piece]:
        thoughts, content = split_thoughts(message)
        thoughts = thoughts.strip()
        inline = message.reasoning is None and "</think>" in message.content
        content = content.rstrip() if inline else content.strip()
        if not self.enable_thinking and not thoughts:
            pieces = [*EMPTY_BLOCK, words("\n\n", "assistant", False), words(content, "assistant", trained)]
        elif not (thinks or self.preserve_thinking):
            pieces = [words(content, "assistant", trained)]
        else:
            pieces = [
                *self._opened(thoughts, trained),
                control("</think>", "assistant", trained),
                words(f"\n\n{content}", "assistant", trained),
            ]
        return [HEADER, *pieces, *self._calls(message, content, trained), *turn_end(trained)]

    def _opened(self, thoughts: str, trained: bool) -> list[Piece]:
        """A think block up to its end. The prompt opens it, with a newline that an empty block shares a token with."""
        if not self.enable_thinking:
            return [control("<think>", "assistant", trained), words(f"\n{thoughts}\n", "assistant", trained)]
        if not thoughts:
            return [control("<think>", "assistant"), words("\n\n", "assistant", trained)]
        return [control("<think>\n", "assistant"), words(f"{thoughts}\n", "assistant", trained)]

    def _calls(self, message: Message, content: str, trained: bool) -> list[Piece]:
        spell = as_python if self.name == "qwen3.5" else as_json
        pieces, gap = [], "\n\n" if content.strip() else ""
        for call in message.tool_calls:
            pieces += [
                control(f"{gap}<tool_call>", "assistant", trained),
                words(tagged(call, spell), "assistant", trained),
                control("</tool_call>", "assistant", trained),
            ]
            gap = "\n"
        return pieces


def _opening(conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
    """The system turn: tools first, then the row's own words."""
    first = conversation.messages[0] if conversation.messages else None
    said = first.content.strip() if first is not None and first.role == "system" else None
    trained = first is not None and said is not None and is_trained(first, loss_mask)
    if not conversation.tools:
        return [] if said is None else plain_turn("system", said, trained)
    return [
        control(f"{START}system\n{TOOLS_BEFORE}", "system"),
        words("".join(compact(tool) + "\n" for tool in conversation.tools), "system", False),
        control(f"{HOW_TO_CALL}\n\n" if said else HOW_TO_CALL, "system"),
        *([words(said, "system", trained)] if said else []),
        control(f"{END}\n", "system"),
    ]


def _last_query(messages: tuple[Message, ...]) -> int:
    """The place of the last real question; behind all turns where there is none, so that none thinks."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            content = messages[place].content.strip()
            if not (content.startswith("<tool_response>") and content.endswith("</tool_response>")):
                return place
    return len(messages)
