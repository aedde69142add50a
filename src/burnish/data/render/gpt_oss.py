"""gpt-oss's form, harmony: `<|start|>WHO<|channel|>CHANNEL<|message|>`, the text, and a token that says what is next.

Thoughts are messages of their own on the channel `analysis`, answers on `final`, calls go `to=functions.NAME` on
`commentary`. What is thought before an answer is left out once the answer is given, but for the last answer's. Each of
an assistant's messages is trained behind its header, and a call from `to=` on: which function to call is to be learnt.
"""

from dataclasses import dataclass
from typing import Any

from burnish.data.conversations import Conversation, Message, RowFault
from burnish.data.json_text import write_json
from burnish.data.render.answers import functions_of_results
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.typescript import write_namespace
from burnish.spec.train import LossMask

START, MESSAGE, END, RETURN, CALL = "<|start|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"
NOTHING = LossMask(assistant=False)
IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
CUTOFF = "2024-06"
CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
CALLS_GO = "\nCalls to these tools must go to the commentary channel: 'functions'."


@dataclass(frozen=True)
class GptOss:
    reasoning_effort: str = "medium"
    conversation_start_date: str | None = None
    """None writes no date, so that no day trains other tokens than another."""
    use_system_prompt: bool = True
    knowledge_cutoff: str = CUTOFF
    model_identity: str = IDENTITY
    auto_drop_analysis: bool = True
    name: str = "gpt-oss"
    end_of_turn: str = RETURN
    needs: tuple[str, ...] = (START, MESSAGE, END, RETURN, CALL, "<|channel|>")
    shows_images: bool = False

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages = conversation.messages
        self._check_order(messages)
        pieces = [self._system(conversation.tools)] if self.use_system_prompt else []
        opens = messages[0].role == "system" if messages else False
        if opens or conversation.tools:
            pieces += _developer(messages[0] if opens else None, conversation.tools, loss_mask)
        functions = functions_of_results(messages)
        thinks = set(self._thinking(messages))
        for place, message in enumerate(messages[opens:], opens):
            trained = is_trained(message, loss_mask)
            match message.role:
                case "assistant":
                    last = place == len(messages) - 1
                    pieces += _said(message, trained, thinks=place in thinks, last=last)
                case "tool":
                    pieces += _result(message, functions[place], trained)
                case "user":
                    pieces += [control(f"{START}user{MESSAGE}", "user"), words(message.content, "user", trained), _END]
                case "system":
                    pieces += _developer(message, (), loss_mask)
        return pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), control(f"{START}assistant", "assistant")]

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        kept = set(self._thinking(messages))
        thoughtful = (place for place, message in enumerate(messages) if _has_thoughts(message))
        return History(thoughtless=tuple(place for place in thoughtful if place not in kept))

    def _thinking(self, messages: tuple[Message, ...]) -> list[int]:
        """Places of the thoughts that are written: the last answer's, and those of calls that no answer follows."""
        if not self.auto_drop_analysis:
            return [place for place, message in enumerate(messages) if _has_thoughts(message)]
        found: list[int] = []
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if message.role != "assistant":
                continue
            if _has_thoughts(message) and (message.tool_calls or place == len(messages) - 1):
                found.append(place)
            if message.content and not message.tool_calls:
                break
        return found

    def _check_order(self, messages: tuple[Message, ...]) -> None:
        first = next((place for place, message in enumerate(messages) if message.role == "system"), 0)
        if first:
            raise RowFault(f"messages[{first}] is the first system turn, and `{self.name}` has that one at the start")

    def _system(self, tools: tuple[dict[str, Any], ...]) -> Piece:
        date = f"\nCurrent date: {self.conversation_start_date}" if self.conversation_start_date else ""
        known = f"{self.model_identity}\nKnowledge cutoff: {self.knowledge_cutoff}{date}"
        channels = CHANNELS + (CALLS_GO if tools else "")
        return control(
            f"{START}system{MESSAGE}{known}\n\nReasoning: {self.reasoning_effort}\n\n{channels}{END}", "system"
        )


_END = control(END)


def _developer(message: Message | None, tools: tuple[dict[str, Any], ...], loss_mask: LossMask) -> list[Piece]:
    """What the row's system turn says, and the functions."""
    opening = control(f"{START}developer{MESSAGE}", "system")
    said = message.content if message else ""
    schemas = f"# Tools\n\n## functions\n\n{write_namespace(tools)}" if tools else ""
    between = "\n\n" if said and tools else ""
    if message is None or not said or not is_trained(message, loss_mask):
        instructions = f"# Instructions\n\n{said}" if said else ""
        return [opening, words(instructions + between + schemas, "system", False), _END]
    return [
        opening,
        control("# Instructions\n\n", "system"),
        words(said, "system", True),
        words(between + schemas, "system", False),
        _END,
    ]


def _said(message: Message, trained: bool, *, thinks: bool, last: bool) -> list[Piece]:
    pieces: list[Piece] = []
    if thinks:
        pieces += [
            _ANALYSIS,
            words(message.reasoning or "", "assistant", trained),
            control(END, "assistant", trained),
        ]
    if message.content or not (thinks or message.tool_calls):
        pieces += [_FINAL, words(message.content, "assistant", trained), control(END, "assistant", trained)]
    for call in message.tool_calls:
        to = call.name if call.name.startswith("functions.") else f"functions.{call.name}"
        pieces += [
            _ASSISTANT,
            words(f" to={to}", "assistant", trained),
            control(f"<|channel|>commentary{MESSAGE}", "assistant", trained),
            words(write_json(call.arguments), "assistant", trained),
            control(CALL, "assistant", trained),
        ]
    if last and not message.tool_calls:
        pieces[-1] = control(RETURN, "assistant", trained)
    return pieces


_ASSISTANT = control(f"{START}assistant", "assistant")
_ANALYSIS = control(f"{START}assistant<|channel|>analysis{MESSAGE}", "assistant")
_FINAL = control(f"{START}assistant<|channel|>final{MESSAGE}", "assistant")


def _result(message: Message, function: str, trained: bool) -> list[Piece]:
    name = function if function.startswith("functions.") else f"functions.{function}"
    return [
        control(START, "tool"),
        words(f"{name} to=assistant", "tool", False),
        control(f"<|channel|>commentary{MESSAGE}", "tool"),
        words(message.content, "tool", trained),
        _END,
    ]


def _has_thoughts(message: Message) -> bool:
    return message.role == "assistant" and bool(message.reasoning)
