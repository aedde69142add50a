"""The tables of keys in docs/config.md, as the schema has them. Run as a program it writes them there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from burnish.dialects.prime_schema import PrimeConfig
from burnish.dialects.schema import NoEffect, Obeyed, Origin, Refused, Row, Section, rows_of

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
START = "<!-- tables: written by tests/dialects/config_tables.py -->\n"

_MARK = {Origin.PRIME: "", Origin.HOSTED: " ¹", Origin.BURNISH: " ²", Origin.OLDER: " ³"}


def render_tables() -> str:
    rows = [row for row in rows_of(PrimeConfig) if not _only_holds_keys(row)]
    return "\n".join(
        [
            *_table("Obeyed", "what it sets", [row for row in rows if isinstance(row.verdict, Obeyed)]),
            *_table("Accepted, without effect", "why", [row for row in rows if isinstance(row.verdict, NoEffect)]),
            *_table("Refused by name", "why", [row for row in rows if isinstance(row.verdict, Refused)]),
        ]
    )


def page_with(tables: str) -> str:
    return PAGE.read_text().partition(START)[0] + START + tables


def _table(title: str, column: str, rows: list[Row]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield f"| key | default | {column} |"
    yield "|---|---|---|"
    variants: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        variants.setdefault((row.key, _told(row)), []).append(row)
    for (key, told), same in variants.items():
        if _is_the_tag(same[0]):
            values = " or ".join(row.when.partition(" = ")[2] for row in same)
            yield f"| `{key} = {values}` |  | {told} |"
        else:
            yield f"| `{key}`{_MARK[same[0].origin]}{_where(same)} | {_default(same[0].default)} | {told} |"


def _only_holds_keys(row: Row) -> bool:
    return isinstance(row.verdict, Obeyed) and isinstance(row.default, Section)


def _is_the_tag(row: Row) -> bool:
    """`data.type` where `type = "fake"`: the key that chooses the variant."""
    return row.when.partition(" = ")[0] == row.key.rpartition(".")[2]


def _where(same: list[Row]) -> str:
    """The variants that have the key; nothing where all do."""
    table = same[0].key.split(".")[0]
    whens = list(dict.fromkeys(row.when for row in same))
    if whens == [""] or set(whens) == {row.when for row in rows_of(PrimeConfig) if row.key.startswith(f"{table}.")}:
        return ""
    return f" (where `{'` or `'.join(whens)}`)"


def _told(row: Row) -> str:
    match row.verdict:
        case Obeyed(what=what):
            return what
        case NoEffect(why=why):
            return why
        case Refused(why=why, hint=hint):
            return f"{why}. {hint}".strip()


def _default(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, Section):
        return "on"
    if isinstance(value, tuple):
        value = list(value)
    return f"`{value:g}`" if isinstance(value, float) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    PAGE.write_text(page_with(render_tables()))
