"""What is wrong with a config, collected, and told in one answer. Knows no dialect's keys."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from burnish.dialects.masking import mask_secrets
from burnish.errors import ConfigError, Problem
from burnish.literals import printable

_LISTED = 20
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Fault:
    """One reason to refuse, blamed on a key as the user wrote it."""

    kind: Literal["unknown", "not yet", "trainer only", "invalid"]
    key: str
    message: str
    hint: str = ""
    short: str = ""
    """How the key stands in a list of its kind: `model.cp = 8`."""


def refuse(faults: Sequence[Fault]) -> ConfigError:
    """One error for all of them: alone a fault keeps its own sentence, several of a kind share one."""
    problems = tuple(Problem(fault.key, f"{fault.message} {fault.hint}".strip()) for fault in faults)
    if len(faults) == 1:
        return ConfigError(faults[0].message, hint=faults[0].hint, problems=problems)
    of_kind = {kind: [f for f in faults if f.kind == kind] for kind in ("unknown", "trainer only", "not yet")}
    sentences = [
        *_together(of_kind["unknown"], "{n} keys are unknown: {keys}."),
        *_together(of_kind["trainer only"], trainer_only([fault.short for fault in of_kind["trainer only"]])),
        *_together(of_kind["not yet"], "{n} things here are not built into this version: {keys}."),
        *(fault.message for fault in faults if fault.kind == "invalid"),
    ]
    hints = list(dict.fromkeys(fault.hint for fault in faults if fault.hint))
    hint = " ".join(hints) if len(hints) <= 2 else "Correct or remove each; docs/config.md says what every key does."
    return ConfigError(" ".join(sentences), hint=hint, problems=problems)


def _together(faults: Sequence[Fault], sentence: str) -> Iterable[str]:
    if len(faults) == 1:
        return [faults[0].message]
    if not faults:
        return []
    return [sentence.format(n=len(faults), keys=listed([fault.short for fault in faults]))]


def trainer_only(keys: Sequence[str]) -> str:
    are = "are" if len(keys) > 1 else "is"
    return f"Hosted SFT runs are trainer-only: {' and '.join(keys)} {are} not supported here."


def listed(items: Sequence[str]) -> str:
    """`a, b, c`; past twenty, the first ones and how many more."""
    more = len(items) - _LISTED
    return ", ".join(items[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def dotted(path: Sequence[str | int]) -> str:
    """`("data", "splits", 0)` -> `data.splits[0]`; a key that is not a bare word is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        word = part if _BARE.fullmatch(part) else _quoted(part)
        text += ("." if text else "") + _clipped(word)
    return text


def shown(value: Any) -> str:
    """A value as the file spells it, short and without secrets. Tables and lists only by their kind."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _clipped(mask_secrets(_quoted(value)))
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else "a number that long"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return _clipped(str(value))


def _quoted(text: str) -> str:
    return printable(json.dumps(text, ensure_ascii=False))


def _clipped(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
