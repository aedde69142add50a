"""Holds a document against a schema: what is unknown, malformed, refused or idle. Knows no dialect."""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from burnish.dialects.document import Document
from burnish.dialects.faults import Fault, dotted, shown, trainer_only
from burnish.dialects.nearest import nearest_key
from burnish.dialects.schema import NoEffect, Obeyed, Origin, Refused, Section, keys_of, rows_of, tags_of

KeyPath = tuple[str | int, ...]
S = TypeVar("S", bound=Section)

_SUGGESTED = 20
"""Unknown keys beyond this many get no suggestion: a file that is wrong throughout is not worth the search."""
_DEEPEST = 3


@dataclass(frozen=True)
class Judgement(Generic[S]):
    config: S
    """Valid always: what was at fault is left at its default."""
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Every key is known and well formed, so that keys may be held against each other."""
        return all(fault.kind in ("not yet", "trainer only") for fault in self.faults)


def judge(schema: type[S], document: Document) -> Judgement[S]:
    """All faults of the document at once, in the file's order within each kind, and a note for each idle key."""
    unknown = tuple(_find_unknown(schema, document))
    config, malformed, rest = _validate(schema, document)
    verdicts = tuple(_pass_verdicts(config, rest))
    refused = tuple(item for item in verdicts if isinstance(item, Fault))
    notes = tuple(dict.fromkeys(item for item in verdicts if isinstance(item, str)))
    return Judgement(config, (*unknown, *malformed, *refused), notes)


# -- unknown keys -----------------------------------------------------------


def _find_unknown(schema: type[Section], document: Document) -> Iterator[Fault]:
    known = {row.key: row for row in rows_of(schema) if row.origin is not Origin.OLDER}
    # Obeyed keys first, so that they win where two are equally near.
    names = sorted(known, key=lambda name: not isinstance(known[name].verdict, Obeyed))
    for place, (path, value, elsewhere) in enumerate(_strangers(schema, document, ())):
        yield from [elsewhere] if elsewhere else _suggest(path, value, names if place < _SUGGESTED else [])


def _suggest(path: KeyPath, value: Any, names: Sequence[str]) -> Iterator[Fault]:
    """A table that is like no other is blamed by what is in it: [training.lora] is near to model.lora."""
    near = nearest_key([str(part) for part in path], names)
    inner = [*_suggest_within(path, value, names)] if near is None else []
    yield from inner or [_unknown(path, near)]


def _suggest_within(path: KeyPath, value: Any, names: Sequence[str]) -> Iterator[Fault]:
    if not isinstance(value, dict) or len(path) > _DEEPEST or len(value) > _SUGGESTED:
        return
    for name, item in value.items():
        yield from _suggest((*path, name), item, names)


def _strangers(schema: type[Section], table: Document, path: KeyPath) -> Iterator[tuple[KeyPath, Any, Fault | None]]:
    """Path and value of each unknown key; with a fault where another variant of its table knows it."""
    keys = keys_of(schema)
    for name, value in table.items():
        key, here = keys.get(name), (*path, name)
        if key is None:
            yield here, value, None
        elif isinstance(value, dict):
            section = key.section_for(value)
            if section is None or section.verdict is not None:
                continue
            for stranger, inner, fault in _strangers(section, value, here):
                other = _variant_with(key.sections, stranger, len(here)) if key.tag else None
                elsewhere = _belongs_elsewhere(stranger, here, key.tag or "", other) if other else None
                yield stranger, inner, fault or elsewhere


def _variant_with(sections: Sequence[type[Section]], stranger: KeyPath, depth: int) -> type[Section] | None:
    if len(stranger) != depth + 1:
        return None
    return next((section for section in sections if stranger[-1] in keys_of(section)), None)


def _belongs_elsewhere(stranger: KeyPath, table: KeyPath, tag: str, section: type[Section]) -> Fault:
    value = shown(tags_of(section, tag)[0])
    key, home = dotted(stranger), dotted(table)
    hint = f"Add {tag} = {value} under [{home}]."
    return Fault("unknown", key, f"{key} belongs to {home}.{tag} = {value}.", hint, f"{key} (with {tag} = {value})")


def _unknown(path: KeyPath, near: str | None) -> Fault:
    key = dotted(path)
    if near is None:
        return Fault("unknown", key, f"{key} is not a known key.", "Remove it; docs/config.md lists every key.", key)
    message = f"{key} is not a known key: did you mean {near}?"
    # TOML reads a key below a [section] as the section's own, wherever the writer meant it to belong.
    to_the_top = len(path) > 1 and "." not in near
    hint = "Move it above the first [section]." if to_the_top else "Rename or remove it."
    return Fault("unknown", key, message, hint, f"{key} (did you mean {near}?)")


# -- malformed values -------------------------------------------------------


def _validate(schema: type[S], document: Document) -> tuple[S, tuple[Fault, ...], Document]:
    """The config without the values at fault, those faults, and the document without them."""
    rest, faults = copy.deepcopy(document), dict[str, Fault]()
    while True:
        try:
            return schema.model_validate(rest), tuple(faults.values()), rest
        except ValidationError as error:
            blamed = [(_blame(detail, rest), detail) for detail in error.errors(include_url=False)]
        for path, detail in blamed:
            fault = _malformed(path, detail)
            faults.setdefault(fault.key, fault)
        for path, _ in blamed:
            assert path, "a schema requires a key outside of tagged tables"
            _drop(rest, path)


