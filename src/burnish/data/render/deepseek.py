"""DeepSeek's forms: V3, which does not think aloud, and R1, which does and forgets its thoughts.

A token opens each turn, one ends each answer, and no white space stands between. Several calls share a block, and so do
several results; the answer follows its results without a header.
"""

from dataclasses import dataclass

from burnish.data.conversations import Conversation, Message
from burnish.data.json_text import write_json
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.refusals import refuse_reasoning, refuse_schemas
from burnish.data.render.thinking import split_thoughts
from burnish.spec.train import LossMask

BOS, END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
NOTHING = LossMask(assistant=False)


@dataclass(frozen=True)
class DeepSeekV3:
    name: str = "deepseek-v3"
    end_of_turn: str = END
    needs: tuple[str, ...] = (BOS, END, USER, ASSISTANT)
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        refuse_schemas(conversation, self.name)
        refuse_reasoning(conversation.messages, self.name)
        return self._written(conversation.messages, loss_mask)

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), *_header(messages, len(messages))]

    def history(self, conversation: Conversation) -> History:
        return History()

    def _written(self, messages: tuple[Message, ...], loss_mask: LossMask) -> list[Piece]:
        opening = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
        pieces = [control(BOS), *_opening(messages[:opening], loss_mask)]
        for place, message in enumerate(messages[opening:], opening):
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                pieces += [*_header(messages, place), *self._said(messages, place, trained)]
                pieces += [*_calls(message, trained), control(END, "assistant", trained)]
            elif message.role == "tool":
                pieces += _result(messages, place, trained)
            else:
                pieces += [control(USER, message.role), words(message.content, message.role, trained)]
        return pieces

    def _said(self, messages: tuple[Message, ...], place: int, trained: bool) -> list[Piece]:
        return [words(messages[place].content, "assistant", trained)]


@dataclass(frozen=True)
class DeepSeekR1(DeepSeekV3):
    """A prompt opens the thoughts, so `<think>` and its newline are not for the model to say.

    An answer without thoughts is written without marks, as the family writes earlier turns.
    """

    name: str = "deepseek-r1"

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        refuse_schemas(conversation, self.name)
        return self._written(conversation.messages, loss_mask)

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), *_header(messages, len(messages)), OPENS_THOUGHTS]

    def history(self, conversation: Conversation) -> History:
        last = len(conversation.messages) - 1
        thoughtless = (
            place
            for place, message in enumerate(conversation.messages)
            if message.role == "assistant" and place != last and split_thoughts(message)[0].strip()
        )
        return History(thoughtless=tuple(thoughtless))

    def _said(self, messages: tuple[Message, ...], place: int, trained: bool) -> list[Piece]:
        message = messages[place]
        thoughts, answer = split_thoughts(message)
        if place < len(messages) - 1 or not thoughts.strip():
            return [words(message.content.split("</think>")[-1], "assistant", trained)]
        return [
            OPENS_THOUGHTS,
            words(thoughts.strip("\n") + "\n", "assistant", trained),
            control("</think>", "assistant", trained),
            words("\n\n" + answer.lstrip("\n"), "assistant", trained),
        ]


OPENS_THOUGHTS = control("<think>\n", "assistant")


def _opening(systems: tuple[Message, ...], loss_mask: LossMask) -> list[Piece]:
    """System turns at the start: bare text behind the first token, two newlines between them."""
    said = [message.content for message in systems]
    wanted = [is_trained(message, loss_mask) for message in systems]
    if not any(wanted):
        return [words("\n\n".join(said), "system", False)]
    pieces: list[Piece] = []
    for text, trained in zip(said, wanted, strict=True):
        pieces += [*([control("\n\n", "system")] if pieces else []), words(text, "system", trained)]
    return pieces


def _header(messages: tuple[Message, ...], place: int) -> list[Piece]:
    """Of the answer at `place`; none behind the results of tools, which the model reads on from."""
    return [] if place and messages[place - 1].role == "tool" else [control(ASSISTANT, "assistant")]


def _calls(message: Message, trained: bool) -> list[Piece]:
    if not message.tool_calls:
        return []
    pieces = [control("<｜tool▁calls▁begin｜>", "assistant", trained)]
    for call in message.tool_calls:
        pieces += [
            control("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "assistant", trained),
            words(f"{call.name}\n```json\n{write_json(call.arguments)}\n```", "assistant", trained),
            control("<｜tool▁call▁end｜>", "assistant", trained),
        ]
    return [*pieces, control("<｜tool▁calls▁end｜>", "assistant", trained)]


def _result(messages: tuple[Message, ...], place: int, trained: bool) -> list[Piece]:
    opens = place == 0 or messages[place - 1].role != "tool"
    closes = place == len(messages) - 1 or messages[place + 1].role != "tool"
    return [
        *([control("<｜tool▁outputs▁begin｜>", "tool")] if opens else []),
        control("<｜tool▁output▁begin｜>", "tool"),
        words(messages[place].content, "tool", trained),
        control("<｜tool▁output▁end｜>", "tool"),
        *([control("<｜tool▁outputs▁end｜>", "tool")] if closes else []),
    ]
