"""How a dialect writes down its keys: typed fields, each with a verdict on what becomes of it.

A schema is the one table of a dialect's keys; reading, refusing, suggesting and the documentation all walk it.
Knows no dialect.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class Origin(StrEnum):
    """Who gave the key its name."""

    PRIME = "prime-rl"
    OLDER = "older prime-rl"
    HOSTED = "hosted wrapper"
    BURNISH = "burnish"


@dataclass(frozen=True)
class Obeyed:
    what: str
    """What it sets, in a phrase; for an older key, how it is read."""


@dataclass(frozen=True)
class NoEffect:
    """Accepted, with a note that says why it changes nothing."""

    why: str


@dataclass(frozen=True)
class Refused:
    """Known, and not done. Values in `allow` pass, because they ask for nothing."""

    why: str
    hint: str = ""
    allow: tuple[Any, ...] | None = None
    """None allows the field's default alone."""
    kind: Literal["not yet", "trainer only", "invalid"] = "not yet"


Verdict = Obeyed | NoEffect | Refused


class Section(BaseModel):
    """One table of a config. Keys it does not name are found by `judge`, not by pydantic."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    verdict: ClassVar[Refused | None] = None
    """Set on the variants of a tagged table that are refused whole."""


def _whole(value: Any) -> Any:
    """pydantic would take true for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_not_bool", "true and false are not numbers")
    return value


def _real(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("float_not_bool", "true and false are not numbers")
    return value


# Beyond 2**53 a number is a slip of the finger, and no database or JSON reader keeps it exactly.
Whole = Annotated[int, BeforeValidator(_whole), Field(ge=-(2**53), le=2**53)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=2**53)]
CountOrZero = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=2**53)]
Number = Annotated[float, BeforeValidator(_real), Field(allow_inf_nan=False)]
NotNegative = Annotated[float, BeforeValidator(_real), Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Key:
    """What a schema says of one field."""

    name: str
    verdict: Verdict
    origin: Origin
    default: Any
    sections: tuple[type[Section], ...]
    """The tables that may stand here: none, one, or the variants of a tagged one."""
    tag: str | None
    """The key inside that tells the variants apart."""

    def section_for(self, table: dict[str, Any]) -> type[Section] | None:
        """The variant that `table` names by its tag; None where it names none."""
        if self.tag is None:
            return self.sections[0] if self.sections else None
        return next((s for s in self.sections if _is_one_of(table.get(self.tag), tags_of(s, self.tag))), None)


@dataclass(frozen=True)
class Row:
    """One line of the table of keys, as documentation and suggestions want it."""

    key: str
    when: str
    """`type = "linear"` where the key belongs to one variant of a table, else empty."""
    verdict: Verdict
    origin: Origin
    default: Any


@cache
def keys_of(section: type[Section]) -> dict[str, Key]:
    return {name: _key(name, field) for name, field in section.model_fields.items()}


def rows_of(schema: type[Section], prefix: str = "", when: str = "") -> Iterator[Row]:
    """Every key of the schema, in its order, tables before what is in them."""
    for key in keys_of(schema).values():
        path = f"{prefix}{key.name}"
        yield Row(path, when, key.verdict, key.origin, key.default)
        for section in key.sections:
            inner = _when(section, key.tag) or when
            if section.verdict is None:
                yield from rows_of(section, f"{path}.", inner)
            else:
                yield Row(f"{path}.{key.tag}", inner, section.verdict, key.origin, None)


def tags_of(section: type[Section], tag: str) -> tuple[str, ...]:
    return get_args(section.model_fields[tag].annotation)


def _key(name: str, field: FieldInfo) -> Key:
    verdict = next(item for item in field.metadata if isinstance(item, Verdict))
    origin = next((item for item in field.metadata if isinstance(item, Origin)), Origin.PRIME)
    tag = field.discriminator if isinstance(field.discriminator, str) else None
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return Key(name, verdict, origin, default, tuple(_sections(field.annotation)), tag)


def _sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


def _when(section: type[Section], tag: str | None) -> str:
    if tag is None:
        return ""
    return f"{tag} = " + " or ".join(f'"{name}"' for name in tags_of(section, tag))


def _is_one_of(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in names
