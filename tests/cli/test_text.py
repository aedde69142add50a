"""What views look like in words."""

import pytest

from burnish.cli.show import facts_text
from burnish.cli.text import capacity_text, count_text, metrics_text, span_text, table_text
from burnish.wire import CapacityView, MetricsView, RunView, SlotView, UsageView


def a_run(**values) -> RunView:
    base = {"id": "job_0", "name": "x", "status": "RUNNING", "model": "burnish/tiny", "created_at": 0}
    return RunView.model_validate(base | values)


def test_metrics_line_up_as_in_the_walkthrough():
    losses: list[float | None] = [1.108, 1.17884, None]
    view = MetricsView(steps=[1, 2, 3], series={"loss/mean": losses, "loss/perplexity": [3.0283, 3.2508, None]})
    assert metrics_text(view).splitlines() == [
        "step:            [1, 2, 3]",
        "loss/mean:       [1.108, 1.1788, null]",
        "loss/perplexity: [3.028, 3.251, null]",
    ]


def test_all_metrics_show_all_and_the_default_only_the_loss():
    view = MetricsView(steps=[1], series={"loss/mean": [1.0], "optim/lr": [2e-05]})
    assert "optim/lr:  [2e-05]" in metrics_text(view, every=True)
    assert "optim" not in metrics_text(view)


def test_a_table_cuts_nothing_and_is_empty_without_rows():
    name = "x" * 300
    assert table_text(("NAME", "SIZE"), [(name, "1")]).splitlines()[1] == f"{name}  1"
    assert table_text(("NAME", "SIZE"), []) == ""


def test_facts_appear_as_they_become_known():
    assert facts_text(a_run()) == ""
    assert facts_text(a_run(loss=1.5)) == " · loss 1.5000"
    usage = UsageView(tokens=2000, train_seconds=4.0)
    known = a_run(loss=1.5, step=2, max_steps=10, usage=usage)
    assert facts_text(known) == " · loss 1.5000 · 500 tokens/s · 16 s left"
    assert "left" not in facts_text(a_run(status="COMPLETED", step=2, max_steps=10, usage=usage))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.84, "0.8 s"), (43.4, "43 s"), (59.7, "1 min 0 s"), (312, "5 min 12 s"), (12_000, "3 h 20 min")],
)
def test_spans_read_as_people_say_them(seconds, text):
    assert span_text(seconds) == text


def test_counts_and_slots_read_as_people_say_them():
    assert [count_text(n) for n in (999, 213_824, 134_515_008, 7_240_000_000)] == ["999", "214K", "135M", "7.24B"]
    gpu = SlotView(kind="cuda", name="NVIDIA H200", memory_bytes=1)
    cpu = SlotView(kind="cpu", name="CPU, 2 cores", memory_bytes=1)
    assert capacity_text(CapacityView(executor="local", slots=[cpu])) == "one CPU slot: CPU, 2 cores"
    assert capacity_text(CapacityView(executor="local", slots=[gpu] * 8)) == "8 GPU slots: NVIDIA H200"
    assert capacity_text(CapacityView(executor="local", slots=[])) == "no slot"
