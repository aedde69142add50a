"""Volumes keep their size and their files for as long as somebody needs them."""

from pathlib import Path

import pytest
from stored_runs import KIB, add_run

from burnish.control.files import put_file
from burnish.control.house import House
from burnish.control.volumes import (
    create_volume,
    delete_volume,
    get_volume,
    list_volumes,
    resize_volume,
    room_left,
    volume_root,
)
from burnish.errors import BurnishError, Conflict, NotFound, VolumeError
from burnish.run.status import RunStatus
from burnish.wire import CreateVolumeRequest, ResizeVolumeRequest


def test_a_new_volume_is_empty_but_for_its_datasets_folder(house: House, root: Path):
    volume = get_volume(house, "research")
    assert (volume.size_bytes, volume.used_bytes, volume.status) == (1024 * KIB, 0, "RUNNING")
    assert [path.name for path in root.iterdir()] == ["datasets"]
    assert list_volumes(house).volumes == [volume]
    assert volume_root(house, "research") == root


def test_a_second_volume_of_one_name_is_a_conflict(house: House, root: Path):
    with pytest.raises(Conflict, match="There is a volume research already"):
        create_volume(house, CreateVolumeRequest(name="research", size="2Mi"))
    assert get_volume(house, "research").size_bytes == 1024 * KIB


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "..", "-a", "a-", "a" * 64, "ä", "a\n"])
def test_a_name_that_is_no_folder_of_ours_is_refused(house: House, name: str):
    with pytest.raises(VolumeError, match="cannot name a volume"):
        create_volume(house, CreateVolumeRequest(name=name))
    with pytest.raises(VolumeError, match="cannot name a volume"):
        get_volume(house, name)


@pytest.mark.parametrize("size", ["", "0", "-1Gi", "Gi", "99999999Pi", "1 000"])
def test_a_size_that_is_none_is_refused(house: House, size: str):
    with pytest.raises(VolumeError):
        create_volume(house, CreateVolumeRequest(name="research", size=size))
    assert list_volumes(house).volumes == []


def test_files_of_a_volume_that_is_not_known_are_not_taken_over(house: House):
    old = house.home.volume("research") / "datasets" / "old.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("somebody's")
    with pytest.raises(Conflict, match="files of a volume that this server does not know"):
        create_volume(house, CreateVolumeRequest(name="research"))
    old.unlink()
    create_volume(house, CreateVolumeRequest(name="research"))


def test_a_volume_that_is_not_there_is_told_with_those_that_are(house: House, root: Path):
    with pytest.raises(NotFound, match="There is no volume reserch") as refused:
        get_volume(house, "reserch")
    assert "research" in refused.value.hint


def test_what_the_trainer_writes_counts_as_used(house: House, root: Path):
    log = root / "runs" / "job_0123456789abcdef" / "logs" / "trainer.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 1000)
    assert get_volume(house, "research").used_bytes == 1000
    assert room_left(house, "research") == 1024 * KIB - 1000


def test_a_volume_shrinks_to_what_it_holds_and_no_further(house: House, root: Path):
    put_file(house, "research", "datasets/a", [b"x" * 500 * KIB], 500 * KIB)
    with pytest.raises(VolumeError, match=r"research holds 500Ki, so it cannot shrink to 499Ki"):
        resize_volume(house, "research", ResizeVolumeRequest(size="499Ki"))
    assert resize_volume(house, "research", ResizeVolumeRequest(size="500Ki")).size_bytes == 500 * KIB
    assert room_left(house, "research") == 0


def test_an_over_full_volume_has_no_room_and_can_be_emptied(house: House, root: Path):
    (root / "datasets" / "grown").write_bytes(b"x" * 1025 * KIB)
    assert room_left(house, "research") == 0
    with pytest.raises(VolumeError, match="research has 0B free of 1Mi"):
        put_file(house, "research", "datasets/b", [b"x"], 1)
    smaller = put_file(house, "research", "datasets/grown", [b"x"], 1)
    assert smaller.size_bytes == 1


def test_a_deleted_volume_is_gone_with_its_files(house: House, root: Path):
    put_file(house, "research", "datasets/a", [b"x"], 1)
    delete_volume(house, "research")
    assert list_volumes(house).volumes == []
    assert list(house.home.volumes.iterdir()) == []
    create_volume(house, CreateVolumeRequest(name="research", size="1Mi"))
    assert get_volume(house, "research").used_bytes == 0


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_volume_in_use_is_not_deleted(house: House, root: Path, status: RunStatus):
    run_id = add_run(house, volume="research", status=status)
    if status.is_over:
        delete_volume(house, "research")
        assert not root.exists()
    else:
        with pytest.raises(Conflict, match=f"research is in use by {run_id}"):
            delete_volume(house, "research")
        assert root.is_dir()


def test_a_run_elsewhere_keeps_no_volume(house: House, root: Path):
    add_run(house, volume="other", status=RunStatus.RUNNING)
    add_run(house, volume=None, status=RunStatus.RUNNING)
    delete_volume(house, "research")


def test_a_deletion_cut_in_the_middle_can_be_asked_for_again(house: House, root: Path):
    root.rename(root.parent / ".deleted-by-a-server-that-died")
    assert get_volume(house, "research").status == "MISSING"
    with pytest.raises(BurnishError, match="is gone"):
        put_file(house, "research", "datasets/a", [b"x"], 1)
    delete_volume(house, "research")
    assert list_volumes(house).volumes == []
