import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import BurnishError, ConfigError, VolumeError, VolumeFull, error_from_code
from burnish.literals import (
    check_volume_name,
    format_size,
    full_model_id,
    is_run_id,
    new_run_id,
    parse_duration,
    parse_size,
    printable,
    split_model_id,
    volume_path,
)


def test_run_ids_are_job_and_16_hex_digits_and_differ():
    ids = {new_run_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(is_run_id(each) for each in ids)
    assert not is_run_id("job_XYZ") and not is_run_id("job_" + "0" * 17)


@pytest.mark.parametrize(
    ("text", "size"),
    [("100Gi", 100 * 1024**3), ("1.5Ti", 1536 * 1024**3), ("500M", 500_000_000), ("7", 7), ("2KiB", 2048)],
)
def test_sizes_are_read_exactly(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "-1Gi", "10 Zi", "0", "0.0Gi", "1e3", "ten", "1Gi2"])
def test_what_is_no_size_is_refused_with_an_example(text: str):
    with pytest.raises(VolumeError) as caught:
        parse_size(text)
    assert "100Gi" in caught.value.hint


@given(st.integers(min_value=1, max_value=1023), st.sampled_from(["Ki", "Mi", "Gi", "Ti"]))
def test_a_whole_size_reads_back_as_itself(number: int, unit: str):
    assert format_size(parse_size(f"{number}{unit}")) == f"{number}{unit}"


@given(st.integers(min_value=0, max_value=2**62))
def test_no_size_is_written_as_1024_of_a_unit(size: int):
    number = re.match(r"[0-9.]+", format_size(size))
    assert number is not None and (float(number.group()) < 1024 or size >= 1024**6)


@pytest.mark.parametrize(
    ("size", "text"),
    [(1023, "1023B"), (1024, "1Ki"), (1024**2 - 41, "1Mi"), (1024**3 - 87, "1Gi"), (1536, "1.5Ki"), (0, "0B")],
)
def test_a_size_that_rounds_up_to_the_next_unit_is_written_in_it(size: int, text: str):
    assert format_size(size) == text


@pytest.mark.parametrize(
    "text", ["datasets/x", "/datasets/x", "/volume/datasets/x", "volume/datasets/x", "//datasets/./x/"]
)
def test_every_spelling_of_a_volume_path_is_one_place(text: str):
    assert volume_path(text).as_posix() == "datasets/x"


@pytest.mark.parametrize("text", ["", "/", "/volume", "/volume/", "."])
def test_the_root_has_many_spellings(text: str):
    assert volume_path(text).as_posix() == "."


@pytest.mark.parametrize("text", ["..", "/../x", "a/../../b", "/volume/../x", "a\0b", "a\\b"])
def test_a_path_that_leaves_the_volume_is_refused(text: str):
    with pytest.raises(VolumeError):
        volume_path(text)


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=40))
def test_a_volume_path_never_climbs_and_is_never_absolute(text: str):
    try:
        path = volume_path(text)
    except VolumeError:
        return
    assert not path.is_absolute() and ".." not in path.parts


@pytest.mark.parametrize("name", ["Research", "-a", "a-", "", "a" * 64, "a_b", "a/b", ".."])
def test_names_that_cannot_be_a_volume_are_refused(name: str):
    with pytest.raises(VolumeError):
        check_volume_name(name)


def test_model_ids_split_where_they_were_joined():
    run_id = new_run_id()
    assert split_model_id(full_model_id("acme/base-1", run_id)) == ("ft", "acme/base-1", run_id)
    assert split_model_id("acme/base-1") is None
    assert split_model_id("ft:base:not_a_run") is None


def test_durations_are_seconds():
    assert [parse_duration(text) for text in ("90s", "15m", "2h", "3d")] == [90, 900, 7200, 259_200]
    with pytest.raises(ValueError):
        parse_duration("3")


def test_an_error_crosses_the_wire_as_its_own_class():
    assert isinstance(error_from_code(VolumeFull.code, "full"), VolumeFull)
    assert isinstance(error_from_code(ConfigError.code, "bad"), ConfigError)
    assert type(error_from_code("from_a_newer_server", "x")) is BurnishError


@given(st.text())
def test_what_is_printed_holds_nothing_that_a_terminal_obeys(text: str):
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


def test_control_codes_and_turned_text_are_spelt_out():
    assert printable("\x1b[31mred\x9b2J\u202e\né", keep="\n") == "\\x1b[31mred\\x9b2J\\u202e\né"
