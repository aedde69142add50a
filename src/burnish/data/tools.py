"""Tools and their calls as rows give them, in one shape. JSON text is read to the letter; knows nothing of turns."""

from typing import Any, NamedTuple

from burnish.data.json_text import JsonFault, read_json
from burnish.data.ledger import RowFault

DEEPEST = 64
"""Levels of a tool's schema or arguments."""


class ToolCall(NamedTuple):
    name: str
    arguments: Any
    """An object; JSON text in the row was parsed, so that both spellings render alike."""
    id: str = ""
    """What results name it by; empty where the row says nothing."""


def read_calls(value: Any, place: str) -> tuple[ToolCall, ...]:
    """Calls as a list, an object or JSON text of either; each with its function's name in it or under `function`."""
    if isinstance(value, str):
        value = parsed(value, place)
    calls = []
    for call in value if isinstance(value, list) else [value]:
        function = call.get("function") or call if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RowFault(f"{place} holds a call without a function name")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            arguments = parsed(arguments, f"{place} arguments") if arguments.strip() else {}
        arguments = plain(arguments, f"{place} arguments")
        arguments = {} if arguments is None else arguments
        calls.append(ToolCall(function["name"], arguments, label(call, "id", "tool_call_id")))
    return tuple(calls)


def read_tools(row: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The functions of `tools` or `tool_defs`, a list or JSON text, each as `{"type": "function", "function": ...}`.

    `{"name", "description", "parameters"}`, as `verifiers` has them, comes into that shape.
    """
    value = row.get("tools") or row.get("tool_defs") or ()
    if isinstance(value, str):
        value = (parsed(value, "tools") if value.strip() else None) or ()
    if not isinstance(value, list | tuple):
        raise RowFault("tools is not a list of function schemas")
    return tuple(_function(parsed(tool, "tools") if isinstance(tool, str) else tool) for tool in value)


def parsed(text: str, place: str) -> Any:
    try:
        return read_json(text.encode())
    except (JsonFault, UnicodeEncodeError) as error:
        raise RowFault(f"{place} is text, but not JSON ({error})") from error


def plain(value: Any, place: str, depth: int = 0) -> Any:
    """The value as it is, if JSON can write it: parquet has dates and bytes, and nesting may have no end."""
    if depth > DEEPEST:
        raise RowFault(f"{place} is nested more than {DEEPEST} deep")
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        plain(each, place, depth + 1)
    if value is not None and not isinstance(value, str | bool | int | float | list | dict):
        raise RowFault(f"{place} holds a {type(value).__name__}, which JSON cannot write")
    return value


def label(value: dict[str, Any], *keys: str) -> str:
    """The first of these that is text; ids are only compared and written, so a number's spelling will do."""
    return next((str(value[key]) for key in keys if isinstance(value.get(key), str | int) and value[key] != ""), "")


def _function(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise RowFault("tools is not a list of function schemas")
    if "function" in tool and not isinstance(tool["function"], dict):
        raise RowFault("tools holds a function that is not an object")
    if "function" not in tool and isinstance(tool.get("name"), str):
        inner = {key: value for key, value in tool.items() if key != "type"}
        tool = {"type": "function", "function": inner}
    return plain(tool, "tools")
