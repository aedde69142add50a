"""Views as plain text: what each command prints. Pure; knows no terminal, no colour and no server."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from burnish.literals import format_size
from burnish.run.status import RunStatus
from burnish.wire import (
    CapacityView,
    CheckpointView,
    EntryView,
    MetricsView,
    ModelView,
    RunDetail,
    RunView,
    UsageView,
    VolumeView,
)

NO_MODELS = "No models yet. Add one: burnish models add burnish/tiny"

_ENDED = {RunStatus.COMPLETED: "Completed", RunStatus.FAILED: "Failed", RunStatus.STOPPED: "Stopped"}
_DIGITS = {"loss/mean": 4, "loss/perplexity": 3, "val/loss": 4, "val/perplexity": 3}
_CURVE = ("loss/mean", "loss/perplexity", "val/loss", "val/perplexity")


def run_text(run: RunDetail) -> str:
    facts = {
        "Status": str(run.status),
        "Reason": run.reason,
        "Hint": run.hint,
        "Name": run.name,
        "Model": run.model,
        "Volume": run.volume or "",
        "Max Steps": "not known until the rows are counted" if run.max_steps is None else str(run.max_steps),
        "Step": str(run.step) if run.step else "",
        "Loss": "" if run.loss is None else f"{run.loss:.4f}",
        "Created": time_text(run.created_at),
        "Started": time_text(run.started_at),
        _ENDED.get(run.status, "Finished"): time_text(run.finished_at),
        "Attempt": str(run.attempt) if run.attempt > 1 else "",
        "Data": data_text(run.data),
        "Verified": verified_text(run.verified),
        "Usage": usage_text(run.usage) if run.usage.tokens else "",
        "Output": run.output_path,
        "Page": run.page_url,
    }
    lines = [f"  {name}: {value}" for name, value in facts.items() if value]
    return "\n".join([f"Run {run.id}", "", *lines, *(f"  Note: {note}" for note in run.notes)])


def runs_text(runs: Sequence[RunView]) -> str:
    rows = [
        [
            run.id,
            run.name,
            str(run.status),
            run.model,
            f"{run.step}/{'?' if run.max_steps is None else run.max_steps}",
            "-" if run.loss is None else f"{run.loss:.4f}",
            time_text(run.created_at),
        ]
        for run in runs
    ]
    return table_text(("RUN", "NAME", "STATUS", "MODEL", "STEP", "LOSS", "CREATED"), rows)


def models_text(models: Sequence[ModelView]) -> str:
    rows = [
        [model.id, model.kind, model.architecture, count_text(model.parameters), format_size(model.size_bytes)]
        for model in models
    ]
    return table_text(("MODEL", "KIND", "ARCHITECTURE", "PARAMETERS", "SIZE"), rows)


def model_text(model: ModelView) -> str:
    facts = {
        "Kind": model.kind,
        "Base": model.base or "",
        "Run": model.run_id or "",
        "Step": str(model.step) if model.step is not None else "",
        "Architecture": model.architecture,
        "Parameters": f"{model.parameters:,}",
        "Size": format_size(model.size_bytes),
        "Source": model.source,
        "Folder": model.directory,
        "Added": time_text(model.added_at),
    }
    return "\n".join([f"Model {model.id}", "", *(f"  {name}: {value}" for name, value in facts.items() if value)])


def checkpoints_text(checkpoints: Sequence[CheckpointView]) -> str:
    rows = [
        [str(each.step), format_size(each.size_bytes), time_text(each.created_at), each.path] for each in checkpoints
    ]
    return table_text(("STEP", "SIZE", "CREATED", "PATH"), rows)


def volumes_text(volumes: Sequence[VolumeView]) -> str:
    rows = [
        [
            volume.name,
            volume.status,
            format_size(volume.size_bytes),
            format_size(volume.used_bytes),
            time_text(volume.created_at),
        ]
        for volume in volumes
    ]
    return table_text(("NAME", "STATUS", "SIZE", "USED", "CREATED"), rows)


def volume_text(volume: VolumeView) -> str:
    free = max(0, volume.size_bytes - volume.used_bytes)
    return "\n".join(
        [
            f"Volume {volume.name}",
            "",
            f"  Status: {volume.status}",
            f"  Size: {format_size(volume.size_bytes)}",
            f"  Used: {format_size(volume.used_bytes)} ({format_size(free)} free)",
            f"  Created: {time_text(volume.created_at)}",
        ]
    )


def entries_text(entries: Sequence[EntryView], *, whole_paths: bool) -> str:
    lines = []
    for entry in entries:
        shown = entry.path if whole_paths else PurePosixPath(entry.path).name
        slash = "/" if entry.kind == "folder" else ""
        lines.append(f"{format_size(entry.size_bytes):>8}  {time_text(entry.modified_at)}  {shown}{slash}")
    return "\n".join(lines)


def metrics_text(metrics: MetricsView, *, every: bool = False) -> str:
    """One series a line, aligned, as `loss/mean: [1.108, 1.1788]`; by default the loss alone."""
    names = list(metrics.series) if every else [name for name in _CURVE if name in metrics.series]
    lines = {"step": str(metrics.steps)} | {name: _series_text(name, metrics.series[name]) for name in names}
    width = max(map(len, lines)) + 2
    return "\n".join(f"{name + ':':<{width}}{values}" for name, values in lines.items())


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned columns, nothing cut: a name is there to be copied. Empty where there are no rows."""
    rows = [*rows]
    if not rows:
        return ""
    lines = [columns, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def data_text(prepared: dict) -> str:
    """The diary's `prepared` in a line; empty until the rows are counted."""
    if not prepared:
        return ""
    dropped = ", ".join(f"{count} {reason}" for reason, count in prepared.get("conversations_dropped", {}).items())
    line = f"{prepared.get('conversations_used')} of {prepared.get('conversations_read')} conversations"
    line += f" ({dropped})" if dropped else ""
    return f"{line}, {prepared.get('tokens', 0):,} tokens in {prepared.get('rows')} rows"


def verified_text(verified: Sequence[dict]) -> str:
    """`full, to 2.1e-07 (1e-04 allowed)`: how far each artefact is from what was trained."""
    return "; ".join(_one_verified(each) for each in verified)


def _one_verified(told: dict) -> str:
    apart = told.get("largest_difference")
    if not isinstance(apart, int | float):
        return f"{told.get('artefact')}: {told.get('note') or 'too far from what was trained to say'}"
    return f"{told.get('artefact')}, to {apart:.1e} ({told.get('tolerance', 0.0):.0e} allowed)"


def usage_text(usage: UsageView) -> str:
    return f"{usage.tokens:,} tokens ({usage.trained_tokens:,} trained) in {span_text(usage.train_seconds)}"


def capacity_text(capacity: CapacityView) -> str:
    """`one CPU slot: CPU, 2 cores`, `8 GPU slots: NVIDIA H200`."""
    if not capacity.slots:
        return "no slot"
    kinds = {"cpu": "CPU", "cuda": "GPU"}
    first = capacity.slots[0]
    if len(capacity.slots) == 1:
        return f"one {kinds[first.kind]} slot: {first.name}"
    names = ", ".join(dict.fromkeys(slot.name for slot in capacity.slots))
    return f"{len(capacity.slots)} {kinds[first.kind]} slots: {names}"


def time_text(moment: datetime | None) -> str:
    """In the user's own time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment else ""


def span_text(seconds: float) -> str:
    """`0.8 s`, `43 s`, `5 min 12 s`, `3 h 20 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count_text(number: int) -> str:
    """`135M`, `0.4M`, `7.2B`: parameters, in thousands."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def _series_text(name: str, values: Sequence[float | None]) -> str:
    digits = _DIGITS.get(name)
    return "[" + ", ".join("null" if value is None else _number_text(value, digits) for value in values) + "]"


def _number_text(value: float, digits: int | None) -> str:
    return f"{value:.6g}" if digits is None else str(round(value, digits))
