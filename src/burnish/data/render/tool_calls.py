"""Calls of tools as families write them, from JSON objects. Knows no control tokens."""

from collections.abc import Callable
from typing import Any

from burnish.data.conversations import RowFault, ToolCall
from burnish.data.json_text import write_json


def compact(value: Any) -> str:
    """JSON as templates' `tojson` writes it: on one line, in any script."""
    return write_json(value)


def named_arguments(call: ToolCall) -> dict[str, Any]:
    """`RowFault` where a call's arguments have no names, so that a family which writes them by name would lose them."""
    if not isinstance(call.arguments, dict):
        raise RowFault(f"the arguments of the call of {call.name!r} are not an object, so they have no names")
    return call.arguments


def tagged(call: ToolCall, spell: Callable[[Any], str]) -> str:
    """A call between `<function=...>` tags, each argument between `<parameter=...>` tags; begins and ends a line."""
    parts = [f"\n<function={call.name}>\n"]
    parts += [f"<parameter={name}>\n{spell(value)}\n</parameter>\n" for name, value in named_arguments(call).items()]
    return "".join([*parts, "</function>\n"])


def as_python(value: Any) -> str:
    """Objects and lists as JSON, the rest as Python prints it: `True`, `None`."""
    return compact(value) if isinstance(value, dict | list) else str(value)


def as_json(value: Any) -> str:
    """Text as it is, the rest as JSON: `true`, `null`."""
    return value if isinstance(value, str) else compact(value)
