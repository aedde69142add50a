"""Packed rows and their account, kept beside the store they are of, so that a second run packs and counts nothing."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from burnish import __version__
from burnish.data.rows import Rows
from burnish.data.store import FORMAT, new_folder
from burnish.errors import DataError
from burnish.run.events import DataFacts

_FACTS = "facts.json"


class KeptRows(NamedTuple):
    documents: np.ndarray
    """Numbers in the store of the samples of an epoch, int64."""
    packed: Rows
    facts: DataFacts


def rows_folder(store: Path, wish: dict[str, Any]) -> Path:
    """Where rows packed by that wish are kept."""
    text = json.dumps([FORMAT, __version__, wish], sort_keys=True)
    return store / f"rows-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def open_rows(folder: Path) -> KeptRows | None:
    """The rows kept there, mapped into memory; None where there are none."""
    try:
        facts = DataFacts.model_validate_json((folder / _FACTS).read_bytes())
        documents, members, starts = (np.load(folder / name, mmap_mode="r") for name in _ARRAYS)
    except (OSError, ValueError, EOFError):
        return None
    return KeptRows(np.asarray(documents), Rows(np.asarray(members), np.asarray(starts)), facts)


def keep_rows(folder: Path, rows: KeptRows) -> None:
    """Keep them, if there is room: whoever cannot, packs again. What is there could not be opened, and goes."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with new_folder(folder) as building:
            for name, array in zip(_ARRAYS, (rows.documents, *rows.packed.arrays), strict=True):
                np.save(building / name, array)
            (building / _FACTS).write_text(rows.facts.model_dump_json())
    except (OSError, DataError):
        return


_ARRAYS = ("documents.npy", "members.npy", "starts.npy")
