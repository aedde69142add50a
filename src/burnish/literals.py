"""The little languages inside strings: run ids, sizes, durations, model references, paths on a volume."""

import re
import secrets
from pathlib import PurePosixPath

from burnish.errors import VolumeError

_RUN_ID = re.compile(r"job_[0-9a-f]{16}")
_VOLUME_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(Ki|Mi|Gi|Ti|Pi|K|M|G|T|P)?(?:B)?\s*")
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d|w)\s*")

_UNITS = {"": 1} | {
    letter + suffix: base**power
    for power, letter in enumerate("KMGTP", start=1)
    for suffix, base in (("i", 1024), ("", 1000))
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def new_run_id() -> str:
    """`job_` and 16 hex digits: the form that every guest's client accepts."""
    return f"job_{secrets.token_hex(8)}"


def is_run_id(text: str) -> bool:
    return _RUN_ID.fullmatch(text) is not None


def parse_size(text: str) -> int:
    """Bytes in `100Gi`, `1.5Ti`, `500M` or a bare count of bytes. `Gi` is 1024**3, `G` is 1000**3."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise VolumeError(f"{text!r} is not a size.", hint="Write a number and a unit: 500Mi, 100Gi or 2Ti.")
    number, unit = match.groups()
    size = int(float(number) * _UNITS[unit or ""]) if "." in number else int(number) * _UNITS[unit or ""]
    if size <= 0:
        raise VolumeError(f"{text!r} is no room at all.", hint="Write a size above zero: 500Mi, 100Gi or 2Ti.")
    return size


def format_size(size_bytes: int) -> str:
    """`107374182400` -> `100Gi`; at most one decimal, the smallest unit that leaves a number below 1024 as written."""
    for power, unit in enumerate(("B", "Ki", "Mi", "Gi", "Ti")):
        number = f"{size_bytes / 1024**power:.1f}".removesuffix(".0")
        if float(number) < 1024:
            return number + unit
    return f"{size_bytes / 1024**5:.1f}".removesuffix(".0") + "Pi"


def parse_duration(text: str) -> float:
    """Seconds in `90s`, `15m`, `3d`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write 90s, 15m, 12h or 3d")
    return float(match.group(1)) * _SECONDS[match.group(2)]


def check_volume_name(name: str) -> str:
    if _VOLUME_NAME.fullmatch(name) is None:
        raise VolumeError(
            f"{name!r} cannot name a volume.",
            hint="Use 1 to 63 lower-case letters, digits and '-', not at either end: research, team-a.",
        )
    return name


def printable(text: str, *, keep: str = "") -> str:
    """The text with every character that a terminal would obey rather than show spelt out: `\\x1b[31m`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else ascii(each)[1:-1] for each in text)


def volume_path(text: str) -> PurePosixPath:
    """A path on a volume, relative to its root. A leading `/volume/` or `/` means the root.

    `datasets/x`, `/datasets/x` and `/volume/datasets/x` are one place. A path that climbs out, holds a NUL or
    a backslash is refused.
    """
    if "\0" in text or "\\" in text:
        raise VolumeError(f"{text!r} cannot be a path on a volume.", hint="Use / between folders: datasets/my-data.")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if parts[:1] == ["volume"]:
        parts = parts[1:]
    if ".." in parts:
        raise VolumeError(f"{text!r} leaves the volume.", hint="Write the path from the root: /datasets/my-data.")
    return PurePosixPath(*parts)


def full_model_id(base: str, run_id: str) -> str:
    """The catalogue's name of a full fine-tune: `ft:<base>:<job>`."""
    return f"ft:{base}:{run_id}"


def adapter_model_id(base: str, run_id: str) -> str:
    """The catalogue's name of an adapter: `peft:<base>:<job>`."""
    return f"peft:{base}:{run_id}"


def split_model_id(text: str) -> tuple[str, str, str] | None:
    """`ft:<base>:<job>` or `peft:<base>:<job>` as (kind, base, run id); None for any other name."""
    kind, _, rest = text.partition(":")
    base, _, run_id = rest.rpartition(":")
    if kind in ("ft", "peft") and base and is_run_id(run_id):
        return kind, base, run_id
    return None
