"""From a path to raw records that remember their `file:line`. Knows files, subsets and splits, not conversations."""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from burnish.data.archives import SUFFIXES, is_archive, open_archive
from burnish.data.files import DataFile, DiskFile, legible
from burnish.data.formats import READERS, Record, is_readable, read_file
from burnish.data.ledger import BadRow
from burnish.data.progress import Reading
from burnish.data.readme import MOST_BYTES, Configuration, default_of, is_match, read_configurations
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
_README = "README.md"


@dataclass(frozen=True)
class Source:
    """What one subset and split of a data set is read from."""

    label: str
    """`en/train`, or `train` where no subset is named."""
    files: tuple[DataFile, ...]


def refuse(row: BadRow) -> None:
    raise DataError(f"{row}.", hint="Correct the row, or leave it out.")


def read_records(
    path: Path,
    splits: Sequence[str] = ("train",),
    *,
    subsets: Sequence[str] = (),
    on_bad: Callable[[BadRow], None] = refuse,
    rows: int | None = None,
    reading: Reading | None = None,
) -> Iterator[Record]:
    """Every record of each source in the order of its files, one at a time; about `rows` in all, if that is set.

    A line that holds no record goes to `on_bad`, which may raise or return to go on. `reading` counts bytes.
    """
    sources = find_sources(path, splits, subsets=subsets)
    watch = reading.expect(file for source in sources for file in source.files) if reading else None
    for source in sources:
        files = map(watch, source.files) if watch else source.files
        records = (record for file in files for record in read_file(file, on_bad, source.label))
        yield from islice(records, None if rows is None else rows_of_each(rows, splits, subsets))


