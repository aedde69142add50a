"""The Python client of a burnish server: `Client(url, api_key)` with `.runs`, `.volumes`, `.files` and `.models`.

Every method answers with a view from `burnish.wire` or raises from `burnish.errors`. Knows no terminal.
"""

import secrets
import time
from collections.abc import Iterator
from types import TracebackType

import httpx

from burnish.run.report import CheckReport
from burnish.sdk.files import Files
from burnish.sdk.transport import Find, LostReply, Transport, Unreachable, path_of
from burnish.wire import (
    AddModelRequest,
    CapacityView,
    CheckpointList,
    CheckpointView,
    CheckRequest,
    CreateVolumeRequest,
    HealthView,
    LogView,
    MetricsView,
    ModelList,
    ModelView,
    ResizeVolumeRequest,
    ResumeRequest,
    RunCheck,
    RunDetail,
    RunList,
    RunView,
    SubmitRequest,
    VolumeList,
    VolumeView,
)

LOG_BYTES = 1 << 18
"""How much of a log one request asks for."""

_FIRST_PAUSE, _LAST_PAUSE = 0.1, 1.0
"""Seconds between two looks at a log that did not grow."""


class Client:
    """Talks to one server. `http` may be any httpx client, such as FastAPI's TestClient."""

    def __init__(self, url: str, api_key: str, *, http: httpx.Client | None = None, find: Find | None = None) -> None:
        self._transport = Transport(url, api_key, http=http, find=find)
        self.runs = Runs(self._transport)
        self.volumes = Volumes(self._transport)
        self.files = Files(self._transport)
        self.models = Models(self._transport)

    @property
    def url(self) -> str:
        return self._transport.url

    def health(self, *, patience_seconds: float = 5.0) -> HealthView:
        """Answered at once by a server that is well; whoever is silent for longer is none."""
        return self._transport.ask(HealthView, "GET", "/health", timeout=patience_seconds)

    def capacity(self) -> CapacityView:
        return self._transport.ask(CapacityView, "GET", "/capacity")

    def check(self, request: CheckRequest) -> CheckReport:
        """What a config would train on, and whether it would be accepted. Returns when the rows are read."""
        return self._transport.ask(CheckReport, "POST", "/checks", json=request.model_dump(), timeout=None)

    def await_server(self) -> bool:
        """Wait for a server that stopped answering, at most a minute; False where none came back."""
        return self._transport.await_return()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Runs:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def submit(
        self, config: str, *, volume: str | None = None, name: str | None = None, idempotency_key: str | None = None
    ) -> RunDetail:
        """Dispatch a config, given as the file's text. Sent twice under one `idempotency_key`, it is one run.

        Without a key one is made up, so that a reply lost on the way can be asked for again.
        """
        request = SubmitRequest(config=config, volume=volume, name=name)
        return self._start("/runs", request, idempotency_key)

    def resume(
        self, run_id: str, *, step: int | None = None, name: str | None = None, idempotency_key: str | None = None
    ) -> RunDetail:
        """Dispatch the config of a run that has ended again, from its newest checkpoint on, or from that of `step`."""
        return self._start(path_of("runs", run_id, "resume"), ResumeRequest(step=step, name=name), idempotency_key)

    def _start(self, path: str, request: SubmitRequest | ResumeRequest, idempotency_key: str | None) -> RunDetail:
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        body = request.model_dump()
        try:
            return self._transport.ask(RunDetail, "POST", path, json=body, headers=headers, timeout=None)
        except LostReply:
            if not self._transport.await_return(seconds=10):
                raise
            return self._transport.ask(RunDetail, "POST", path, json=body, headers=headers, timeout=None)

    def checkpoints(self, run_id: str) -> list[CheckpointView]:
        return self._transport.ask(CheckpointList, "GET", path_of("runs", run_id, "checkpoints")).checkpoints

    def list(self) -> list[RunView]:
        """Newest first."""
        return self._transport.ask(RunList, "GET", "/runs").runs

    def get(self, run_id: str) -> RunDetail:
        return self._transport.ask(RunDetail, "GET", path_of("runs", run_id))

    def check(self, run_id: str) -> CheckReport | None:
        """What was said of the run at its submission; None for a run that is older than checks."""
        return self._transport.ask(RunCheck, "GET", path_of("runs", run_id, "check")).report

    def stop(self, run_id: str) -> RunView:
        return self._transport.ask(RunView, "POST", path_of("runs", run_id, "stop"))

    def delete(self, run_id: str) -> None:
        self._transport.tell("DELETE", path_of("runs", run_id))

    def metrics(self, run_id: str, *, after_step: int = -1) -> MetricsView:
        return self._transport.ask(
            MetricsView, "GET", path_of("runs", run_id, "metrics"), params={"after_step": after_step}
        )

    def logs(self, run_id: str, *, offset: int = 0, limit: int = LOG_BYTES) -> LogView:
        params = {"offset": offset, "limit": limit}
        return self._transport.ask(LogView, "GET", path_of("runs", run_id, "logs"), params=params)

    def follow_logs(self, run_id: str, *, offset: int = 0) -> Iterator[str]:
        """The log from byte `offset` on, piece by piece as it is written, until the run is over.

        Where the server goes away, reading goes on at the same byte once it is back.
        """
        return (view.text for view in self.log_views(run_id, offset=offset, follow=True))

    def log_views(self, run_id: str, *, offset: int = 0, follow: bool = False) -> Iterator[LogView]:
        """The log's pieces, at least one; without `follow`, what is there now."""
        pause = _FIRST_PAUSE
        while True:
            try:
                view = self.logs(run_id, offset=offset)
            except Unreachable:
                if not (follow and self._transport.await_return()):
                    raise
                continue
            offset = view.next_offset
            yield view
            if view.over or not (view.text or follow):
                return
            if view.text:
                pause = _FIRST_PAUSE
            else:
                time.sleep(pause)
                pause = min(_LAST_PAUSE, pause * 1.5)


class Volumes:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, *, size: str) -> VolumeView:
        """`size` as in `100Gi`."""
        request = CreateVolumeRequest(name=name, size=size)
        return self._transport.ask(VolumeView, "POST", "/volumes", json=request.model_dump())

    def list(self) -> list[VolumeView]:
        return self._transport.ask(VolumeList, "GET", "/volumes").volumes

    def get(self, name: str) -> VolumeView:
        return self._transport.ask(VolumeView, "GET", path_of("volumes", name))

    def resize(self, name: str, *, size: str) -> VolumeView:
        request = ResizeVolumeRequest(size=size)
        return self._transport.ask(VolumeView, "PATCH", path_of("volumes", name), json=request.model_dump())

    def delete(self, name: str) -> None:
        """The volume and everything on it."""
        self._transport.tell("DELETE", path_of("volumes", name))


class Models:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[ModelView]:
        return self._transport.ask(ModelList, "GET", "/models").models

    def add(self, source: str, *, name: str | None = None) -> ModelView:
        """Put a model into the server's cache: a folder or GGUF file on its machine, a hub id, `burnish/tiny`.

        Returns when the model is there, which a download may make long.
        """
        request = AddModelRequest(source=source, name=name)
        return self._transport.ask(ModelView, "POST", "/models", json=request.model_dump(), timeout=None)

    def get(self, model_id: str) -> ModelView:
        return self._transport.ask(ModelView, "GET", path_of("models", model_id))

    def remove(self, model_id: str) -> None:
        self._transport.tell("DELETE", path_of("models", model_id))
