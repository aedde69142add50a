"""What every request passes first: is it addressed to this server, and is it worth a line in the log?

A web page elsewhere can make a browser send requests here under that page's own name; such names are refused. Keys
travel in headers and queries, so neither is logged.
"""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from burnish.api.faults import fault

_log = logging.getLogger("burnish.api")

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


class HostGate:
    """Answers only requests whose Host header, without its port, is one of `hosts`; None lets all pass."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.hosts is not None and _host(scope) not in self.hosts:
            refusal = fault(
                400, "host", "The request names another server.", hint="Ask by the address that the server prints."
            )
            await refusal(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class RequestLog:
    """One line for each request that changes something or fails."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            if status >= 400 or scope["method"] not in ("GET", "HEAD"):
                milliseconds = (time.monotonic() - begun) * 1000
                # A path may hold anything, line feeds too.
                _log.info("%s %r %d %.0f ms", scope["method"], scope["path"], status, milliseconds)


def _host(scope: Scope) -> str:
    named = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
    # [::1]:8420 -> [::1]
    end = named.find("]") + 1 if named.startswith("[") else len(named.partition(":")[0])
    return named[:end]