def rows_of_each(rows: int, splits: Sequence[str], subsets: Sequence[str] = ()) -> int:
    """How many rows are read of each source, where about so many are wanted in all."""
    return min(-(-rows // len(_pairs(splits, subsets))), sys.maxsize)


def source_labels(splits: Sequence[str], subsets: Sequence[str] = ()) -> list[str]:
    """The labels of the sources that `find_sources` finds for the same words."""
    return [f"{subset}/{split}" if subset else split for subset, split in _pairs(splits, subsets)]


def find_sources(
    path: Path, splits: Sequence[str] = ("train",), *, subsets: Sequence[str] = (), called: str | None = None
) -> list[Source]:
    """The data files of each subset and split, sorted. `called` is the path as the user wrote it, for errors.

    Subsets and splits go together one to one; a single split is read of every subset. A subset is a configuration of
    the README or a folder. A single file is read as it is. In a folder or an archive, at any depth, the split is
    told from the file's name, else from the nearest folder's; where no file has one, all are `train`. READMEs, hidden
    files and descriptions are no data.
    """
    called = called or str(path)
    is_folder = stat.S_ISDIR(_kind_of(path) or 0)
    if not is_folder and not _is_file(path, path.name):
        raise _missing(path, called)
    _refuse_doubles(source_labels(splits, subsets))
    if is_folder or is_archive(path.name):
        data = _DataSet(called, sorted(_walk(path), key=lambda file: file.name.split("/")), path)
        pairs = _pairs(splits, subsets)
        return [Source(f"{subset}/{split}" if subset else split, data.files(subset, split)) for subset, split in pairs]
    if not is_readable(path.name):
        raise DataError(f"{called} is not a data file that can be read.", hint=_understood())
    if subsets:
        raise DataError(f"{called} is one file, so it has no subset {subsets[0]!r}.", hint="Leave subsets out.")
    return [Source(split, (DiskFile(path.parent, legible(path.name), path),)) for split in splits]


def split_of(relative: PurePosixPath) -> str | None:
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


class _DataSet:
    """All files of a folder or an archive, and what its README says of them."""

    def __init__(self, called: str, files: list[DataFile], path: Path) -> None:
        self._called = called
        self._files = [file for file in files if PurePosixPath(file.name).name != _README]
        if not self._files:
            raise DataError(
                f"{called} holds no data files: the dataset has no rows. It holds: {_entries(path)}.",
                hint=_understood(),
            )
        readme = _nearest_readme([file for file in files if PurePosixPath(file.name).name == _README], self._files)
        self._base = str(PurePosixPath(readme.name).parent).removeprefix(".") if readme else ""
        self._configurations = _configurations_of(readme) if readme else []

    def files(self, subset: str, split: str) -> tuple[DataFile, ...]:
        configuration = self._configuration(subset)
        if configuration is None:
            return self._of_split(self._in_folder(subset) if subset else self._files, subset, split)
        folder = _joined(self._base, configuration.folder)
        if configuration.patterns:
            return self._of_patterns(configuration, folder, split)
        files = [file for file in self._files if not folder or file.name.startswith(folder + "/")]
        return self._of_split(files, subset, split)

    def _configuration(self, subset: str) -> Configuration | None:
        """None leaves it to folders."""
        if subset:
            return next((each for each in self._configurations if each.name == subset), None)
        chosen = default_of(self._configurations)
        if self._configurations and chosen is None:
            raise DataError(
                f"{self._called} has several subsets and no default one: {_listed(self._subsets())}.",
                hint='Choose with subsets = ["..."] under [data].',
            )
        return chosen

    def _in_folder(self, subset: str) -> list[DataFile]:
        """The files in the folder of that name that is nearest to the top."""
        depths = {file.name: _depth(file.name, subset) for file in self._files}
        found = [depth for depth in depths.values() if depth is not None]
        if not found:
            raise DataError(
                f"{self._called} has no subset {subset!r}; it has: {_listed(self._subsets())}.",
                hint='Choose with subsets = ["..."] under [data], or leave subsets out.',
            )
        return [file for file in self._files if depths[file.name] == min(found)]

    def _of_patterns(self, configuration: Configuration, folder: str, split: str) -> tuple[DataFile, ...]:
        wanted = SPLIT_WORDS.get(split, split)
        name = next((name for name in (split, wanted) if name in configuration.patterns), None)
        if name is None:
            raise self._no_split(configuration.name, split, list(configuration.patterns))
        patterns = [_joined(folder, pattern) for pattern in configuration.patterns[name]]
        found = [file for file in self._files if any(is_match(file.name, pattern) for pattern in patterns)]
        if not found:
            raise DataError(
                f"{self._called}: no file is called {' or '.join(patterns)}, as its README says of the split {name!r}.",
                hint="Put the files it names, or correct its front matter. Nothing is fetched.",
            )
        return tuple(found)

    def _of_split(self, files: Sequence[DataFile], subset: str, split: str) -> tuple[DataFile, ...]:
        named = [(split_of(PurePosixPath(file.name)), file) for file in files]
        if all(name is None for name, _ in named):
            named = [("train", file) for file in files]
        wanted = SPLIT_WORDS.get(split, split)
        # A name of the user's own, `train_sft/rows.jsonl`, is a split where it is asked for by that name.
        found = [file for name, file in named if name == wanted] or [file for file in files if split in _words(file)]
        if not found:
            raise self._no_split(subset, split, [name for name, _ in named if name])
        return tuple(found)

    def _no_split(self, subset: str, split: str, there: Sequence[str]) -> DataError:
        called = f"{subset} of {self._called}" if subset else self._called
        return DataError(
            f"{called} has no split {split!r}; it has: {', '.join(sorted(set(there)))}.",
            hint='Choose one with splits = ["..."].',
        )

    def _subsets(self) -> list[str]:
        """The README's, else the folders that lie beside one another nearest to the top."""
        if self._configurations:
            return [each.name for each in self._configurations]
        folders = [PurePosixPath(file.name).parts[:-1] for file in self._files]
        level = 0
        while len({folder[: level + 1] for folder in folders}) == 1 and all(len(folder) > level for folder in folders):
            level += 1
        return sorted({folder[level] for folder in folders if len(folder) > level})


def _pairs(splits: Sequence[str], subsets: Sequence[str]) -> list[tuple[str, str]]:
    if not subsets:
        return [("", split) for split in splits]
    return list(zip(subsets, splits if len(splits) > 1 else [*splits] * len(subsets), strict=True))


def _refuse_doubles(labels: list[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise DataError(f"{label} is asked for twice.", hint="Name each subset and split once under [data].")


def _walk(path: Path) -> Iterator[DataFile]:
    if path.is_dir():
        yield from _files_in(path, path)
    else:
        yield from _members(path, path.name)


def _files_in(folder: Path, root: Path, above: tuple[Path, ...] = ()) -> Iterator[DataFile]:
    real = folder.resolve()
    if real in above:
        return  # a link back up
    try:
        entries = [*os.scandir(folder)]
    except OSError as error:
        raise DataError(f"{folder.relative_to(root)} cannot be read ({error.strerror}).") from error
    for entry in entries:
        path = Path(entry.path)
        name = legible(path.relative_to(root).as_posix())
        if entry.name.startswith("."):
            continue
        if _is_folder(entry):
            yield from _files_in(path, root, (*above, real))
        elif is_archive(entry.name) and _is_file(path, name):
            yield from _members(path, name)
        elif _is_wanted(entry.name) and _is_file(path, name):
            yield DiskFile(root, name, path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(path: Path, name: str) -> bool:
    """A link to nowhere is none; a pipe or a device under the name of data is an error, as reading it may never end."""
    kind = _kind_of(path)
    if kind is None:
        return False
    if not stat.S_ISREG(kind):
        raise DataError(f"{name} is a pipe or a device, not a file.", hint="Take it away, or put a file there.")
    if not os.access(path, os.R_OK):
        raise DataError(f"{name} cannot be read (Permission denied).", hint="Allow it to be read.")
    return True


def _kind_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):  # not there, a link to itself, or no name that a file could have
        return None


def _members(path: Path, name: str) -> Iterator[DataFile]:
    for member in open_archive(path, name).members():
        parts = PurePosixPath(member.member).parts
        if _is_wanted(parts[-1]) and not any(part.startswith(".") or part == "__MACOSX" for part in parts):
            yield member


def _is_wanted(name: str) -> bool:
    return name == _README or (is_readable(name) and not name.startswith(".") and not _NOT_DATA.fullmatch(name))


def _nearest_readme(readmes: list[DataFile], data: list[DataFile]) -> DataFile | None:
    """The one nearest to the top that has all data beside or below it: a data set put within a folder keeps its own."""
    for readme in sorted(readmes, key=lambda file: file.name.count("/")):
        folder = readme.name.removesuffix(_README)
        if all(file.name.startswith(folder) for file in data):
            return readme
    return None


def _configurations_of(readme: DataFile) -> list[Configuration]:
    with readme.open() as opened:
        return read_configurations(opened.read(MOST_BYTES), readme.name)


def _depth(name: str, subset: str) -> int | None:
    """How many folders lie above the folder `subset` in this name; None if it is in none."""
    folders, wanted = PurePosixPath(name).parts[:-1], PurePosixPath(subset).parts
    places = range(len(folders) - len(wanted) + 1)
    return next((place for place in places if wanted and folders[place : place + len(wanted)] == wanted), None)


def _words(file: DataFile) -> tuple[str, ...]:
    """Its folders' names, and its own without what tells the format."""
    path = PurePosixPath(file.name)
    return (*path.parts[:-1], path.name.split(".")[0])


def _joined(folder: str, name: str) -> str:
    return "/".join(part for part in (folder, name) if part)


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


def _missing(path: Path, called: str) -> DataError:
    # The nearest folder that is there, named as the user would: as many steps up from what they wrote.
    parent, parts = path.parent, [part for part in called.split("/") if part][:-1]
    while not parent.exists() and parent != parent.parent:
        parent, parts = parent.parent, parts[:-1]
    shown = ("/" if called.startswith("/") else "") + "/".join(part for part in parts if part != ".")
    if parent == parent.parent:
        listing = ""
    else:
        listing = f"; {f'{shown} holds' if shown else 'where it is looked for, there is'}: {_entries(parent)}"
    return DataError(
        f"{called} does not exist{listing}.",
        hint="With --volume NAME, data.name is a path on that volume, once the data is put there: burnish volumes put "
        "NAME ./my-data /datasets/my-data. Without a volume it is a path from the current folder.",
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
    return (
        f"A dataset is a file or folder of {', '.join(READERS)} (text also with .gz, .bz2, .xz or .zst), "
        f"or an archive of them ({', '.join(SUFFIXES[:4])})."
    )
