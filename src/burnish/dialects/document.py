"""From a config's text to plain tables. Knows TOML, and no key of any dialect."""

import re
import tomllib
from typing import Any

from burnish.errors import ConfigError
from burnish.literals import format_size

Document = dict[str, Any]

LONGEST = 256 * 1024
"""Characters of a config. People write a few thousand; reading is what a server does for many."""

_DEEPEST = 30

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_HINTS = (
    ("Invalid value", "Text goes in quotes, true and false are lower-case, numbers stand bare."),
    ("Cannot", "A section or a key stands there twice: join the two."),
    ("Expected '='", "Write key = value; a comment begins with #."),
    ("Expected newline", "One key = value to a line."),
    ("Unterminated", "Close the quotes."),
    ("Expected ']'", "A section is [name], alone on its line."),
    ("Unclosed array", "Close the list with ]."),
    ("Illegal character", "Close the quotes on the same line."),
)


def read_toml(text: str) -> Document:
    """Parse, or raise a ConfigError that names line and column (1-based, in characters)."""
    if len(text) > LONGEST:
        raise ConfigError(
            f"The config is {format_size(len(text))} long, and {format_size(LONGEST)} is the most.",
            hint="Is it the config? Data goes on a volume: burnish volumes put.",
        )
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ConfigError("The config is empty.", hint="The smallest one that trains is in docs/config.md.")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(text, str(error)) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # int() refuses a number of more than 4300 digits
        raise ConfigError("A number in the config is too long to read.", hint="Write it as 1e9.") from None
    _check_depth(document)
    return document


def _check_depth(document: Document) -> None:
    """What walks a document may then call itself; dotted keys nest without tomllib minding."""
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
        level = [each for each in level if isinstance(each, dict | list)]
    if level:
        raise _too_deep()


def _too_deep() -> ConfigError:
    return ConfigError("The config is nested too deeply to read.", hint="No key lies deeper than 3.")


def _unreadable(text: str, complaint: str) -> ConfigError:
    if text.lstrip().startswith("{"):
        return ConfigError("The config is JSON at line 1, column 1, not TOML.", hint="Write it as TOML: key = value.")
    line, column = _place(text, complaint)
    reason = _PLACE.sub("", complaint)
    hint = next((hint for start, hint in _HINTS if reason.startswith(start)), "https://toml.io shows the forms.")
    reason = reason[:1].lower() + reason[1:]
    return ConfigError(f"The config is not readable TOML at line {line}, column {column}: {reason}.", hint=hint)


def _place(text: str, complaint: str) -> tuple[int, int]:
    match = _PLACE.search(complaint)
    if match and match.group(1):
        return int(match.group(1)), int(match.group(2))
    lines = text.replace("\r\n", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1
