"""Turns a claimed run into files on its volume and a program for the executor.

Everything here may be done twice: files are written whole, and the executor starts a key once.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from burnish.control.catalog import model_directory
from burnish.control.house import House
from burnish.control.places import run_directory
from burnish.control.private import read_environment
from burnish.control.resume import find_resume_point
from burnish.control.submission import path_on
from burnish.control.tables import AttemptRow, RunRow
from burnish.control.views import read_spec
from burnish.control.volumes import room_left, volume_root
from burnish.executors.base import Program
from burnish.run.directory import RunDirectory
from burnish.run.order import RunOrder, write_order
from burnish.run.plan import Layout

_INHERITED = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"),
)
"""What a trainer gets of the server's own environment. No keys, no database."""

_OURS = {"PYTHONUNBUFFERED": "1"}


def attempt_key(run_id: str, attempt: int) -> str:
    """The executor's key of that attempt."""
    return f"{run_id}-{attempt}"


def launch_attempt(house: House, run: RunRow, attempt: AttemptRow) -> None:
    """Write `run.json` and the config, then have the executor start the trainer.

    Raises what a submission could have refused and has become true since: `ModelError`, `VolumeError`, `DataError`.
    """
    directory = run_directory(house.home, run.id, run.volume)
    write_order(_write_down(house, run, directory), directory)
    _write_whole(directory.config, run.config)
    directory.log.parent.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "burnish.train", str(directory.root), "--attempt", str(attempt.number))
    house.executor.launch(
        Program(
            key=attempt_key(run.id, attempt.number),
            argv=argv,
            directory=directory.root,
            environment=trainer_environment(house, os.environ, read_environment(house, run.id)),
            log=directory.log,
            slots=tuple(attempt.slots),
        )
    )


def trainer_environment(house: House, inherited: Mapping[str, str], wished: Mapping[str, str]) -> dict[str, str]:
    """The server's `inherited` variables that a trainer needs, ours, then the config's own, which win."""
    return {**inheritable(inherited), **_OURS, "BURNISH_HOME": str(house.home.root), **wished}


def inheritable(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the server's environment is a trainer's business; also what an executor should start from."""
    return {name: environment[name] for name in _INHERITED if name in environment}


def _write_down(house: House, run: RunRow, directory: RunDirectory) -> RunOrder:
    spec = read_spec(run, {})
    root = None if run.volume is None else volume_root(house, run.volume)
    return RunOrder(
        run_id=run.id,
        spec=spec,
        layout=Layout.model_validate(run.layout),
        model_directory=model_directory(house, spec.model),
        data_path=path_on(root, spec.data),
        validation_path=path_on(root, spec.validation.data) if spec.validation else None,
        resume_from=find_resume_point(spec, house.home.scratch if root is None else root),
        store_directory=house.home.stores,
        volume_bytes_free=None if run.volume is None else room_left(house, run.volume),
    )


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)
