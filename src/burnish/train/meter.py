"""What a step cost and what it came to, as metrics in base units and as one log line. Knows no tensor."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from burnish.spec.model_facts import ModelFacts

# No entry, no MFU: another card's peak would be a made-up number. Dense bfloat16, from the makers' data sheets.
_PEAK_FLOPS = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "B200": 2250e12,
    "L40S": 362e12,
}


@dataclass(frozen=True)
class StepReport:
    """One optimizer step, over all ranks."""

    step: int
    loss: float
    gradient_norm: float
    learning_rate: float
    seconds: float
    tokens: int
    """Real tokens, padding not counted."""
    trained_tokens: int
    slots: int
    """Token slots of the step's rows, padding included."""
    squared_lengths: int
    """Sum of the squares of the conversations' lengths: what attention pays for."""
    epoch: float
    skipped: int
    """Steps skipped so far, this one included, because their loss or gradient was not finite."""
    peak_memory_bytes: int


@dataclass
class Meter:
    """Turns reports into metrics; keeps the window that throughput is taken over."""

    facts: ModelFacts | None
    peak_flops: float | None
    """Of all devices together; None where it is not known, and then there is no MFU."""
    memory_bytes: int
    shows_norm: bool = True
    """Prime's line has no gradient norm where nothing is clipped."""
    adapter_parameters: int | None = None
    """What is trained beside frozen weights; None where every weight is trained."""
    _window: deque[StepReport] = field(default_factory=lambda: deque(maxlen=10))

    def add(self, report: StepReport) -> None:
        self._window.append(report)

    @property
    def throughput(self) -> float:
        """Slots per second over the last ten steps, padding included, as Prime counts."""
        return self._rate("slots")

    @property
    def mfu(self) -> float | None:
        """Share of the peak that useful work of the last ten steps made."""
        if self.facts is None or self.peak_flops is None:
            return None
        work = sum(useful_flops(self.facts, report, self.adapter_parameters) for report in self._window)
        return work / sum(report.seconds for report in self._window) / self.peak_flops

    def values(self) -> dict[str, float]:
        """Metrics of the step added last. What is not finite is left out, since JSON cannot say it."""
        report = self._window[-1]
        values = {
            "loss/mean": report.loss,
            "loss/perplexity": math.exp(min(report.loss, 20.0)),
            "loss/skipped": report.skipped,
            "optim/lr": report.learning_rate,
            "optim/grad_norm": report.gradient_norm,
            "perf/throughput": self.throughput,
            "perf/trained_tokens_per_second": self._rate("trained_tokens"),
            "memory/peak_bytes": report.peak_memory_bytes,
            "time/step_seconds": report.seconds,
            "progress/epoch": report.epoch,
        }
        if (mfu := self.mfu) is not None:
            values["perf/mfu"] = mfu
        return {name: float(value) for name, value in values.items() if math.isfinite(value)}

    def line(self) -> str:
        """`Step 1 |    8.5s | Loss 1.1080 | Grad. Norm 12.9495 | LR 2.00e-05 | Throughput 6704 tokens/s | ...`"""
        report, mfu = self._window[-1], self.mfu
        peak, whole = report.peak_memory_bytes / 2**30, self.memory_bytes / 2**30
        parts = [
            f"Step {report.step}",
            f"{format_seconds(report.seconds):>7}",
            f"Loss {report.loss:.4f}",
            *([f"Grad. Norm {report.gradient_norm:.4f}"] if self.shows_norm else []),
            f"LR {report.learning_rate:.2e}",
            f"Throughput {self.throughput:.0f} tokens/s",
            f"MFU {'n/a' if mfu is None else f'{mfu:.1%}'}",
            f"Peak Mem. {peak:.1f}/{whole:.1f} GiB ({peak / whole:.1%})",
        ]
        return " | ".join(parts)

    def _rate(self, count: Literal["slots", "trained_tokens"]) -> float:
        return sum(getattr(report, count) for report in self._window) / sum(each.seconds for each in self._window)


def useful_flops(facts: ModelFacts, report: StepReport, adapter_parameters: int | None = None) -> float:
    """Forward and backward of what the loss needs: real tokens through the layers, trained ones through the head,
    causal attention within each conversation. Recomputation and padding are no use to anyone and count nothing.

    A frozen weight has one product in the backward pass, not two; an adapter's are added to it.
    """
    matrices = facts.layers * facts.layer_matrix_parameters * report.tokens
    head = facts.vocabulary * facts.hidden * report.trained_tokens
    attention = facts.layers * facts.heads * facts.head_size * report.squared_lengths
    if adapter_parameters is None:
        return 6.0 * (matrices + head + attention)
    return 4.0 * (matrices + head) + 6.0 * (attention + adapter_parameters * report.tokens)


def peak_flops_of(device: str) -> float | None:
    """The data sheet's bfloat16 peak of a GPU named so by its driver."""
    return next((peak for name, peak in _PEAK_FLOPS.items() if all(word in device for word in name.split())), None)


def format_seconds(seconds: float) -> str:
    """`850ms`, `8.5s`, `2m 5s`, `1h 3m`, `2d 4h`: at most seven letters."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"
