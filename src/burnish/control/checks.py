"""What a config would train on, asked before there is a run; and what was said of a run, held against its diary.

Starts nothing and keeps nothing but tokens in the stores.
"""

from burnish.control.house import House
from burnish.control.lookup import find_run
from burnish.control.resume import find_resume_point
from burnish.control.submission import check_room, choose_volume, find_setting
from burnish.control.tables import ReportRow, RunRow
from burnish.control.volumes import volume_root
from burnish.data.check import check_config, first_look
from burnish.dialects import read_config
from burnish.errors import BurnishError, ServerError
from burnish.run.report import CheckReport, Comparison, refusals_of
from burnish.run.status import RunStatus
from burnish.wire import CheckRequest, RunCheck


def check(house: House, request: CheckRequest) -> CheckReport:
    """A report of what a submission would train on; what it would refuse is in `refusals`."""
    try:
        return _check(house, request)
    except ServerError:
        raise
    except BurnishError as error:
        return CheckReport(refusals=refusals_of(error))


def read_check(house: House, run_id: str) -> RunCheck:
    """What was said of a run at its submission, and whether it has been given that."""
    run = find_run(house, run_id)
    with house.database.session(writes=False) as session:
        row = session.get(ReportRow, run_id)
    if row is None:
        return RunCheck()
    report = CheckReport.model_validate(row.report)
    return RunCheck(report=report.model_copy(update={"comparison": compare_whole(report, run)}))


def compare_whole(report: CheckReport, run: RunRow) -> Comparison:
    """The hash that the check foresaw for the last step, against what the diary has come to."""
    prepared = run.prepared or {}
    promised, steps = prepared.get("stream_at_end", ""), prepared.get("steps", 0)
    if not report.stream_at_end:
        return _not_compared("the check read a part of the data" if report.ledger else "made-up data has no hash")
    if not promised:
        return _not_compared("the trainer has not counted its rows yet")
    if promised != report.stream_at_end:
        return Comparison(
            verdict="differs",
            reason="the trainer prepared other tokens or masks than were checked; the data changed in between.",
            checked=report.stream_at_end,
            trained=promised,
        )
    if run.step < steps:
        where = "stopped at" if RunStatus(run.status).is_over else "is at"
        return _not_compared(f"the run {where} step {run.step} of {steps}; what was prepared is what was checked")
    return _compared(report.stream_at_end, run)


def _check(house: House, request: CheckRequest) -> CheckReport:
    run = None if request.run_id is None else find_run(house, request.run_id)
    reading = read_config(request.config)
    spec = reading.spec
    volume = choose_volume(spec, request.volume or (run.volume if run else None) or reading.volume)
    setting = find_setting(house, spec, volume)
    if request.first_look:
        return first_look(spec, setting, proof_rows=request.proof_rows)
    report = check_config(
        spec,
        setting,
        notes=reading.notes,
        rows=request.rows,
        proof_rows=request.proof_rows,
        up_to_step=run.step if run else None,
    )
    try:
        find_resume_point(spec, house.home.scratch if volume is None else volume_root(house, volume))
        check_room(
            house,
            volume,
            setting.storage_bytes(spec),
        )
    except ServerError:
        raise
    except BurnishError as error:
        report = report.model_copy(update={"refusals": [*report.refusals, *refusals_of(error)]})
    return report if run is None else report.model_copy(update={"comparison": _compare_so_far(report, run)})


def _compare_so_far(report: CheckReport, run: RunRow) -> Comparison:
    """The hash of as many steps as the run has done."""
    if not run.step:
        return _not_compared(f"{run.id} has done no step yet")
    if not report.stream_at_step:
        return _not_compared("only a part of the data was read" if report.ledger else "there is nothing to compare")
    return _compared(report.stream_at_step, run)


def _compared(checked: str, run: RunRow) -> Comparison:
    if not run.stream:
        return _not_compared("the run's diary holds no hash")
    agrees = checked == run.stream
    return Comparison(
        verdict="agrees" if agrees else "differs",
        reason=f"up to step {run.step}, {run.id} was given "
        + ("the very tokens and masks of this check." if agrees else "other tokens or masks than those of this check."),
        checked=checked,
        trained=run.stream,
    )


def _not_compared(reason: str) -> Comparison:
    return Comparison(verdict="not compared", reason=f"{reason}.")
