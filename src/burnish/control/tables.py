"""The tables. A row is data; what may be done with it is told by the verbs.

Times are UTC. A change here comes with a migration in `migrations/versions`; a test compares the two.
"""

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC. SQLite keeps no time zone, so it is put back here."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Table(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        datetime: UtcDateTime,
        str: Text,
        int: Integer,
        float: Float(53),
        dict[str, Any]: JSON,
        dict[str, float | None]: JSON,
        list[str]: JSON,
        list[dict[str, Any]]: JSON,
        list[int]: JSON,
    }


class VolumeRow(Table):
    __tablename__ = "volumes"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]


class RunRow(Table):
    __tablename__ = "runs"
    __table_args__ = (Index("ix_runs_status", "status"), Index("ix_runs_created_at", "created_at"))

    id: Mapped[str] = mapped_column(String(20), primary_key=True)
    name: Mapped[str]
    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(default="")
    hint: Mapped[str] = mapped_column(default="")
    model: Mapped[str]
    volume: Mapped[str | None] = mapped_column(String(63))
    dialect: Mapped[str] = mapped_column(String(16))
    config: Mapped[str]
    """As written, with secrets masked; what was masked is kept in `home.secrets`."""
    spec: Mapped[dict[str, Any]]
    """`TrainSpec` without the values of its `environment`."""
    layout: Mapped[dict[str, Any]]
    notes: Mapped[list[str]]
    idempotency_key: Mapped[str | None] = mapped_column(String(255), unique=True)
    request_digest: Mapped[str] = mapped_column(String(64))

    attempt: Mapped[int] = mapped_column(default=0)
    """The newest; 0 before the first launch."""
    stop_requested_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    diary_offset: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes of `events.jsonl` that are in these tables."""
    prepared: Mapped[dict[str, Any] | None]
    """What the rows came to, as the diary told."""
    max_steps: Mapped[int | None]
    step: Mapped[int] = mapped_column(default=0)
    loss: Mapped[float | None] = mapped_column(Float(53))
    stream: Mapped[str] = mapped_column(String(32), default="", server_default="")
    """Hash of all that the model was given up to `step`."""
    verified: Mapped[list[dict[str, Any]]] = mapped_column(default=list, server_default="[]")
    """How the last save compares with what was trained, an entry for each artefact, as the diary told."""
    tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    trained_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    train_seconds: Mapped[float] = mapped_column(Float(53), default=0.0)

    lease_token: Mapped[str | None] = mapped_column(String(32))
    lease_expires_at: Mapped[datetime | None]
    troubles: Mapped[int] = mapped_column(default=0)
    """Ticks in a row in which the reconciler failed on this run."""


class AttemptRow(Table):
    __tablename__ = "attempts"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    slots: Mapped[list[int]]
    best_before: Mapped[int] = mapped_column(default=0)
    """The furthest step that any earlier attempt reached."""
    last_step: Mapped[int] = mapped_column(default=0)
    """The furthest step that this one reached."""
    created_at: Mapped[datetime]
    launched_at: Mapped[datetime | None]
    """When the executor took it; None while that is not known."""
    started_at: Mapped[datetime | None]
    """When the trainer's process said that it is up."""
    device: Mapped[str] = mapped_column(default="")
    stop_sent_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(String(16))
    """The diary's last line: completed, stopped or failed."""
    message: Mapped[str] = mapped_column(default="")
    hint: Mapped[str] = mapped_column(default="")
    outcome_at: Mapped[datetime | None]
    exit_code: Mapped[int | None]
    signal: Mapped[int | None]
    ended_at: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(default="")
    """How it ended, in one sentence."""


class StepRow(Table):
    __tablename__ = "steps"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    at: Mapped[datetime]
    values: Mapped[dict[str, float | None]]
    """Metrics as `group/name`; null where the number was not finite."""
    tokens: Mapped[int] = mapped_column(BigInteger)
    trained_tokens: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float]
    stream: Mapped[str] = mapped_column(String(32), default="", server_default="")
    """Hash of all that the model was given up to here."""


class ReportRow(Table):
    """What the check at a run's submission said. Apart from the run, as it is large and seldom asked for."""

    __tablename__ = "reports"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    report: Mapped[dict[str, Any]]
    """`CheckReport`, its proof cut short."""


class CheckpointRow(Table):
    __tablename__ = "checkpoints"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    path: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]


class ExportRow(Table):
    """A model that a run made. Outlives the run's record: the files are the user's."""

    __tablename__ = "exports"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    """`ft:<base>:<job>`, `peft:<base>:<job>`."""
    base: Mapped[str]
    run_id: Mapped[str] = mapped_column(String(20))
    step: Mapped[int]
    path: Mapped[str]
    """From the volume's root, with a leading `/`."""
    volume: Mapped[str | None] = mapped_column(String(63))
    """None: the path is under `home.scratch`."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
