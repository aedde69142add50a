import re

import pytest

from burnish.spec.model_facts import ModelFacts
from burnish.train.meter import Meter, StepReport, format_seconds, peak_flops_of, useful_flops

FACTS = ModelFacts(
    architecture="Qwen3ForCausalLM", layers=2, hidden=8, intermediate=16, heads=2, key_value_heads=1, head_size=4,
    vocabulary=10, tied_embeddings=True,
)  # fmt: skip


def _report(step: int = 1, **changes: float) -> StepReport:
    values = {
        "step": step, "loss": 1.108, "gradient_norm": 12.9495, "learning_rate": 2e-5, "seconds": 8.5, "tokens": 7000,
        "trained_tokens": 4000, "slots": 8192, "squared_lengths": 10**6, "epoch": 0.5, "skipped": 0,
        "peak_memory_bytes": 2**30 * 107 // 10,
    }  # fmt: skip
    return StepReport(**(values | changes))  # type: ignore[arg-type]


def _meter(*reports: StepReport, peak: float | None = None, shows_norm: bool = True) -> Meter:
    meter = Meter(FACTS, peak, memory_bytes=int(139.8 * 2**30), shows_norm=shows_norm)
    for report in reports:
        meter.add(report)
    return meter


def test_the_line_reads_as_primes_does() -> None:
    assert _meter(_report()).line() == (
        "Step 1 |    8.5s | Loss 1.1080 | Grad. Norm 12.9495 | LR 2.00e-05 | Throughput 964 tokens/s | MFU n/a "
        "| Peak Mem. 10.7/139.8 GiB (7.7%)"
    )


def test_without_clipping_the_line_has_no_norm() -> None:
    line = _meter(_report(), shows_norm=False).line()
    assert "Grad. Norm" not in line
    assert re.search(r"Loss \d+\.\d{4} \| LR", line)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0ms"), (0.85, "850ms"), (0.9996, "1.0s"), (8.46, "8.5s"), (59.94, "59.9s"), (59.96, "1m 0s"),
        (125.4, "2m 5s"), (3599.7, "1h 0m"), (3780, "1h 3m"), (86400 * 2 + 3600 * 4, "2d 4h"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
    assert len(text) <= 7


def test_throughput_counts_every_slot_of_the_step_whatever_its_micro_batches() -> None:
    """8 rows of 1024 in 2 seconds are 4096 tokens/s; trained tokens are told apart from them."""
    values = _meter(_report(seconds=2.0, slots=8 * 1024, trained_tokens=1000)).values()
    assert values["perf/throughput"] == 4096.0
    assert values["perf/trained_tokens_per_second"] == 500.0


def test_throughput_is_over_the_last_ten_steps() -> None:
    meter = _meter(_report(1, seconds=1000.0), *(_report(step, seconds=1.0, slots=100) for step in range(2, 12)))
    assert meter.throughput == 100.0


def test_an_unknown_device_has_no_mfu_rather_than_anothers() -> None:
    assert peak_flops_of("NVIDIA H200") == 989e12
    assert peak_flops_of("NVIDIA GeForce RTX 4090") is None
    assert "perf/mfu" not in _meter(_report()).values()


def test_mfu_is_useful_work_over_the_peak() -> None:
    report = _report(seconds=2.0)
    assert _meter(report, peak=1e9).values()["perf/mfu"] == pytest.approx(useful_flops(FACTS, report) / 2e9)


def test_work_counts_the_head_for_trained_tokens_and_attention_within_conversations() -> None:
    base = useful_flops(FACTS, _report(tokens=0, trained_tokens=0, squared_lengths=0))
    assert base == 0
    assert useful_flops(FACTS, _report(tokens=0, trained_tokens=1, squared_lengths=0)) == 6 * 10 * 8
    # One conversation of L tokens: two products of L x L x head size, half of it masked, three times (backward twice).
    assert (
        useful_flops(FACTS, _report(tokens=0, trained_tokens=0, squared_lengths=25)) == 2 * 2 * 3 * 2 * 2 * 4 * 25 / 2
    )


def test_values_that_are_not_numbers_are_left_out() -> None:
    values = _meter(_report(loss=float("nan"), gradient_norm=float("inf"), skipped=1)).values()
    assert "loss/mean" not in values and "loss/perplexity" not in values and "optim/grad_norm" not in values
    assert values["loss/skipped"] == 1.0


def test_perplexity_is_exp_of_the_loss_and_stays_finite() -> None:
    values = _meter(_report(loss=0.0)).values()
    assert values["loss/perplexity"] == 1.0
    assert _meter(_report(loss=5000.0)).values()["loss/perplexity"] < 1e9
