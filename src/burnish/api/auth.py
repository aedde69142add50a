"""Who may ask: the holder of the server's key for everything, the holder of a watch key for reading one run.

A watch key is worked out from the server's key and the run's id, so none is stored. Knows no route.
"""

import hashlib
import hmac

from fastapi import Depends, Request

from burnish.errors import AccessDenied

_HINT = "Send the server's key as Authorization: Bearer <key>; it is in the file `token` of the server's home."


def watch_key(token: str, run_id: str) -> str:
    """Opens one run for reading: its detail, metrics, log and checkpoints."""
    return hmac.new(token.encode(), f"watch:{run_id}".encode(), hashlib.sha256).hexdigest()[:32]


def require_key(request: Request) -> None:
    """`AccessDenied` unless the request carries the server's key."""
    if not _carries_key(request):
        raise AccessDenied("The key is missing or wrong.", hint=_HINT)


def require_reader(request: Request, run_id: str) -> None:
    """`AccessDenied` unless the request carries the server's key, or `?key=` with this run's watch key."""
    offered = request.query_params.get("key", "")
    if not (_same(offered, watch_key(request.app.state.token, run_id)) or _carries_key(request)):
        raise AccessDenied("The key is missing or does not open this run.", hint=_HINT)


Keyed = Depends(require_key)
Reader = Depends(require_reader)


def _carries_key(request: Request) -> bool:
    scheme, _, offered = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and _same(offered.strip(), request.app.state.token)


def _same(offered: str, true: str) -> bool:
    # The time that this takes tells nothing of where the two differ.
    return hmac.compare_digest(offered.encode(), true.encode())
