"""Where a run's files are, and whether a path stays where it belongs. Knows no run's status.

A volume is its user's: whatever lies on it may be a link to somewhere else. What is read for an answer is therefore
resolved first and refused outside its root.
"""

import shutil
import stat
from pathlib import Path

from burnish.control.tree import check_name
from burnish.errors import VolumeError, VolumeFull
from burnish.home import Home
from burnish.literals import format_size, volume_path
from burnish.run.directory import RunDirectory


def run_directory(home: Home, run_id: str, volume: str | None) -> RunDirectory:
    """The folder of that run, there or not: on its volume, or in the scratch place where it has none."""
    return RunDirectory.on_volume(home.scratch if volume is None else home.volume(volume), run_id)


def place_on_volume(root: Path, text: str) -> Path:
    """The real path of `text` on the volume at `root`; `VolumeError` where it, or a link on the way, leaves it."""
    real_root = root.resolve()
    place = volume_path(text)
    if place.parts:
        check_name(place)
    real = (real_root / place).resolve()
    if not real.is_relative_to(real_root):
        raise VolumeError(f"{text} is a link that leaves the volume.", hint="Put the files themselves on the volume.")
    return real


def require_disk(folder: Path, what: str, needed_bytes: int) -> None:
    """`VolumeFull` where the disk that holds `folder` has less room than that."""
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise VolumeFull(
            f"{what} needs {format_size(needed_bytes)}, but the disk has {format_size(free)} free.",
            hint=f"Make room on the disk that holds {folder}.",
        )


def is_plain_file(path: Path, root: Path) -> bool:
    """A regular file that really lies under `root`, so that reading it neither leaks nor waits."""
    try:
        real = path.resolve(strict=True)
        return real.is_relative_to(root.resolve()) and stat.S_ISREG(real.stat().st_mode)
    except OSError:
        return False


def is_run_path(run_id: str, path: str) -> bool:
    """`path`, as a diary gave it, is a volume path under the run's own folder."""
    try:
        return volume_path(path).parts[:2] == ("runs", run_id) and path.startswith("/runs/")
    except VolumeError:
        return False
