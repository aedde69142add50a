"""The configurations that a data set's README names in its front matter, as the Hugging Face hub has them.

Knows YAML and patterns of names; which files there are is the caller's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import yaml

from burnish.data.archives import is_archive
from burnish.errors import DataError

MOST_BYTES = 1 << 20

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The quick one where there is one: the front matter of a large collection has thousands of lines."""


@dataclass(frozen=True)
class Configuration:
    name: str
    default: bool = False
    folder: str = ""
    """`data_dir`, in which its files and patterns are."""
    patterns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By split, names of files with `*` and `**`; none leaves it to the names of the files."""


def read_configurations(readme: bytes, name: str) -> list[Configuration]:
    """None where there is no front matter or no `configs` in it. `DataError` for one that cannot be understood."""
    text = readme.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    front = re.match(r"---[ \t]*\n(.*?\n)---[ \t]*(\n|$)", text, re.DOTALL)
    if front is None:
        return []
    try:
        facts = yaml.load(front[1], Loader=_LOADER)
    except Exception as error:  # a value that is not what its tag says fails in any way
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 2}" if where else ""
        raise DataError(f"{name}{line}: the front matter is not YAML.", hint=_CORRECT) from error
    configs = facts.get("configs") if isinstance(facts, dict) else None
    if configs is None:
        return []
    if not isinstance(configs, list):
        raise _fault(name, "configs is no list")
    found = [_configuration(each, name) for each in configs]
    titles = [each.name for each in found]
    if double := next((title for title in titles if titles.count(title) > 1), None):
        raise _fault(name, f"configs names {double!r} twice")
    return found


def is_match(file: str, pattern: str) -> bool:
    """`data/train-*.parquet`; `**` reaches over folders. A name without either is a file, a folder or an archive."""
    if not re.search(r"[*?\[]", pattern):
        return file == pattern or file.startswith(pattern.rstrip("/") + "/")
    places = {0}
    for part in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern):
        places = {after for after in _after(part, file, places) if after <= len(file)}
    # What lies in an archive is named by it: data/*.zip is all that is in them.
    return any(place == len(file) or (file[place] == "/" and is_archive(file[:place])) for place in places)


def _after(part: str, file: str, places: set[int]) -> Iterable[int]:
    """How far a part of a pattern may reach that begins at one of `places`. All ways are gone at once, as a search
    that tries one after the other may take for ever."""
    if not places or not part:
        return places
    first = min(places)
    match part:
        case "**":
            return range(first, len(file) + 1)
        case "**/":
            return places | {place + 1 for place in range(first, len(file)) if file[place] == "/"}
        case "*":
            return {after for place in places for after in range(place, _slash(file, place) + 1)}
        case _ if part == "?" or (part[0] == "[" and part[-1] == "]"):
            return {
                place + 1 for place in places if file[place : place + 1].strip("/") and fnmatchcase(file[place], part)
            }
        case _:
            return {place + len(part) for place in places if file.startswith(part, place)}


def _slash(file: str, place: int) -> int:
    found = file.find("/", place)
    return len(file) if found < 0 else found


def default_of(configurations: list[Configuration]) -> Configuration | None:
    """The only one, the one that says so, or the one that is called `default`."""
    if len(configurations) == 1:
        return configurations[0]
    said = [each for each in configurations if each.default] or [
        each for each in configurations if each.name == "default"
    ]
    return said[0] if said else None


def _configuration(value: Any, name: str) -> Configuration:
    if not isinstance(value, dict) or not isinstance(value.get("config_name"), str | int | float):
        raise _fault(name, "one of configs has no config_name")
    title, folder = str(value["config_name"]), value.get("data_dir") or ""
    if not isinstance(folder, str):
        raise _fault(name, f"data_dir of {title!r} is no text")
    patterns = _patterns(value.get("data_files"), title, name)
    return Configuration(title, value.get("default") is True, _relative(folder), patterns)


def _patterns(files: Any, title: str, name: str) -> dict[str, tuple[str, ...]]:
    """A name, a list of names, or a list of `{split, path}`; names alone are `train`."""
    if files is None:
        return {}
    if isinstance(files, dict):
        files = [{"split": split, "path": path} for split, path in files.items()]
    listed = files if isinstance(files, list) else [files]
    found: dict[str, tuple[str, ...]] = {}
    for each in listed:
        split, paths = (each.get("split"), each.get("path")) if isinstance(each, dict) else ("train", each)
        paths = paths if isinstance(paths, list) else [paths]
        names = [path for path in paths if isinstance(path, str)]
        if not isinstance(split, str) or not names or len(names) < len(paths):
            raise _fault(name, f"data_files of {title!r} are not names, nor {{split, path}}")
        found[split] = (*found.get(split, ()), *map(_relative, names))
    return found


def _relative(path: str) -> str:
    while path.startswith("./"):
        path = path[2:]
    return path.strip("/") if path != "." else ""


def _fault(name: str, what: str) -> DataError:
    return DataError(f"{name}: {what}.", hint=_CORRECT)


_CORRECT = "Correct the lines between the two --- at its beginning, or leave them out."
