"""The base models on this machine, each a Hugging Face folder under one root. Knows no database and no torch.

A model is built in a hidden sibling folder and renamed into place with its manifest, so it is there whole or not
at all. The sibling is locked for as long as someone builds it; one that nobody locks was left by the dead.
"""

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from burnish.errors import Conflict, ModelError
from burnish.models.folder import inspect_folder
from burnish.models.hub import fetch_from_hub
from burnish.models.names import TINY, ModelSource, check_model_name, read_source
from burnish.models.tiny import build_tiny

MANIFEST = "burnish-model.json"


@dataclass(frozen=True)
class CachedModel:
    id: str
    directory: Path
    architecture: str
    parameters: int
    size_bytes: int
    source: str
    """`burnish/tiny`, a hub id, or the absolute path that it was copied from."""
    added_at: datetime
    notes: tuple[str, ...] = ()


class Manifest(BaseModel):
    """`burnish-model.json`: what is not worth working out again, and how long every file must be."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    architecture: str
    parameters: int
    source: str
    added_at: datetime
    notes: tuple[str, ...] = ()
    files: dict[str, int]


class ModelCache:
    def __init__(self, root: Path) -> None:
        self.root = root

    def list(self) -> list[CachedModel]:
        """All whole models, by name."""
        if not self.root.is_dir():
            return []
        found = (self._read(path) for path in self.root.iterdir() if not path.name.startswith("."))
        return sorted((model for model in found if model), key=lambda model: model.id)

    def find(self, name: str) -> CachedModel:
        """The model of that name. `burnish/tiny` is built on the spot, so that a first run needs nothing."""
        model = self._read(self._directory(check_model_name(name)))
        if model is None and name == TINY:
            return self.add(TINY)
        if model is None:
            raise ModelError(f"{name} is not in the model cache.", hint=self._way_to(name))
        _check_whole(model)
        return model

    def add(self, source: str, name: str | None = None) -> CachedModel:
        """Copy, convert, fetch or build `source` into the cache; returns when it is there.

        Adding what is there already, from where it came, is no work and no error. `Conflict` if that name came from
        elsewhere.
        """
        wanted = read_source(source)
        name = check_model_name(name or wanted.default_name)
        if (name == TINY) != (wanted.kind == "tiny"):
            raise ModelError(f"{TINY} is built in and keeps its name.", hint="Choose another --name.")
        if present := self._present(name, wanted):
            return present
        with self._building() as (directory, lock):
            _build(wanted, directory, lock)
            _write_manifest(directory, name, wanted.origin)
            with self._lock():
                if present := self._present(name, wanted):
                    return present
                directory.rename(self._directory(name))
        return self.find(name)

    def remove(self, name: str) -> None:
        """Delete it. Whoever has its files open keeps them until they close."""
        directory = self._directory(check_model_name(name))
        doomed = self.root / f".removing-{secrets.token_hex(8)}"
        self.root.mkdir(parents=True, exist_ok=True)
        with self._lock():
            if self._read(directory) is None:
                raise ModelError(f"{name} is not in the model cache.", hint="See burnish models list.")
            directory.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)  # what stays, the next add sweeps away

    def _way_to(self, name: str) -> str:
        near = get_close_matches(name, {TINY, *(model.id for model in self.list())}, n=1, cutoff=0.75)
        add = f"burnish models add {name}, or burnish models add /path/to/folder --name {name}"
        return (f"Did you mean {near[0]}? " if near else "") + f"burnish models list shows all. To add it: {add}"

    def _present(self, name: str, wanted: ModelSource) -> CachedModel | None:
        model = self._read(self._directory(name))
        if model and model.source != wanted.origin:
            raise Conflict(
                f"{name} is in the model cache already, from {model.source}.",
                hint=f"Choose another --name, or burnish models remove {name} first.",
            )
        return model

    def _directory(self, name: str) -> Path:
        return self.root / name.replace("/", "--")

    def _read(self, directory: Path) -> CachedModel | None:
        try:
            manifest = Manifest.model_validate_json((directory / MANIFEST).read_bytes())
        except (OSError, ValidationError):
            return None
        return CachedModel(
            id=manifest.id,
            directory=directory,
            architecture=manifest.architecture,
            parameters=manifest.parameters,
            size_bytes=sum(manifest.files.values()),
            source=manifest.source,
            added_at=manifest.added_at,
            notes=manifest.notes,
        )

    @contextmanager
    def _building(self) -> Iterator[tuple[Path, int]]:
        """A new hidden folder and the descriptor of its lock; gone at the end unless it was renamed into place."""
        self.root.mkdir(parents=True, exist_ok=True)
        with self._lock():
            self._sweep()
            directory = self.root / f".adding-{secrets.token_hex(8)}"
            directory.mkdir()
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield directory, lock
        finally:
            if directory.exists():
                shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)

    def _sweep(self) -> None:
        """Delete what dead adders and removers left. The caller holds the cache's lock."""
        for directory in (*self.root.glob(".adding-*"), *self.root.glob(".removing-*")):
            with suppress(FileNotFoundError):
                lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
                except BlockingIOError:
                    pass  # its adder lives
                finally:
                    os.close(lock)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.root / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _build(wanted: ModelSource, directory: Path, lock: int) -> None:
    try:
        match wanted.kind:
            case "tiny":
                build_tiny(directory)
            case "folder":
                folder = inspect_folder(Path(wanted.origin))
                for name in folder.files:
                    shutil.copyfile(folder.directory / name, directory / name)
            case "gguf":
                _convert(Path(wanted.origin), directory, lock)
            case "hub":
                fetch_from_hub(wanted.origin, directory)
    except OSError as error:
        raise ModelError(f"{wanted.origin} could not be brought into the model cache ({error}).") from error


