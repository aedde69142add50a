"""What a family has no way to write: refused by name, never dropped in silence."""

from collections.abc import Iterable

from burnish.data.conversations import Conversation, Message, RowFault


def refuse_tools(conversation: Conversation, name: str) -> None:
    """For a family that writes neither schemas, nor calls, nor results."""
    refuse_schemas(conversation, name)
    refuse_calls(conversation.messages, name)
    if any(message.role == "tool" for message in conversation.messages):
        raise RowFault(f"tool results are not rendered by `{name}`")


def refuse_schemas(conversation: Conversation, name: str) -> None:
    if conversation.tools:
        raise RowFault(f"tools are not rendered by `{name}`")


def refuse_calls(messages: Iterable[Message], name: str) -> None:
    if any(message.tool_calls for message in messages):
        raise RowFault(f"tool calls are not rendered by `{name}`")


def refuse_reasoning(messages: Iterable[Message], name: str) -> None:
    """For a family without a place for thoughts. Those between marks in the text are text, and stay."""
    if any(message.reasoning for message in messages):
        raise RowFault(f"reasoning_content is not rendered by `{name}`")


def refuse_text_beside_calls(message: Message, name: str) -> None:
    if message.tool_calls and message.content.strip():
        raise RowFault(f"the text beside a tool call is not rendered by `{name}`")


def refuse_later_system(messages: tuple[Message, ...], name: str) -> None:
    for place in range(1, len(messages)):
        if messages[place].role == "system":
            raise RowFault(f"messages[{place}] is a system turn, and `{name}` has one at the start alone")
