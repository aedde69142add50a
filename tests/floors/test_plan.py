import itertools
import math

import pytest

from burnish.errors import PlanError
from burnish.run.plan import (
    learning_rate_at,
    plan_horizon,
    plan_layout,
    warmup_steps_of,
)
from burnish.spec.train import WSD, AdamW, Constant, Cosine, Devices, FakeData, Linear, TrainSpec


def _spec(**wish) -> TrainSpec:
    return TrainSpec(**{"model": "burnish/tiny", "data": FakeData(), "steps": 10, **wish})


def test_every_division_of_rows_over_devices_adds_up_or_is_refused():
    for rows, ranks, each in itertools.product(range(1, 17), range(1, 5), range(1, 5)):
        spec = _spec(rows_per_step=rows, rows_per_device=each, devices=Devices(per_machine=ranks))
        try:
            layout = plan_layout(spec, device="cpu")
        except PlanError as error:
            assert rows % (ranks * each) and "rows per step" in error.message
            assert int(error.hint.split()[1]) % (ranks * each) == 0
        else:
            assert layout.micro_batches * layout.readers * layout.rows_per_device == rows


@pytest.mark.parametrize(
    ("rows", "batch", "steps", "epochs", "expected"),
    [
        (10, 4, None, 1, 3),  # the tail of 2 is a step of its own
        (3, 8, None, 2, 2),  # fewer rows than a batch still trains
        (10, 4, 100, 2, 6),  # epochs end before max_steps
        (10, 4, 2, 5, 2),
        (10, 4, 7, None, 7),
        (10, 4, None, 0.5, 2),
    ],
)
def test_steps_count_the_short_last_batch_of_each_epoch(rows, batch, steps, epochs, expected):
    horizon = plan_horizon(_spec(rows_per_step=batch, steps=steps, epochs=epochs), rows_per_epoch=rows)
    assert horizon.steps == expected
    assert horizon.steps_per_epoch == math.ceil(rows / batch)


def test_a_run_without_an_end_or_without_rows_is_refused():
    with pytest.raises(PlanError, match="when the run ends"):
        plan_horizon(_spec(steps=None), rows_per_epoch=5)
    with pytest.raises(PlanError, match="no row"):
        plan_horizon(_spec(), rows_per_epoch=0)
    with pytest.raises(PlanError, match="epochs do not count"):
        plan_horizon(_spec(steps=None, epochs=1.0), rows_per_epoch=None)


def test_constant_is_constant_from_the_first_step():
    assert {learning_rate_at(step, peak=3e-5, schedule=Constant(), steps=5) for step in range(1, 6)} == {3e-5}


def test_zero_warmup_means_the_peak_at_step_one():
    schedule = Linear(warmup_steps=0, decay_steps=2)
    assert learning_rate_at(1, peak=3e-5, schedule=schedule, steps=10) == 3e-5


@pytest.mark.parametrize(
    "schedule", [Linear(warmup_steps=3, decay_steps=4, minimum=1e-7), Cosine(warmup_steps=3, minimum=1e-7)]
)
def test_schedules_rise_to_the_peak_and_fall_to_the_minimum(schedule):
    rates = [learning_rate_at(step, peak=1e-4, schedule=schedule, steps=10) for step in range(1, 11)]
    assert rates[0] == pytest.approx(1e-7) and rates[3] == pytest.approx(1e-4) and rates[-1] == pytest.approx(1e-7)
    assert rates[:4] == sorted(rates[:4]) and rates[3:] == sorted(rates[3:], reverse=True)


def test_warmup_and_decay_that_fill_the_run_meet_at_the_peak():
    schedule = Linear(warmup_steps=2, decay_steps=3)
    assert [learning_rate_at(s, peak=1.0, schedule=schedule, steps=5) for s in range(1, 6)] == [0, 0.5, 1, 0.5, 0]


def test_a_decay_of_one_step_divides_nothing_by_zero():
    schedule = Linear(warmup_steps=0, decay_steps=1)
    assert [learning_rate_at(s, peak=1.0, schedule=schedule, steps=3) for s in (1, 2, 3)] == [1.0, 1.0, 0.0]


def test_a_warmup_longer_than_the_run_never_leaves_it():
    schedule = Linear(warmup_steps=50, decay_steps=0)
    assert [round(learning_rate_at(s, peak=5e-5, schedule=schedule, steps=4), 12) for s in (1, 2, 3, 4)] == [
        0,
        1e-6,
        2e-6,
        3e-6,
    ]


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Linear(warmup_steps=0, decay_steps=0), "neither"),
        (Linear(warmup_steps=6, decay_steps=6), "exceed"),
        (Cosine(warmup_steps=10), "nothing"),
        (Cosine(warmup_steps=1, minimum=1.0), "above"),
    ],
)
def test_schedules_that_cannot_be_meant_are_refused(schedule, words):
    with pytest.raises(PlanError, match=words):
        plan_layout(_spec(schedule=schedule, optimizer=AdamW(learning_rate=1e-4)), device="cpu")


def test_a_step_that_no_machine_could_hold_is_refused():
    with pytest.raises(PlanError, match="more than one step can hold"):
        plan_layout(_spec(rows_per_step=10**9, row_tokens=64), device="cpu")


@pytest.mark.parametrize("schedule", [Linear(), Cosine(), WSD()])
def test_a_schedule_rises_to_its_peak_and_ends_at_its_minimum(schedule: Linear | Cosine | WSD) -> None:
    warm = schedule.model_copy(update={"warmup_steps": 5, "minimum": 1e-6})
    rates = [learning_rate_at(step, peak=1e-3, schedule=warm, steps=40) for step in range(1, 41)]
    assert rates[0] == pytest.approx(1e-6) and rates[5] == pytest.approx(1e-3) == max(rates)
    assert rates[-1] == pytest.approx(1e-6)
    assert rates[:6] == sorted(rates[:6]) and rates[6:] == sorted(rates[6:], reverse=True)


def test_a_warmup_may_be_a_share_of_the_run() -> None:
    schedule = Cosine(warmup_ratio=0.03)
    assert warmup_steps_of(schedule, 100) == 3 and warmup_steps_of(schedule, 10) == 1
    assert learning_rate_at(4, peak=1e-3, schedule=schedule, steps=100) == 1e-3


def test_warmup_stable_decay_is_flat_until_its_last_fifth() -> None:
    rates = [learning_rate_at(step, peak=1.0, schedule=WSD(warmup_steps=0), steps=50) for step in range(1, 51)]
    assert rates[:40] == [1.0] * 40 and rates[-1] == 0.0
    assert rates[44] == pytest.approx(1 - 0.5**0.5)  # half of the way down
