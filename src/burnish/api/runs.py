"""Routes of runs. `watched` ones open to a run's watch key as well."""

from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request

from burnish.api.auth import require_key, require_reader, watch_key
from burnish.api.given import GivenHouse
from burnish.control import checks, logs
from burnish.control import runs as control
from burnish.wire import (
    CheckpointList,
    LogView,
    MetricsView,
    ResumeRequest,
    RunCheck,
    RunDetail,
    RunList,
    RunView,
    SubmitRequest,
)

router = APIRouter(prefix="/runs", dependencies=[Depends(require_key)])
watched = APIRouter(prefix="/runs", dependencies=[Depends(require_reader)])

R = TypeVar("R", bound=RunView)

MOST_LOG_BYTES = 4 * 1024**2


@router.post("")
def submit(
    request: Request,
    house: GivenHouse,
    body: SubmitRequest,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> RunDetail:
    return _with_page(request, control.submit(house, body, idempotency_key=idempotency_key))


@router.get("")
def list_runs(request: Request, house: GivenHouse) -> RunList:
    return RunList(runs=[_with_page(request, run) for run in control.list_runs(house).runs])


@watched.get("/{run_id}")
def get_run(request: Request, house: GivenHouse, run_id: str) -> RunDetail:
    return _with_page(request, control.get_run(house, run_id))


@watched.get("/{run_id}/metrics")
def read_metrics(
    house: GivenHouse, run_id: str, after_step: Annotated[int, Query(ge=-1, le=2**53)] = -1
) -> MetricsView:
    return control.read_metrics(house, run_id, after_step)


@watched.get("/{run_id}/logs")
def read_log(
    house: GivenHouse, run_id: str, offset: int = 0, limit: Annotated[int, Query(ge=1, le=MOST_LOG_BYTES)] = 2**18
) -> LogView:
    return logs.read_log(house, run_id, offset, limit)


@watched.get("/{run_id}/checkpoints")
def list_checkpoints(house: GivenHouse, run_id: str) -> CheckpointList:
    return control.list_checkpoints(house, run_id)


@watched.get("/{run_id}/check")
def read_check(house: GivenHouse, run_id: str) -> RunCheck:
    return checks.read_check(house, run_id)


@router.post("/{run_id}/resume")
def resume_run(
    request: Request,
    house: GivenHouse,
    run_id: str,
    body: ResumeRequest,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> RunDetail:
    return _with_page(request, control.resume_run(house, run_id, body, idempotency_key=idempotency_key))


@router.post("/{run_id}/stop")
def stop_run(request: Request, house: GivenHouse, run_id: str) -> RunView:
    return _with_page(request, control.stop_run(house, run_id))


@router.delete("/{run_id}", status_code=204)
def delete_run(house: GivenHouse, run_id: str) -> None:
    control.delete_run(house, run_id)


def _with_page(request: Request, run: R) -> R:
    key = watch_key(request.app.state.token, run.id)
    return run.model_copy(update={"page_url": f"{request.base_url}runs/{run.id}?key={key}"})
