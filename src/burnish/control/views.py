"""From rows to what clients are told. Reads the rows it is given and nothing else."""

from burnish.control.tables import CheckpointRow, RunRow
from burnish.run.status import RunStatus
from burnish.spec.train import TrainSpec
from burnish.wire import CheckpointView, RunDetail, RunView, UsageView


def view_run(row: RunRow) -> RunView:
    return RunView(
        id=row.id,
        name=row.name,
        status=RunStatus(row.status),
        reason=row.reason,
        hint=row.hint,
        model=row.model,
        volume=row.volume,
        attempt=row.attempt,
        step=row.step,
        max_steps=row.max_steps,
        loss=row.loss,
        usage=UsageView(tokens=row.tokens, trained_tokens=row.trained_tokens, train_seconds=row.train_seconds),
        notes=row.notes,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def view_detail(row: RunRow) -> RunDetail:
    return RunDetail(
        **view_run(row).model_dump(),
        config=row.config,
        data=row.prepared or {},
        verified=row.verified,
        output_path=f"/runs/{row.id}/outputs/fft-{row.id}",
    )


def view_checkpoint(row: CheckpointRow) -> CheckpointView:
    return CheckpointView(step=row.step, path=row.path, size_bytes=row.size_bytes, created_at=row.created_at)


def read_spec(row: RunRow, environment: dict[str, str]) -> TrainSpec:
    """The stored wish with its environment put back."""
    return TrainSpec.model_validate({**row.spec, "environment": environment})
