"""What a route is given: the house behind it."""

from typing import Annotated, cast

from fastapi import Depends, Request

from burnish.control.house import House


def _house_of(request: Request) -> House:
    return cast(House, request.app.state.house)


GivenHouse = Annotated[House, Depends(_house_of)]
