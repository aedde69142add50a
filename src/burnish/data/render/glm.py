"""GLM 4.5, 5, 5.1 and 5.3: a turn ends where the next one's mark begins, and that mark is the model's to say.

Held against `renderers` 0.1.12, from which they differ on purpose in this: text of a row is never a control token;
a call without text is written without text (that package writes `None` into 4.5 and 5); GLM 4.5's newline before
a think block is trained, since its prompt ends before it, and what a prompt holds is not. An answer that nothing
follows is closed by `<|endoftext|>`, as there, and an empty one too.

GLM 5 asked to think and answering without a thought is written `</think>`, as its template has it, though its prompt
ends in `<think>`: for such rows turn `enable_thinking` off.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from burnish.data.conversations import Conversation, Message, ToolCall
from burnish.data.render.chatml import NOTHING, body
from burnish.data.render.pieces import History, Piece, control, is_trained, words
from burnish.data.render.thinking import split_thoughts, thoughts_before
from burnish.data.render.tool_calls import as_json, compact, named_arguments
from burnish.spec.train import LossMask

OPENING, END = "[gMASK]<sop>", "<|endoftext|>"
MARKS = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>", "tool": "<|observation|>"}
THINK, THOUGHT = "<think>", "</think>"
TOOLS_BEFORE = (
    "<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
)
TOOLS_AFTER = (
    "</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n"
)
INNER_KEYS = ("defer_loading", "strict")
"""Of a tool's schema: what an API reads and a model does not."""


@dataclass(frozen=True)
class GLM5:
    """GLM 5; and 5.1, which thinks in an empty block where there are no thoughts, and unwraps the schemas of tools."""

    name: str = "glm-5"
    enable_thinking: bool = True
    """Off, a prompt ends in `</think>`."""
    clear_thinking: bool = True
    """Leave the thoughts of answers before the last question out."""
    end_of_turn: str = END
    needs: tuple[str, ...] = ("[gMASK]", "<sop>", *MARKS.values(), THINK, THOUGHT, END)
    shows_images: bool = False
    ends: ClassVar[tuple[str, ...]] = (MARKS["user"], MARKS["tool"], END)
    """Any of which an answer ends with, by what comes next."""
    call_form: ClassVar[str] = (
        "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>"
        "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>"
    )

    def write(self, conversation: Conversation, loss_mask: LossMask) -> list[Piece]:
        messages = conversation.messages
        pieces = [control(OPENING + self.preamble()), *self._tools(conversation)]
        query = last_user(messages)
        answered = False
        """Whether the turn before is an answer that is trained: then this turn's mark is its end."""
        for place, message in enumerate(messages):
            trained = is_trained(message, loss_mask)
            if message.role == "assistant":
                pieces += self.answer(message, trained, thinks=place > query)
            elif message.role == "tool":
                if place == 0 or messages[place - 1].role != "tool":
                    pieces.append(_mark("tool", answered))
                    for at in self.order(messages, place):
                        pieces += self.result(messages[at].content, is_trained(messages[at], loss_mask))
            else:
                pieces.append(_mark(message.role, answered and message.role == "user"))
                pieces += self.said(message, trained)
            answered = trained and message.role == "assistant"
        return [*pieces, control(END, "assistant", True)] if answered else pieces

    def write_prompt(self, messages: tuple[Message, ...]) -> list[Piece]:
        return [*self.write(Conversation(messages), NOTHING), control(self.header(), "assistant")]

    def history(self, conversation: Conversation) -> History:
        messages = conversation.messages
        return History(thoughtless=thoughts_before(messages, last_user(messages))) if self.clear_thinking else History()

    def preamble(self) -> str:
        return ""

    def header(self) -> str:
        return MARKS["assistant"] + (THINK if self.enable_thinking else THOUGHT)

    def schema(self, tool: dict[str, Any]) -> dict[str, Any]:
        return tool if self.name == "glm-5" else bare_schema(tool)

    def said(self, message: Message, trained: bool) -> list[Piece]:
        return [words(message.content, message.role, trained)]

    def answer(self, message: Message, trained: bool, *, thinks: bool) -> list[Piece]:
        thoughts, content = split_thoughts(message)
        if thoughts and (thinks or not self.clear_thinking):
            pieces = [
                control(MARKS["assistant"] + THINK, "assistant"),
                words(thoughts.strip(), "assistant", trained),
                control(THOUGHT, "assistant", trained),
            ]
        elif thinks and self.enable_thinking and self.name == "glm-5.1":
            pieces = [control(MARKS["assistant"] + THINK, "assistant"), control(THOUGHT, "assistant", trained)]
        else:
            pieces = [control(MARKS["assistant"] + THOUGHT, "assistant")]
        return [*pieces, words(content.strip(), "assistant", trained), *self.calls(message.tool_calls, trained)]

    def calls(self, calls: tuple[ToolCall, ...], trained: bool) -> list[Piece]:
        pieces = []
        for call in calls:
            pieces += [control("<tool_call>", "assistant", trained), words(call.name, "assistant", trained)]
            for name, value in named_arguments(call).items():
                pieces += [
                    control("<arg_key>", "assistant", trained),
                    words(name, "assistant", trained),
                    control("</arg_key><arg_value>", "assistant", trained),
                    words(as_json(value), "assistant", trained),
                    control("</arg_value>", "assistant", trained),
                ]
            pieces.append(control("</tool_call>", "assistant", trained))
        return pieces

    def result(self, content: str, trained: bool) -> list[Piece]:
        return [
            control("<tool_response>", "tool"),
            words(content, "tool", trained),
            control("</tool_response>", "tool"),
        ]

    def order(self, messages: tuple[Message, ...], start: int) -> list[int]:
        """Places of the results from `start` on, as they are written."""
        end = start
        while end < len(messages) and messages[end].role == "tool":
            end += 1
        return list(range(start, end))

    def _tools(self, conversation: Conversation) -> list[Piece]:
        if not conversation.tools:
            return []
        schemas = "".join(compact(self.schema(tool)) + "\n" for tool in conversation.tools)
        return [
            control(TOOLS_BEFORE, "system"),
            words(schemas, "system", False),
            control(TOOLS_AFTER + self.call_form, "system"),
        ]


