"""Which call a tool's result answers: the function it comes from, and ids where a family asks for its own."""

from burnish.data.conversations import Message, RowFault, ToolCall


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


class NineLetterIds:
    """How calls are named where they are made and where they are answered, by families that ask for nine letters.

    Ids of the row that fit are kept; other calls are numbered.
    """

    def __init__(self) -> None:
        self._made = 0
        self._open: dict[str, str] = {}
        """As the row names a call, or its number, and as it is written; in order, answered ones taken out."""

    def of_call(self, call: ToolCall) -> str:
        fits = len(call.id) == 9 and call.id.isalnum()
        written = call.id if fits else f"{self._made:09}"
        self._open[call.id or str(self._made)] = written
        self._made += 1
        return written

    def of_result(self, message: Message) -> str:
        asked = message.call_id if message.call_id in self._open else next(iter(self._open), None)
        if asked is None:
            raise RowFault("a tool's result answers no call")
        return self._open.pop(asked)
