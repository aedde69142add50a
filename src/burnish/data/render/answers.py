"""Which function a tool's result comes from."""

from burnish.data.conversations import Message


def functions_of_results(messages: tuple[Message, ...]) -> dict[int, str]:
    """By a result's place. The row's own word counts, then the id, then the order of calls; else `unknown`."""
    named: dict[str, str] = {}
    waiting: list[tuple[str, str]] = []
    found: dict[int, str] = {}
    for place, message in enumerate(messages):
        if message.role != "tool":
            if message.tool_calls:
                waiting = [(call.id, call.name) for call in message.tool_calls]
                named |= dict(waiting)
            continue
        at = next((at for at, (call_id, _) in enumerate(waiting) if message.call_id and call_id == message.call_id), 0)
        in_order = waiting.pop(at)[1] if waiting else "unknown"
        by_id = named.get(message.call_id) if message.call_id else None
        found[place] = message.tool_name or by_id or in_order
    return found
