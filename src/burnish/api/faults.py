"""What goes wrong, as an `ErrorView` and a status. The whole traceback of a surprise goes to the log alone."""

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from burnish.errors import AccessDenied, BurnishError, ConfigError, Conflict, NotFound, ServerError, VolumeFull
from burnish.wire import ErrorView, ProblemView

_log = logging.getLogger("burnish.api")

_LOG = "Its log says more: burnish status shows where it is."
_STATUSES: list[tuple[type[BurnishError], int]] = [
    (NotFound, 404),
    (Conflict, 409),
    (VolumeFull, 409),
    (AccessDenied, 401),
    (ServerError, 500),
    (BurnishError, 400),
]


def answer_faults(app: FastAPI) -> None:
    """Make every answer of 400 and above an `ErrorView`."""
    app.add_exception_handler(BurnishError, _answer_ours)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(OSError, _answer_os)
    app.add_exception_handler(Exception, _answer_surprise)


def fault(status: int, code: str, message: str, hint: str = "", problems: Sequence[ProblemView] = ()) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    view = ErrorView(code=code, message=message, hint=hint, problems=list(problems))
    return JSONResponse(view.model_dump(), status_code=status, headers=headers)


def _answer_ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BurnishError)
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    faults = error.problems if isinstance(error, ConfigError) else ()
    problems = [ProblemView(key=each.key, message=each.message) for each in faults]
    return fault(status, error.code, error.message, error.hint, problems)


def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return fault(422, "request", f"The request cannot be read: {_list_faults(error.errors())}.")


def _list_faults(faults: Sequence[Any]) -> str:
    return "; ".join(f"{_key(each['loc'])}: {_uncapitalised(each['msg'])}" for each in faults)


def _key(place: Sequence[str | int]) -> str:
    # ("body", "sizes", "a") -> sizes.a; ("body", 17) -> byte 17 of what is no JSON
    named = [str(part) for part in place[1:] if isinstance(part, str)]
    return ".".join(named) or f"the {place[0]}"


def _uncapitalised(sentence: str) -> str:
    return sentence if sentence[:2].isupper() else sentence[:1].lower() + sentence[1:]


def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return fault(404, NotFound.code, f"There is no {request.method} {request.url.path} here.")
    if error.status_code == 405:
        return fault(405, "method", f"{request.url.path} cannot be asked by {request.method}.")
    return fault(error.status_code, "request", str(error.detail))


def _answer_os(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OSError)
    _log.error("%s %s", request.method, request.url.path, exc_info=error)
    place = f" ({error.filename})" if error.filename else ""
    return fault(500, ServerError.code, f"The server's machine says: {error.strerror or error}{place}.", hint=_LOG)


def _answer_surprise(request: Request, error: Exception) -> JSONResponse:
    # Starlette raises it again behind this answer, so the traceback is logged there.
    return fault(
        500,
        ServerError.code,
        f"The server failed at {request.method} {request.url.path}: {type(error).__name__}.",
        hint=_LOG,
    )
