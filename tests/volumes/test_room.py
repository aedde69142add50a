"""A volume never comes to hold more than its size through puts, however many there are at once."""

import fcntl
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_runs import KIB

from burnish.control.files import check_put, measure, put_file, remove
from burnish.control.house import House
from burnish.control.tree import PRIVATE
from burnish.control.volumes import create_volume, delete_volume, get_volume, resize_volume, room_left
from burnish.errors import BurnishError, NotFound, VolumeFull
from burnish.wire import CheckPutRequest, CreateVolumeRequest, ResizeVolumeRequest

SIZE = 1024 * KIB


def put(house: House, path: str, size: int, *, said: bool = True) -> None:
    put_file(house, "research", path, [b"x" * size], size if said else None)


def test_a_put_that_would_overflow_names_the_command_that_makes_room(house: House, root: Path):
    put(house, "datasets/a", 700 * KIB)
    with pytest.raises(VolumeFull) as refused:
        put(house, "datasets/b", 400 * KIB)
    assert refused.value.message == "/datasets/b needs 400Ki, but research has 324Ki free of 1Mi."
    obey(house, refused.value.hint)
    put(house, "datasets/b", 400 * KIB)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(used=st.integers(0, 2**20), needed=st.integers(1, 2**42))
def test_the_size_that_is_proposed_would_do(house: House, root: Path, used: int, needed: int):
    with (root / "datasets" / "sparse").open("wb") as file:
        file.truncate(used)
    resize_volume(house, "research", ResizeVolumeRequest(size=str(max(1, used))))
    try:
        check_put(house, "research", CheckPutRequest(sizes={"datasets/new": needed}))
    except VolumeFull as refused:
        obey(house, refused.hint)
        assert room_left(house, "research") >= needed
        assert room_left(house, "research") - needed < max(2**20, needed + used)


def test_files_are_admitted_all_together_or_not_at_all(house: House, root: Path):
    sizes = {f"datasets/{number}": 300 * KIB for number in range(3)}
    check_put(house, "research", CheckPutRequest(sizes=sizes))
    with pytest.raises(VolumeFull, match=r"4 files needs? 1\.2Mi"):
        check_put(house, "research", CheckPutRequest(sizes=sizes | {"datasets/3": 300 * KIB}))


def test_replacing_a_file_needs_only_the_difference(house: House, root: Path):
    put(house, "datasets/a", 900 * KIB)
    check_put(house, "research", CheckPutRequest(sizes={"datasets/a": 1024 * KIB}))
    put(house, "datasets/a", 1024 * KIB)
    with pytest.raises(VolumeFull):
        put(house, "datasets/a", 1024 * KIB + 1)
    put(house, "datasets/a", 10)
    assert room_left(house, "research") == SIZE - 10


def test_an_upload_of_unsaid_length_is_stopped_where_the_room_ends(house: House, root: Path):
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 64 * KIB
            yield b"x" * 64 * KIB

    with pytest.raises(VolumeFull):
        put_file(house, "research", "datasets/a", endless(), None)
    assert taken <= SIZE + 64 * KIB
    assert get_volume(house, "research").used_bytes == 0
    put(house, "datasets/a", SIZE, said=False)
    put(house, "datasets/a", SIZE, said=False)
    assert room_left(house, "research") == 0


def test_two_puts_at_once_do_not_share_one_room(house: House, root: Path):
    def pieces() -> Iterator[bytes]:
        yield b"x" * 300 * KIB
        with pytest.raises(VolumeFull, match="research has 424Ki free"):
            put(house, "datasets/b", 500 * KIB)
        yield b"x" * 300 * KIB

    put_file(house, "research", "datasets/a", pieces(), 600 * KIB)
    assert get_volume(house, "research").used_bytes == 600 * KIB


def test_a_shrink_leaves_room_for_what_is_on_its_way(house: House, root: Path):
    def pieces() -> Iterator[bytes]:
        with pytest.raises(BurnishError, match="cannot shrink"):
            resize_volume(house, "research", ResizeVolumeRequest(size="599Ki"))
        yield b"x" * 600 * KIB

    put_file(house, "research", "datasets/a", pieces(), 600 * KIB)


def test_room_that_a_replaced_file_promised_is_looked_at_again(house: House, root: Path):
    put(house, "datasets/a", 900 * KIB)

    def pieces() -> Iterator[bytes]:
        # The old file, whose bytes were to be given back, goes; another takes them.
        remove(house, "research", "datasets/a")
        put(house, "datasets/b", 900 * KIB)
        yield b"x" * 1000 * KIB

    with pytest.raises(VolumeFull):
        put_file(house, "research", "datasets/a", pieces(), 1000 * KIB)
    assert get_volume(house, "research").used_bytes == 900 * KIB


def test_many_puts_at_once_fill_the_volume_and_no_more(house: House, root: Path):
    refused: list[BurnishError] = []
    gate = threading.Barrier(16)

    def pieces() -> Iterator[bytes]:
        for _ in range(10):
            yield b"x" * 10 * KIB

    def send(number: int) -> None:
        gate.wait()
        try:
            put_file(house, "research", f"datasets/{number}", pieces(), 100 * KIB)
        except VolumeFull as error:
            refused.append(error)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(16)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert get_volume(house, "research").used_bytes == 1000 * KIB
    assert len(refused) == 6


def test_what_a_dead_server_left_of_an_upload_holds_no_room(house: House, root: Path):
    put(house, "datasets/a", 1)
    left = root / PRIVATE / f"put-{900 * KIB}-0123456789abcdef"
    left.write_bytes(b"half")
    with left.open("rb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        assert room_left(house, "research") == SIZE - 1 - 900 * KIB
    assert room_left(house, "research") == SIZE - 1
    assert not left.exists()


steps = st.lists(
    st.tuples(st.sampled_from(["put", "put unsaid", "remove"]), st.sampled_from("abc"), st.integers(0, 60)), max_size=30
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_the_volume_is_what_a_plain_dictionary_says(house: House, steps: list[tuple[str, str, int]]):
    create_volume(house, CreateVolumeRequest(name="research", size="100"))
    held: dict[str, int] = {}
    for verb, name, size in steps:
        try:
            if verb == "remove":
                remove(house, "research", name)
                del held[name]
            else:
                put(house, name, size, said=verb == "put")
                held[name] = size
        except NotFound:
            assert verb == "remove" and name not in held
        except VolumeFull:
            assert sum(held.values()) - held.get(name, 0) + size > 100
        assert room_left(house, "research") == 100 - sum(held.values()) >= 0
    assert {name: measure(house, "research", name).size_bytes for name in held} == held
    delete_volume(house, "research")


def obey(house: House, hint: str) -> None:
    """Do what the hint says."""
    match = re.search(r"burnish volumes resize (\S+) --size (\S+)", hint)
    assert match, hint
    name, size = shlex.split(match.group(1))[0], match.group(2)
    resize_volume(house, name, ResizeVolumeRequest(size=size))
