"""The front door: the native API under `/burnish/v1`, the run page, and nothing that is not asked through `control`."""

import os

from fastapi import APIRouter, Depends, FastAPI

import burnish
from burnish.api import checks, models, pages, runs, volumes
from burnish.api.auth import require_key
from burnish.api.faults import answer_faults
from burnish.api.gate import LOCAL_HOSTS, HostGate, RequestLog
from burnish.api.given import GivenHouse
from burnish.control.capacity import read_capacity
from burnish.control.house import House
from burnish.wire import PREFIX, CapacityView, HealthView


def create_app(house: House, token: str, *, hosts: frozenset[str] | None = LOCAL_HOSTS) -> FastAPI:
    """The application over one house. `token` is the server's key; `hosts`, the names that it answers to.

    Tests give `TestClient(app, base_url="http://127.0.0.1")`.
    """
    app = FastAPI(title="burnish", version=burnish.__version__, redirect_slashes=False, docs_url=None, redoc_url=None)
    app.openapi_url = None
    app.state.house, app.state.token = house, token
    app.include_router(_health, prefix=PREFIX)
    for router in (runs.watched, runs.router, checks.router, volumes.router, models.router, _capacity):
        app.include_router(router, prefix=PREFIX)
    app.include_router(pages.router)
    answer_faults(app)
    app.add_middleware(RequestLog)
    app.add_middleware(HostGate, hosts=hosts)
    return app


_health = APIRouter()
_capacity = APIRouter(dependencies=[Depends(require_key)])


@_health.get("/health")
def get_health() -> HealthView:
    return HealthView(version=burnish.__version__, pid=os.getpid())


@_capacity.get("/capacity")
def get_capacity(house: GivenHouse) -> CapacityView:
    return read_capacity(house)
