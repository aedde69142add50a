"""What a model may be called in the cache, and what the words after `burnish models add` point to."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from burnish.errors import ModelError

TINY = "burnish/tiny"

_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"{_PART}(/{_PART})?")


@dataclass(frozen=True)
class ModelSource:
    kind: Literal["tiny", "folder", "gguf", "hub"]
    origin: str
    """An absolute path, a hub id or `burnish/tiny`: two sources are one when this is equal."""
    default_name: str


def check_model_name(name: str) -> str:
    """`name` or `owner/name`. `--` and `..` are refused: the first stands for `/` on disk, the second climbs."""
    if _NAME.fullmatch(name) is None or "--" in name or ".." in name:
        raise ModelError(
            f"{name!r} cannot name a model.",
            hint="Use name or owner/name of letters, digits, '.', '_' and single '-': acme/triage-1.",
        )
    return name


def read_source(text: str) -> ModelSource:
    """A path starts with `/`, `~` or `.`; anything else is a hub id, whatever lies in the current folder."""
    if text == TINY:
        return ModelSource("tiny", TINY, TINY)
    if text.startswith(("/", "~", ".")):
        return _read_path(text)
    try:
        return ModelSource("hub", check_model_name(text), text)
    except ModelError as error:
        raise ModelError(
            f"{text!r} is neither a hub id nor a whole path.",
            hint="Write owner/name for the hub, or the path from the root: /home/me/models/triage.",
        ) from error


def _read_path(text: str) -> ModelSource:
    try:
        path = Path(text).expanduser().resolve()
        path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, a NUL, a user that nobody is
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"{text[:80]!r} cannot be a path on the server's machine ({reason}).") from error
    if path.is_dir():
        return ModelSource("folder", str(path), path.name)
    if path.is_file() and path.suffix.lower() == ".gguf":
        return ModelSource("gguf", str(path), path.stem)
    if path.exists():
        raise ModelError(
            f"{path} is neither a folder nor a GGUF file.",
            hint="Give the folder that holds config.json, the weights and the tokenizer.",
        )
    raise ModelError(f"There is no {path} on the server's machine.", hint="Give a folder, a .gguf file or a hub id.")
