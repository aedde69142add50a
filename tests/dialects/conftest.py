"""Writing TOML for the tests, and a config that trains."""

import json
from collections.abc import Callable
from typing import Any

import pytest

BASE = {"max_steps": 10, "model": {"name": "team/base"}, "data": {"name": "datasets/x"}}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    return str(value)


def _string(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f") if text.isascii() else _escaped(text)


def _escaped(text: str) -> str:
    # JSON would write a character outside the basic plane as two surrogates, which TOML refuses.
    return '"' + "".join(f"\\U{ord(letter):08x}" for letter in text) + '"'


def write_document(document: dict[str, Any]) -> str:
    return "".join(f"{_string(key)} = {_toml(value)}\n" for key, value in document.items())


@pytest.fixture(scope="session")
def write() -> Callable[[dict[str, Any]], str]:
    """A document as TOML text, its tables inline."""
    return write_document


@pytest.fixture(scope="session")
def asking() -> Callable[..., str]:
    """A config that trains, with the dotted keys set: `asking({"optim.lr": 0.1})`; None takes a key away."""

    def build(keys: dict[str, Any] | None = None) -> str:
        document: dict[str, Any] = json.loads(json.dumps(BASE))
        for key, value in (keys or {}).items():
            *parents, leaf = key.split(".")
            table = document
            for parent in parents:
                table = table.setdefault(parent, {})
            if value is None:
                table.pop(leaf, None)
            else:
                table[leaf] = value
        return write_document(document)

    return build
