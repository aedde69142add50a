"""From a path to raw records that remember their `file:line`. Knows files and splits, nothing of conversations."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from burnish.data.formats import READERS, Record, is_readable, read_file
from burnish.data.ledger import BadRow
from burnish.errors import DataError

SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
}
"""The words by which the Hugging Face conventions tell a file's split."""

_SHARD = re.compile(r"(?P<split>\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}")
_NOT_DATA = re.compile(
    r"dataset_infos?\.json|dataset_dict\.json|state\.json|cache-.*\.arrow|(config|metadata|tokenizer_config)\.json",
)


def refuse(row: BadRow) -> None:
    raise DataError(f"{row}.", hint="Correct the row, or leave it out.")


def read_records(
    path: Path, splits: Sequence[str] = ("train",), *, on_bad: Callable[[BadRow], None] = refuse
) -> Iterator[Record]:
    """Every record under `path` in the order of its files, one at a time.

    A line that holds no record goes to `on_bad`, which may raise or return to go on.
    """
    root = path if path.is_dir() else path.parent
    for file in find_files(path, splits):
        yield from read_file(file, file.relative_to(root).as_posix(), on_bad)


def find_files(path: Path, splits: Sequence[str] = ("train",), *, called: str | None = None) -> list[Path]:
    """The data files of these splits, sorted. `called` is the path as the user wrote it, for errors.

    A file is read as it is. In a folder, at any depth, the split is told from the file's name, else from the
    nearest folder's; where no file has one, all are `train`. READMEs, hidden files and descriptions are no data.
    """
    if not path.exists():
        raise _missing(path, called or str(path))
    if path.is_file():
        if not is_readable(path):
            raise DataError(f"{called or path} is not a data file that can be read.", hint=_understood())
        return [path]
    files = sorted(_data_files(path))
    if not files:
        raise DataError(
            f"{called or path} holds no data files: the dataset has no rows. It holds: {_entries(path)}.",
            hint=_understood(),
        )
    return _of_splits(path, files, splits, called or str(path))


def split_of(relative: Path) -> str | None:
    """`data/train-00000-of-00001.parquet` -> `train`; None where neither file nor folder tells."""
    shard = _SHARD.match(relative.name)
    if shard and shard["split"] != "data":
        return SPLIT_WORDS.get(shard["split"], shard["split"])
    names = [relative.name.split(".")[0], *(part for part in reversed(relative.parent.parts))]
    for name in names:
        words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word in SPLIT_WORDS]
        if words:
            return SPLIT_WORDS[words[0]]
    return None


def _data_files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    real = folder.resolve()
    if real in above:
        return  # a link back up
    for entry in folder.iterdir():
        if entry.name.startswith(".") or _NOT_DATA.fullmatch(entry.name):
            continue
        if entry.is_dir():
            yield from _data_files(entry, (*above, real))
        elif is_readable(entry):
            yield entry


def _of_splits(folder: Path, files: list[Path], splits: Sequence[str], called: str) -> list[Path]:
    named = [(split_of(file.relative_to(folder)), file) for file in files]
    if all(split is None for split, _ in named):
        named = [("train", file) for file in files]
    chosen = []
    for split in splits:
        wanted = SPLIT_WORDS.get(split, split)
        found = [file for name, file in named if name == wanted]
        if not found:
            there = ", ".join(sorted({name for name, _ in named if name}))
            raise DataError(
                f"{called} has no split {split!r}; it has: {there}.", hint='Choose one with splits = ["..."].'
            )
        chosen += found
    return chosen


def _missing(path: Path, called: str) -> DataError:
    # The nearest folder that is there, named as the user would: as many steps up from what they wrote.
    parent, parts = path.parent, [part for part in called.split("/") if part][:-1]
    while not parent.exists() and parent != parent.parent:
        parent, parts = parent.parent, parts[:-1]
    shown = ("/" if called.startswith("/") else "") + "/".join(part for part in parts if part != ".")
    place = f"{shown} holds" if shown else "where it is looked for, there is"
    return DataError(
        f"{called} does not exist; {place}: {_entries(parent)}.",
        hint="data.name is a path on the run's volume, and a dataset must be put there first: burnish volumes put "
        "<volume> ./my-data /datasets/my-data. With --here and no volume it is a path from the current folder.",
    )


def _entries(folder: Path, most: int = 10) -> str:
    if not folder.is_dir():
        return "no files, as it is one itself"
    names = sorted(
        entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir() if not entry.name.startswith(".")
    )
    if not names:
        return "nothing"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _understood() -> str:
    return f"A dataset is a file or folder of {', '.join(READERS)}."
