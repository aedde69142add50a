"""Thoughts in a conversation: beside the text (`reasoning_content`), or in front of it between `<think>` marks."""

from burnish.data.conversations import Message


def split_thoughts(message: Message) -> tuple[str, str]:
    """Thoughts and answer. A field wins over marks; without either, the thoughts are empty."""
    content = message.content
    if message.reasoning is not None:
        return message.reasoning, content
    if "</think>" not in content:
        return "", content
    thoughts = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
    return thoughts, content.split("</think>")[-1].lstrip("\n")


def last_query(messages: tuple[Message, ...]) -> int:
    """The place of the last real question; a tool's result in a user's turn is none."""
    for place in range(len(messages) - 1, -1, -1):
        content = messages[place].content
        if messages[place].role == "user" and not (
            content.startswith("<tool_response>") and content.endswith("</tool_response>")
        ):
            return place
    return len(messages) - 1


def thoughts_before(messages: tuple[Message, ...], place: int) -> tuple[int, ...]:
    """Assistant turns before `place` that have thoughts."""
    return tuple(
        at
        for at, message in enumerate(messages[:place])
        if message.role == "assistant" and split_thoughts(message)[0].strip()
    )
