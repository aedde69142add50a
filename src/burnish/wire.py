"""Requests and answers of the native HTTP API, `/burnish/v1/...`, shared by the server, the SDK and the tests.

Times are ISO 8601 in UTC, sizes are bytes, durations are seconds.
"""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.run.report import CheckReport
from burnish.run.status import RunStatus

Bytes = Annotated[int, Field(ge=0, lt=2**63)]

PREFIX = "/burnish/v1"


class Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Request(BaseModel):
    """What people send: a key that nobody reads is refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_half_characters(cls, value: Any) -> Any:
        # JSON can spell half of a surrogate pair; no file, database or answer can hold one.
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half a character, a lone surrogate") from None
        return value


class ProblemView(Wire):
    """One fault of a config, blamed on a key as the user wrote it."""

    key: str
    message: str


class ErrorView(Wire):
    """The body of every answer of 400 and above."""

    code: str
    message: str
    hint: str = ""
    problems: list[ProblemView] = []
    """Every fault of a config, where it is the config's fault."""


# -- server -----------------------------------------------------------------


class HealthView(Wire):
    """`GET /health`, the only route that asks for no key."""

    name: Literal["burnish"] = "burnish"
    version: str
    pid: int


class SlotView(Wire):
    """A place where one rank can run."""

    kind: Literal["cpu", "cuda"]
    name: str
    memory_bytes: int
    run_id: str | None = None
    """Who holds it now."""


class CapacityView(Wire):
    """`GET /capacity`."""

    executor: str
    slots: list[SlotView]


# -- runs -------------------------------------------------------------------


class SubmitRequest(Request):
    """`POST /runs`, with an optional `Idempotency-Key` header. `config` is the file's text as written."""

    config: str
    volume: str | None = None
    name: str | None = None


class ResumeRequest(Request):
    """`POST /runs/{id}/resume`, with an optional `Idempotency-Key` header: a new run with the same config."""

    step: Annotated[int, Field(ge=1)] | None = None
    """Of the checkpoint to go on from; None is the newest."""
    name: str | None = None
    """None is the name of the run that it goes on from."""


MOST_PROOF_ROWS = 1000


class CheckRequest(Request):
    """`POST /checks`: what would be trained, and whether it would be accepted. Answers with a `CheckReport`, whose
    `refusals` are the sentences of a refused submission."""

    config: str
    volume: str | None = None
    rows: Annotated[int, Field(ge=1)] | None = None
    """Read only the first so many."""
    proof_rows: Annotated[int, Field(ge=1, le=MOST_PROOF_ROWS)] = 5
    """Show so many token by token."""
    first_look: bool = False
    """The proof of the first rows alone, which is quick."""
    run_id: str | None = None
    """Say whether this run was given the same; its volume is read where none is named."""


class UsageView(Wire):
    tokens: int = 0
    """Real tokens trained over, padding not counted; each step once, across resumes."""
    trained_tokens: int = 0
    """Of those, the ones that carried loss."""
    train_seconds: float = 0.0


class RunView(Wire):
    """`GET /runs/{id}`; `GET /runs` answers `{"runs": [...]}`, newest first."""

    id: str
    name: str
    status: RunStatus
    reason: str = ""
    """Why it waits, failed or stopped, in one sentence."""
    hint: str = ""
    model: str
    volume: str | None = None
    attempt: int = 0
    step: int = 0
    max_steps: int | None = None
    """None until the rows are counted, where the config counts epochs."""
    loss: float | None = None
    """`loss/mean` of the newest step."""
    usage: UsageView = UsageView()
    notes: list[str] = []
    """What the config's keys were taken to mean, where that leaves a question."""
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    page_url: str = ""
    """The page to watch; its key opens this run only, for reading."""


class RunDetail(RunView):
    config: str
    """As written, with secrets masked."""
    data: dict[str, Any] = {}
    """What the rows came to (the diary's `prepared`), empty until counted."""
    verified: list[dict[str, Any]] = []
    """How what it left compares with what it trained (the diary's `verified`), an entry for each artefact."""
    output_path: str
    """On the volume."""


class RunCheck(Wire):
    """`GET /runs/{id}/check`: what was said of the run when it was submitted, held against what it was given since."""

    report: CheckReport | None = None
    """None for a run that is older than checks."""


class RunList(Wire):
    runs: list[RunView]


class MetricsView(Wire):
    """`GET /runs/{id}/metrics?after_step=-1`: every step once, in order; a value that a step lacks is null.

    Step 0 is there where a run validates before its first."""

    steps: list[int]
    series: dict[str, list[float | None]]


class LogView(Wire):
    """`GET /runs/{id}/logs?offset=0&limit=...`. A negative offset counts from the end."""

    text: str
    next_offset: int
    over: bool
    """The run has ended and this was the rest."""


class CheckpointView(Wire):
    step: int
    path: str
    size_bytes: int
    created_at: datetime


class CheckpointList(Wire):
    checkpoints: list[CheckpointView]


# -- volumes ----------------------------------------------------------------


class CreateVolumeRequest(Request):
    """`POST /volumes`."""

    name: str
    size: str = "100Gi"


class ResizeVolumeRequest(Request):
    """`PATCH /volumes/{name}`."""

    size: str


class VolumeView(Wire):
    name: str
    status: str = "RUNNING"
    size_bytes: int
    used_bytes: int
    created_at: datetime


class VolumeList(Wire):
    volumes: list[VolumeView]


class EntryView(Wire):
    """One file or folder. `path` is from the volume's root, with a leading `/`."""

    path: str
    kind: Literal["file", "folder"]
    size_bytes: int
    """Of a folder: all that is under it."""
    modified_at: datetime


class EntryList(Wire):
    """`GET /volumes/{name}/entries?path=/&recursive=false`."""

    entries: list[EntryView]


class CheckPutRequest(Request):
    """`POST /volumes/{name}/put-check`: may these files come, all together? Asked before the first byte is sent.

    Then each goes by `PUT /volumes/{name}/files/{path}`, whole or not at all.
    """

    sizes: dict[str, Bytes]
    """Path on the volume -> bytes."""


# -- models -----------------------------------------------------------------


class AddModelRequest(Request):
    """`POST /models`. Answers when the model is in the cache."""

    source: str
    """A folder or a GGUF file on the server's machine, a hub id, or `burnish/tiny`."""
    name: str | None = None
    """The catalogue name; by default the hub id or the last part of the path."""


class ModelView(Wire):
    id: str
    """`burnish/tiny`, `HuggingFaceTB/SmolLM2-135M-Instruct`, `ft:<base>:<job>`, `peft:<base>:<job>`."""
    kind: Literal["base", "full", "adapter"]
    base: str | None = None
    """Of an adapter: the model that it belongs to."""
    run_id: str | None = None
    step: int | None = None
    architecture: str
    parameters: int
    size_bytes: int
    source: str
    directory: str
    """On the server's machine."""
    added_at: datetime
    notes: list[str] = []
    """What a run that starts from it should know."""


class ModelList(Wire):
    models: list[ModelView]
