"""Routes of the model catalogue. An id holds slashes and colons: `ft:burnish/tiny:job_...`."""

from fastapi import APIRouter, Depends

from burnish.api.auth import require_key
from burnish.api.given import GivenHouse
from burnish.control import catalog
from burnish.wire import AddModelRequest, ModelList, ModelView

router = APIRouter(prefix="/models", dependencies=[Depends(require_key)])


@router.get("")
def list_models(house: GivenHouse) -> ModelList:
    return catalog.list_models(house)


@router.post("")
def add_model(house: GivenHouse, body: AddModelRequest) -> ModelView:
    return catalog.add_model(house, body)


@router.get("/{model_id:path}")
def get_model(house: GivenHouse, model_id: str) -> ModelView:
    return catalog.get_model(house, model_id)


@router.delete("/{model_id:path}", status_code=204)
def remove_model(house: GivenHouse, model_id: str) -> None:
    catalog.remove_model(house, model_id)