def _convert(gguf: Path, directory: Path, lock: int) -> None:
    """In a process of its own, since it needs torch; it shares the lock, so the folder outlives a killed parent."""
    command = [sys.executable, "-m", "burnish.train.convert", str(gguf), str(directory)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, pass_fds=(lock,), stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise ModelError(_why_not_converted(gguf, done), hint="Is it a whole GGUF file of a model that is known?")


def _why_not_converted(gguf: Path, done: subprocess.CompletedProcess[str]) -> str:
    """The converter's own sentence, its last line; or how it ended, where it had no time to say one."""
    said = done.stderr.strip().splitlines()
    if done.returncode < 0:
        return f"The conversion of {gguf} was ended by signal {-done.returncode}; 9 is often too little memory."
    if not said:
        return f"The conversion of {gguf} ended with code {done.returncode} and said nothing."
    # A traceback is a surprise, and its last line alone does not say of what.
    return f"{gguf} cannot be converted: {said[-1]}" if "Traceback (most recent" in done.stderr else said[-1]


def _write_manifest(directory: Path, name: str, origin: str) -> None:
    try:
        folder = inspect_folder(directory)
    except ModelError as error:
        # The user knows where it came from, not the hidden folder that it was built in.
        raise ModelError(error.message.replace(str(directory), origin), hint=error.hint) from error
    manifest = Manifest(
        id=name,
        architecture=folder.facts.architecture,
        parameters=folder.parameters,
        source=origin,
        added_at=datetime.now(UTC),
        notes=folder.notes,
        files={path.name: path.stat().st_size for path in sorted(directory.iterdir()) if path.is_file()},
    )
    (directory / MANIFEST).write_text(manifest.model_dump_json(indent=2))


def _check_whole(model: CachedModel) -> None:
    manifest = Manifest.model_validate_json((model.directory / MANIFEST).read_bytes())
    for name, size in manifest.files.items():
        path = model.directory / name
        if not path.is_file() or path.stat().st_size != size:
            raise ModelError(
                f"{model.id} is damaged in the model cache: {name} is not the {size} bytes that were added.",
                hint=f"burnish models remove {model.id}, then add it again from {model.source}",
            )