@dataclass(frozen=True)
class GLM53(GLM5):
    """GLM 5.3: always thinks, tells how hard, and puts results in the order of the calls that they answer."""

    name: str = "glm-5.3"
    clear_thinking: bool = False
    reasoning_effort: str = "max"

    def preamble(self) -> str:
        return f"<|system|>Reasoning Effort: {self.reasoning_effort.capitalize()}"

    def answer(self, message: Message, trained: bool, *, thinks: bool) -> list[Piece]:
        thoughts, content = split_thoughts(message)
        if message.reasoning is None:
            thoughts = thoughts.strip()
        kept = thoughts if thinks or not self.clear_thinking else ""
        return [
            control(MARKS["assistant"] + THINK, "assistant"),
            words(kept, "assistant", trained),
            control(THOUGHT, "assistant", trained),
            words(content.strip(), "assistant", trained),
            *self.calls(message.tool_calls, trained),
        ]

    def order(self, messages: tuple[Message, ...], start: int) -> list[int]:
        """That of the calls, if each has one result and all have ids; else that of the row."""
        places = super().order(messages, start)
        calls = messages[start - 1].tool_calls if start else ()
        answered = {messages[at].call_id: at for at in places}
        asked = [call.id for call in calls]
        if "" in asked or len(asked) != len(places) or set(asked) != set(answered) or len(answered) != len(places):
            return places
        return [answered[each] for each in asked]


@dataclass(frozen=True)
class GLM45(GLM5):
    """GLM 4.5: marks and calls on lines of their own, an empty think block in every answer without thoughts."""

    name: str = "glm-4.5"
    enable_thinking: bool = True
    """Off, questions end in `/nothink`, and the prompt holds the empty block."""
    call_form: ClassVar[str] = (
        "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}</arg_value>\n"
        "<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>\n...\n</tool_call>"
    )

    def header(self) -> str:
        return MARKS["assistant"] + ("" if self.enable_thinking else f"\n{THINK}{THOUGHT}")

    def schema(self, tool: dict[str, Any]) -> dict[str, Any]:
        return tool

    def said(self, message: Message, trained: bool) -> list[Piece]:
        pieces = body("\n", message.content, "", message.role, trained)
        if message.role == "user" and not self.enable_thinking and not message.content.endswith("/nothink"):
            pieces.append(control("/nothink", "user"))
        return pieces

    def answer(self, message: Message, trained: bool, *, thinks: bool) -> list[Piece]:
        thoughts, content = split_thoughts(message)
        kept = thoughts.strip() if thinks else ""
        # The prompt goes as far as the mark, or as the empty block where thinking is off.
        prompted = not self.enable_thinking and not (thinks and thoughts)
        answer = content.strip()
        said = f"\n{answer}\n" if answer and message.tool_calls else f"\n{answer}" if answer else ""
        return [
            control(MARKS["assistant"], "assistant"),
            control(f"\n{THINK}", "assistant", trained and not prompted),
            words(kept, "assistant", trained),
            control(THOUGHT, "assistant", trained and not prompted),
            words(said, "assistant", trained),
            *(piece for call in message.tool_calls for piece in self._call(call, trained, alone=not answer)),
        ]

    def result(self, content: str, trained: bool) -> list[Piece]:
        return [
            control("\n<tool_response>", "tool"),
            *body("\n", content, "\n", "tool", trained),
            control("</tool_response>", "tool"),
        ]

    def _call(self, call: ToolCall, trained: bool, *, alone: bool) -> list[Piece]:
        pieces = [
            control("\n<tool_call>" if alone else "<tool_call>", "assistant", trained),
            words(f"{call.name}\n", "assistant", trained),
        ]
        for name, value in named_arguments(call).items():
            pieces += [
                control("<arg_key>", "assistant", trained),
                words(name, "assistant", trained),
                control("</arg_key>\n<arg_value>", "assistant", trained),
                words(as_json(value), "assistant", trained),
                control("</arg_value>\n", "assistant", trained),
            ]
        return [*pieces, control("</tool_call>", "assistant", trained)]


def last_user(messages: tuple[Message, ...]) -> int:
    """The place of the last question; -1 where there is none."""
    return next((place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "user"), -1)


def bare_schema(tool: dict[str, Any]) -> dict[str, Any]:
    """The function itself, without the keys that are an API's business."""
    function = tool.get("function", tool)
    return {key: value for key, value in function.items() if key not in INNER_KEYS}


def _mark(role: str, ends_answer: bool) -> Piece:
    return control(MARKS[role], "assistant", True) if ends_answer else control(MARKS[role], role)
