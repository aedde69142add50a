"""Nothing on a volume leads out of it, whoever put it there."""

import os
from pathlib import Path

import pytest

from burnish.control.files import check_put, list_entries, measure, open_file, put_file, remove
from burnish.control.house import House
from burnish.control.tree import PRIVATE
from burnish.control.volumes import create_volume, delete_volume, get_volume
from burnish.errors import VolumeError
from burnish.wire import CheckPutRequest, CreateVolumeRequest


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("s3cret")
    return folder


@pytest.mark.parametrize(
    "path", ["..", "../secret", "a/../../secret", "/../x", "/volume/../x", "a\0b", "a\\..\\b", "datasets/.."]
)
def test_a_path_that_climbs_is_refused_by_every_verb(house: House, root: Path, path: str):
    for ask in (
        lambda: put_file(house, "research", path, [b"x"], 1),
        lambda: check_put(house, "research", CheckPutRequest(sizes={path: 1})),
        lambda: open_file(house, "research", path),
        lambda: list_entries(house, "research", path),
        lambda: measure(house, "research", path),
        lambda: remove(house, "research", path, recursive=True),
    ):
        with pytest.raises(VolumeError):
            ask()
    assert root.is_dir()


def test_a_link_to_a_file_is_neither_read_nor_written_through(house: House, root: Path, outside: Path):
    (root / "datasets" / "link").symlink_to(outside / "secret")
    for ask in (open_file, measure, list_entries):
        with pytest.raises(VolumeError, match="/datasets/link is a symbolic link"):
            ask(house, "research", "datasets/link")
    with pytest.raises(VolumeError, match="/datasets/link is a symbolic link"):
        put_file(house, "research", "datasets/link", [b"x"], 1)
    assert (outside / "secret").read_text() == "s3cret"


@pytest.mark.parametrize("target", ["outside", "datasets"])
def test_a_link_to_a_folder_is_not_gone_through(house: House, root: Path, outside: Path, target: str):
    (root / "link").symlink_to(outside if target == "outside" else root / "datasets")
    for ask in (
        lambda: put_file(house, "research", "link/new", [b"x"], 1),
        lambda: open_file(house, "research", "link/secret"),
        lambda: list_entries(house, "research", "link"),
        lambda: measure(house, "research", "link/secret"),
        lambda: remove(house, "research", "link/secret"),
    ):
        with pytest.raises(VolumeError, match="/link is a symbolic link"):
            ask()
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_links_are_not_listed_and_count_nothing(house: House, root: Path, outside: Path):
    (root / "datasets" / "file").symlink_to(outside / "secret")
    (root / "datasets" / "folder").symlink_to(outside)
    (root / "datasets" / "loop").symlink_to(root)
    assert [entry.path for entry in list_entries(house, "research", "/", True).entries] == ["/datasets"]
    assert get_volume(house, "research").used_bytes == 0


def test_removing_a_link_or_what_holds_one_leaves_its_target(house: House, root: Path, outside: Path):
    (root / "datasets" / "link").symlink_to(outside)
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "link").symlink_to(outside)
    remove(house, "research", "datasets/link")
    remove(house, "research", "a", recursive=True)
    assert (outside / "secret").read_text() == "s3cret"
    assert sorted(path.name for path in root.iterdir()) == [PRIVATE, "datasets"]


def test_deleting_a_volume_leaves_what_its_links_point_to(house: House, root: Path, outside: Path):
    (root / "datasets" / "link").symlink_to(outside)
    delete_volume(house, "research")
    assert (outside / "secret").read_text() == "s3cret"


def test_a_link_in_the_place_of_the_servers_own_folder_is_refused(house: House, root: Path, outside: Path):
    (root / PRIVATE).symlink_to(outside)
    with pytest.raises(VolumeError, match="symbolic link"):
        put_file(house, "research", "datasets/a", [b"x"], 1)
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_a_pipe_neither_blocks_nor_counts(house: House, root: Path):
    os.mkfifo(root / "datasets" / "pipe")
    with pytest.raises(VolumeError, match="neither a file nor a folder"):
        open_file(house, "research", "datasets/pipe")
    assert list_entries(house, "research", "datasets").entries == []
    assert get_volume(house, "research").used_bytes == 0


def test_a_volume_may_lie_on_another_disk_by_a_link_of_the_operator(house: House, tmp_path: Path):
    elsewhere = tmp_path / "big-disk"
    elsewhere.mkdir()
    house.home.volumes.mkdir()
    house.home.volume("research").symlink_to(elsewhere)
    create_volume(house, CreateVolumeRequest(name="research", size="1Mi"))
    put_file(house, "research", "datasets/a", [b"x"], 1)
    assert (elsewhere / "datasets" / "a").read_bytes() == b"x"
