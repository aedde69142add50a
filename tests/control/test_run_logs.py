import os
from pathlib import Path

import pytest
from control_bench import Bench
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.control.private import keep_environment
from burnish.control.runs import read_log
from burnish.errors import NotFound
from burnish.run.status import RunStatus
from burnish.wire import LogView

TEXT = "Step 1 | Verlust 1,5 €\n" * 3 + "日本語の行\n" + "🙂" * 9


@pytest.fixture
def run_id(bench: Bench) -> str:
    return bench.add_run(status=RunStatus.COMPLETED)


def _log(bench: Bench, run_id: str) -> Path:
    log = bench.directory(run_id).log
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def _read_all(bench: Bench, run_id: str, limit: int) -> list[LogView]:
    views = [read_log(bench.house, run_id, 0, limit)]
    while not views[-1].over:
        views.append(read_log(bench.house, run_id, views[-1].next_offset, limit))
        assert views[-1].next_offset > views[-2].next_offset
    return views


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200), limit=st.integers(1, 50))
def test_the_pieces_make_the_whole_whatever_the_limit(bench: Bench, run_id: str, text: str, limit: int) -> None:
    _log(bench, run_id).write_bytes(text.encode())
    assert "".join(view.text for view in _read_all(bench, run_id, limit)) == text


def test_pieces_end_with_a_line_where_they_can(bench: Bench, run_id: str) -> None:
    _log(bench, run_id).write_text(TEXT)
    assert read_log(bench.house, run_id, 0, 40).text == "Step 1 | Verlust 1,5 €\n"


def test_a_negative_offset_counts_from_the_end_and_never_splits_a_character(bench: Bench, run_id: str) -> None:
    _log(bench, run_id).write_text(TEXT)
    for count in range(1, len(TEXT.encode()) + 5):
        view = read_log(bench.house, run_id, -count)
        assert TEXT.endswith(view.text) and "\ufffd" not in view.text
        assert view.next_offset == len(TEXT.encode()) and view.over


def test_half_a_character_waits_while_the_run_lives_and_is_shown_when_it_is_over(bench: Bench) -> None:
    live, over = bench.add_run(status=RunStatus.RUNNING, attempt=1), bench.add_run(status=RunStatus.FAILED)
    for run_id in (live, over):
        _log(bench, run_id).write_bytes("ab€".encode()[:-1])
    assert read_log(bench.house, live) == LogView(text="ab", next_offset=2, over=False)
    assert read_log(bench.house, over) == LogView(text="ab\ufffd", next_offset=4, over=True)
    _log(bench, live).write_bytes("ab€".encode())
    assert read_log(bench.house, live, 2).text == "€"


def test_an_offset_past_the_end_is_the_end(bench: Bench, run_id: str) -> None:
    _log(bench, run_id).write_text("abc\n")
    assert read_log(bench.house, run_id, 99) == LogView(text="", next_offset=4, over=True)


def test_a_run_without_a_log_has_said_nothing(bench: Bench, run_id: str) -> None:
    assert read_log(bench.house, run_id) == LogView(text="", next_offset=0, over=True)
    assert not read_log(bench.house, bench.add_run()).over


def test_a_log_that_links_elsewhere_or_is_a_pipe_is_not_read(bench: Bench, run_id: str, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private")
    _log(bench, run_id).symlink_to(tmp_path / "private")
    assert read_log(bench.house, run_id).text == ""
    piped = bench.add_run(status=RunStatus.FAILED)
    os.mkfifo(_log(bench, piped))
    assert read_log(bench.house, piped).text == ""


def test_secrets_that_the_trainer_printed_are_hidden_also_where_a_piece_ends(bench: Bench, run_id: str) -> None:
    keep_environment(bench.house, run_id, {"HF_TOKEN": "hf_FAKEfakeFAKE0001", "URL": "postgres://u:fakepass99@h/db"})
    line = "HF_TOKEN=hf_FAKEfakeFAKE0001 URL=postgres://u:fakepass99@h/db\n"
    _log(bench, run_id).write_text(line * 5)
    for limit in range(len(line), 3 * len(line), 7):
        text = "".join(view.text for view in _read_all(bench, run_id, limit))
        assert text == "HF_TOKEN=*** URL=***\n" * 5


def test_a_run_that_is_not_there_is_said_not_to_be(bench: Bench) -> None:
    with pytest.raises(NotFound, match="There is no run"):
        read_log(bench.house, "job_none")