def _blame(detail: ErrorDetails, document: Document) -> KeyPath:
    """pydantic's place without the names of variants that it passed through: the user's own path."""
    here: Any = document
    path: KeyPath = ()
    part: Any
    for part in detail["loc"]:
        inside_table = isinstance(here, dict) and part in here
        inside_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if inside_table or inside_list:
            here, path = here[part], (*path, part)
    return path


def _drop(document: Document, path: KeyPath) -> None:
    """Take the value away; a list goes as a whole, for its other items mean nothing without this one."""
    here: Any = document
    for part, following in zip(path, (*path[1:], None), strict=True):
        if not isinstance(here, dict) or part not in here:
            return
        if following is None or isinstance(here[part], list):
            del here[part]
            return
        here = here[part]


_NOT_A = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text in quotes",
    "list": "a list",
    "tuple": "a list",
    "model": "a table",
    "dict": "a table",
}


def _malformed(path: KeyPath, detail: ErrorDetails) -> Fault:
    kind, context = detail["type"], detail.get("ctx") or {}
    key, value = dotted(path), detail["input"]
    if isinstance(value, float) and not isfinite(value):
        return Fault("invalid", key, f"{key} must be a finite number.", "Write it as 2e-5.")
    # Values under [env_vars] may be secrets.
    said = f"{key} = {shown(value)}" if path[0] != "env_vars" else key
    match kind:
        case "union_tag_invalid":
            tag = str(context["discriminator"]).strip("'")
            given = value.get(tag) if isinstance(value, dict) else None
            return _not_among(f"{key}.{tag}", f"{key}.{tag} = {shown(given)}", given, str(context["expected_tags"]))
        case "union_tag_not_found":
            tag = str(context["discriminator"]).strip("'")
            return Fault("invalid", f"{key}.{tag}", f"{key}.{tag} is missing.", f"Set {tag} under [{key}].")
        case "literal_error":
            return _not_among(key, said, value, str(context["expected"]))
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            return Fault("invalid", key, f"{said} is out of range: it must be {_range(kind, context)}.")
        case "finite_number":
            return Fault("invalid", key, f"{key} must be a finite number.", "Write it as 2e-5.")
        case "string_too_short" | "too_short":
            return Fault("invalid", key, f"{key} is empty.", "Fill it in, or leave it out.")
    wanted = _NOT_A.get(kind.partition("_")[0], "what this key takes")
    return Fault("invalid", key, f"{said} is not {wanted}.", _way_out(wanted, key))


def _not_among(key: str, said: str, given: object, expected: str) -> Fault:
    """`expected` as pydantic lists it: `'constant', 'linear' or 'cosine'`."""
    near = get_close_matches(str(given), re.findall("'([^']*)'", expected), n=1)
    hint = f'Did you mean "{near[0]}"?' if near else ""
    return Fault("invalid", key, f"{said} is not one of {expected.replace(chr(39), chr(34))}.", hint)


def _range(kind: str, context: dict[str, Any]) -> str:
    words = {"greater_than_equal": ("at least", "ge"), "greater_than": ("above", "gt"),
             "less_than_equal": ("at most", "le"), "less_than": ("below", "lt")}  # fmt: skip
    word, name = words[kind]
    return f"{word} {context[name]:g}" if abs(context[name]) < 1e6 else f"{word} {context[name]}"


def _way_out(wanted: str, key: str) -> str:
    match wanted:
        case "a table":
            return f"Write [{key}] on a line of its own, its keys below."
        case "a number":
            return "Write it as 2e-5 or 0.00002."
        case "a whole number":
            return "Write it as 8."
        case "a list":
            return 'Write it as ["a", "b"].'
    return ""


# -- verdicts ---------------------------------------------------------------


def _pass_verdicts(section: Section, table: Document, path: KeyPath = ()) -> Iterator[Fault | str]:
    """A fault for each refused key that asks for something, a note for each idle one, of the keys that are written."""
    keys = keys_of(type(section))
    for name, written in table.items():
        if name not in keys:
            continue
        key, here, value = keys[name], (*path, name), getattr(section, name)
        match key.verdict:
            case Refused() as refusal:
                if value not in ((key.default,) if refusal.allow is None else refusal.allow):
                    yield _refusal(here, value, refusal)
            case NoEffect(why=why):
                yield f"{dotted(here)} has no effect here: {why}."
            case Obeyed(what=what):
                if key.origin is Origin.OLDER:
                    yield f"{dotted(here)} is an older key: {what}."
                if isinstance(value, Section) and value.verdict is not None:
                    yield _refusal((*here, key.tag or ""), getattr(value, key.tag or ""), value.verdict)
                elif isinstance(value, Section) and isinstance(written, dict):
                    yield from _pass_verdicts(value, written, here)


def _refusal(path: KeyPath, value: Any, refusal: Refused) -> Fault:
    key = dotted(path)
    said = f"[{key}]" if isinstance(value, dict | Section) else f"{key} = {shown(value)}"
    if refusal.kind == "trainer only":
        return Fault(refusal.kind, key, trainer_only([said]), refusal.hint, said)
    return Fault(refusal.kind, key, f"{said} cannot be obeyed: {refusal.why}.", refusal.hint, said)
