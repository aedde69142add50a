"""The route that says what a config would train on. A thread reads the rows; the answer is bounded, the data is not."""

from fastapi import APIRouter, Depends

from burnish.api.auth import require_key
from burnish.api.given import GivenHouse
from burnish.control import checks as control
from burnish.run.report import CheckReport
from burnish.wire import CheckRequest

router = APIRouter(prefix="/checks", dependencies=[Depends(require_key)])


@router.post("")
def check(house: GivenHouse, body: CheckRequest) -> CheckReport:
    return control.check(house, body)
