"""Schemas of functions as harmony has them: types of a TypeScript namespace, with comments. Knows no control tokens.

JSON's types become TypeScript's where it has them (`integer` is `number`) and `any` where it does not.
"""

import json
from collections.abc import Iterator
from typing import Any

_DEEPER, _VARIANT = "    ", "   "


def write_namespace(tools: tuple[dict[str, Any], ...], name: str = "functions") -> str:
    """The namespace, from `namespace` to the comment that closes it."""
    lines = [f"namespace {name} {{", ""]
    for tool in tools:
        function = tool.get("function") or tool
        lines += [f"// {line}" for line in _lines(function.get("description") or "")]
        lines += [f"type {function.get('name', '')} = (_: {_type(function.get('parameters') or {}, '')}) => any;", ""]
    return "\n".join([*lines, f"}} // namespace {name}"])


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _type(schema: Any, indent: str) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("oneOf"), list):
        return "".join(f"\n{each}" for each in _variants(schema["oneOf"], indent, bare=False))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join("number" if each == "integer" else each for each in kind if isinstance(each, str)) or "any"
    match kind:
        case "object":
            return _object(schema, indent)
        case "string":
            allowed = schema.get("enum")
            texts = [each for each in allowed if isinstance(each, str)] if isinstance(allowed, list) else []
            return " | ".join(f'"{each}"' for each in texts) or "string"
        case "number" | "integer":
            return "number"
        case "boolean":
            return "boolean"
        case "array":
            return f"{_type(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
        case _:
            return "any"


def _object(schema: dict[str, Any], indent: str) -> str:
    lines = _comment(schema.get("description"), indent)
    lines.append("{")
    properties, required = schema.get("properties"), schema.get("required")
    for name, value in properties.items() if isinstance(properties, dict) else ():
        needed = isinstance(required, list) and name in required
        lines += _property(name if needed else f"{name}?", value if isinstance(value, dict) else {}, indent)
    return "\n".join([*lines, indent + "}"])


def _property(name: str, schema: dict[str, Any], indent: str) -> Iterator[str]:
    if isinstance(schema.get("title"), str):
        yield from (f"{indent}// {schema['title']}", f"{indent}//")
    described, default = _comment(schema.get("description"), indent), _default(schema)
    one_of = schema.get("oneOf")
    if "oneOf" not in schema:
        yield from described
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        yield f"{indent}// Examples:"
        yield from (f'{indent}// - "{each}"' for each in examples if isinstance(each, str))
    if isinstance(one_of, list):
        said = schema.get("description")
        if said != (one_of[0].get("description") if one_of and isinstance(one_of[0], dict) else None):
            yield from described
        if default:
            yield f"{indent}// {default}"
        yield from (f"{indent}{name}:", *_variants(one_of, indent, bare=True, said=said), f"{indent},")
        return
    yield f"{indent}{name}: {_nullable(schema, indent + _DEEPER)},{f' // {default}' if default else ''}"


def _variants(schemas: list[Any], indent: str, *, bare: bool, said: Any = None) -> Iterator[str]:
    """Of a property, the default of an enumeration stands without quotes.

    `said` is what describes the property: no variant says it again, and the first then says nothing of its own.
    """
    for place, schema in enumerate(schemas):
        variant = schema if isinstance(schema, dict) else {}
        described = variant.get("description")
        told = isinstance(said, str) and (place == 0 or described == said)
        comments = [described] if isinstance(described, str) and not told else []
        comments += [_default(variant, bare=bare)] if "default" in variant else []
        behind = f" // {' '.join(comments)}" if comments else ""
        yield f"{indent} | {_nullable(variant, indent + _VARIANT)}{behind}"


def _nullable(schema: dict[str, Any], indent: str) -> str:
    kind = _type(schema, indent)
    return f"{kind} | null" if schema.get("nullable") is True and "null" not in kind else kind


def _comment(text: Any, indent: str) -> list[str]:
    return [f"{indent}// {text}"] if isinstance(text, str) else []


def _default(schema: dict[str, Any], *, bare: bool = True) -> str:
    if "default" not in schema:
        return ""
    value, allowed = schema["default"], schema.get("enum")
    if not isinstance(value, str):
        return f"default: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
    return f"default: {value}" if bare and isinstance(allowed, list) and allowed else f'default: "{value}"'
