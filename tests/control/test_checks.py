"""What the server says of a config and keeps with a run, and whether a run was given what was checked."""

import json
from pathlib import Path

import pytest
from control_bench import Bench, finished, started
from sqlalchemy import inspect, text

from burnish.control.checks import check, read_check
from burnish.control.db import Database, sqlite_url
from burnish.control.ingest import drain
from burnish.control.reconciler import Reconciler
from burnish.control.runs import delete_run, get_run, list_runs, stop_run, submit
from burnish.control.tables import ReportRow
from burnish.data.store import TokenStore
from burnish.errors import BurnishError
from burnish.run.events import Prepared, Step
from burnish.run.report import CheckReport, Comparison
from burnish.run.status import RunStatus
from burnish.wire import CheckRequest, SubmitRequest

SFT = """
max_steps = 10
[model]
name = "burnish/tiny"
[data]
name = "datasets/talk"
seq_len = 64
batch_size = 2
[optim]
lr = 1e-4
"""
ROWS = [
    {"messages": [{"role": "user", "content": f"say {n}"}, {"role": "assistant", "content": str(n)}]} for n in range(20)
]


@pytest.fixture
def volume(bench: Bench) -> Path:
    root = bench.add_volume()
    (root / "datasets/talk").mkdir()
    (root / "datasets/talk/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return root


def ask(bench: Bench, config: str = SFT, **more) -> CheckReport:
    return check(bench.house, CheckRequest(config=config, volume="research", **more))


@pytest.mark.parametrize(
    ("config", "request_more", "code"),
    [
        (SFT.replace("seq_len", "seqlen"), {}, "config"),
        (SFT.replace("burnish/tiny", "acme/nothing"), {}, "model"),
        (SFT, {"volume": "nowhere"}, "not_found"),
        (SFT, {"volume": None}, "volume"),
        (SFT.replace("talk", "silence"), {}, "data"),
        (SFT + "[deployment]\nnum_train_gpus = 2\ngpus_per_node = 2\n", {}, "plan"),
        (SFT.replace("seq_len = 64", "seq_len = 8"), {}, "data"),
        (SFT + '[resume]\ndir = "/runs/nothing"\n', {}, "plan"),
    ],
)
def test_a_check_refuses_in_the_words_of_a_submission(bench: Bench, volume: Path, config, request_more, code):
    wish = {"config": config, "volume": "research"} | request_more
    report = check(bench.house, CheckRequest(**wish))
    with pytest.raises(BurnishError) as refused:
        submit(bench.house, SubmitRequest(**wish))
    first = report.refusals[0]
    assert (first.code, first.message, first.hint) == (code, refused.value.message, refused.value.hint)
    assert not list_runs(bench.house).runs


def test_every_fault_of_a_config_is_told_with_its_key(bench: Bench):
    report = check(bench.house, CheckRequest(config=SFT.replace("seq_len", "seqlen").replace("lr =", "rate =")))
    assert [refusal.key for refusal in report.refusals] == ["data.seqlen", "optim.rate"]


def test_a_check_starts_nothing_and_keeps_only_tokens(bench: Bench, volume: Path):
    before = sorted(volume.glob("[!.]*/**/*"))
    report = ask(bench)
    assert not report.refusals and report.ledger and report.plan
    assert sorted(volume.glob("[!.]*/**/*")) == before and not list_runs(bench.house).runs
    [store] = bench.house.home.stores.iterdir()
    assert len(TokenStore(store)) == report.ledger.samples


def test_the_first_look_and_a_part_say_so(bench: Bench, volume: Path):
    assert len(ask(bench, first_look=True, proof_rows=2).proof) == 2
    part = ask(bench, rows=4)
    assert part.ledger and (part.ledger.rows_read, part.complete) == (4, False)


def test_what_was_said_is_kept_with_the_run_and_goes_with_it(bench: Bench, volume: Path):
    run = submit(bench.house, SubmitRequest(config=SFT, volume="research"))
    report = read_check(bench.house, run.id).report
    assert report and report.ledger and report.ledger.rows_used == 20
    assert report.stream_at_end == ask(bench).stream_at_end
    assert report.comparison and report.comparison.reason == "the trainer has not counted its rows yet."
    stop_run(bench.house, run.id)
    delete_run(bench.house, run.id)
    with bench.house.database.session(writes=False) as session:
        assert session.query(ReportRow).count() == 0


def test_a_long_row_is_kept_in_part(bench: Bench, volume: Path):
    long = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y" * 5000}]}
    (volume / "datasets/talk/train.jsonl").write_text(json.dumps(long))
    run = submit(bench.house, SubmitRequest(config=SFT.replace("= 64", "= 8192"), volume="research"))
    report = read_check(bench.house, run.id).report
    assert report
    [row] = report.proof
    assert len(row.token_ids) + row.tokens_left_out == 5022
    assert len("".join(piece.text for piece in row.pieces)) == row.token_ends[-1]


def test_a_run_from_before_there_were_checks_has_none(bench: Bench):
    assert read_check(bench.house, bench.add_run()).report is None


# -- against the diary ------------------------------------------------------------


class Given:
    """A run on its way, whose diary a test writes."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.id = submit(bench.house, SubmitRequest(config=SFT, volume="research")).id
        self.foreseen = ask(bench).stream_at_end
        Reconciler(bench.house).tick()
        bench.directory(self.id).log.parent.mkdir(parents=True, exist_ok=True)

    def write(self, *events) -> None:
        self.bench.write(self.id, *events)
        drain(self.bench.house, self.id)

    def prepared(self, stream: str) -> Prepared:
        return Prepared(
            conversations_read=20,
            conversations_used=20,
            tokens=1,
            trained_tokens=1,
            rows=10,
            pad_share=0.0,
            steps=10,
            steps_per_epoch=5,
            stream_at_end=stream,
        )

    def compared(self) -> Comparison:
        report = read_check(self.bench.house, self.id).report
        assert report and report.comparison
        return report.comparison


def a_step(number: int, stream: str) -> Step:
    return Step(step=number, values={"loss/mean": 1.0}, tokens=1, trained_tokens=1, seconds=1.0, stream=stream)


def test_a_run_that_was_given_what_was_checked_agrees_at_its_last_step(bench: Bench, volume: Path):
    run = Given(bench)
    run.write(started(), run.prepared(run.foreseen), a_step(9, "0" * 32))
    assert run.compared().verdict == "not compared"
    assert "is at step 9 of 10; what was prepared is what was checked" in run.compared().reason
    run.write(a_step(10, run.foreseen))
    assert run.compared().verdict == "agrees"


def test_a_run_that_was_given_something_else_differs(bench: Bench, volume: Path):
    run = Given(bench)
    run.write(started(), run.prepared(run.foreseen), a_step(10, "f" * 32))
    assert (run.compared().verdict, run.compared().trained) == ("differs", "f" * 32)
    other = Given(bench)
    other.write(started(), other.prepared("e" * 32))
    assert "prepared other tokens or masks than were checked" in other.compared().reason


def test_a_run_without_a_hash_or_checked_in_part_is_not_compared(bench: Bench, volume: Path):
    run = Given(bench)
    run.write(started(), run.prepared(run.foreseen), a_step(10, ""))
    assert run.compared().reason == "the run's diary holds no hash."


def test_a_step_that_is_done_again_tells_the_newer_hash(bench: Bench, volume: Path):
    run = Given(bench)
    run.write(started(), run.prepared(run.foreseen), a_step(10, "a" * 32))
    bench.write(run.id, a_step(10, run.foreseen), attempt=2)
    drain(bench.house, run.id)
    assert run.compared().verdict == "agrees"


def test_a_check_is_held_against_as_many_steps_as_a_run_has_done(bench: Bench, volume: Path):
    run = Given(bench)
    assert ask(bench, run_id=run.id).comparison == Comparison(
        verdict="not compared", reason=f"{run.id} has done no step yet."
    )
    run.write(started(), run.prepared(run.foreseen), a_step(3, "b" * 32), finished("stopped", at_step=3))
    compared = ask(bench, run_id=run.id).comparison
    assert compared and compared.verdict == "differs"
    run.write(a_step(4, compared.checked))
    again = ask(bench, run_id=run.id).comparison
    assert again and again.verdict == "differs" and again.checked != compared.checked
    bench.write(run.id, a_step(4, again.checked))
    drain(bench.house, run.id)
    assert (agreed := ask(bench, run_id=run.id).comparison) and agreed.verdict == "agrees"
    assert (part := ask(bench, run_id=run.id, rows=3).comparison) and part.verdict == "not compared"


# -- an older database --------------------------------------------------------------


def test_a_database_from_before_checks_keeps_its_runs(tmp_path: Path):
    database = Database(sqlite_url(tmp_path / "old.db"))
    database.upgrade()
    database.downgrade("0001")
    assert "reports" not in inspect(database.engine).get_table_names()
    columns = "id, name, status, reason, hint, model, dialect, config, spec, layout, notes, request_digest, attempt, "
    columns += "created_at, diary_offset, step, tokens, trained_tokens, train_seconds, troubles"
    values = "'job_old', 'old', 'COMPLETED', '', '', 'm', 'prime', '', '{}', '{}', '[]', '', 1, "
    values += "'2026-01-01', 0, 7, 1, 1, 1, 0"
    with database.engine.begin() as connection:
        connection.execute(text(f"INSERT INTO runs ({columns}) VALUES ({values})"))
    database.upgrade()
    with database.session(writes=False) as session:
        row = session.execute(text("SELECT step, stream FROM runs")).one()
    assert tuple(row) == (7, "")
    database.close()


def test_a_run_says_nothing_of_its_report(bench: Bench, volume: Path):
    """It is asked for by itself: a run is looked at every second."""
    run = submit(bench.house, SubmitRequest(config=SFT, volume="research"))
    assert get_run(bench.house, run.id).status == RunStatus.PENDING
    assert len(get_run(bench.house, run.id).model_dump_json()) < 2_000
