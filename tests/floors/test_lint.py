"""What is warned of, and that nothing else is."""

import pytest

from burnish.run.events import DataFacts
from burnish.run.lint import lint
from burnish.run.outline import outline_run
from burnish.run.plan import plan_horizon, plan_layout
from burnish.run.report import LedgerReport, PlanReport, PrivateText, Repeats, Shared
from burnish.spec.train import SGD, AdamW, Checkpoints, Linear, Lora, SourceData, TrainSpec

ONE_EPOCH = {"steps": None, "epochs": 1}


def a_spec(**wish) -> TrainSpec:
    data = SourceData(path="x", **wish.pop("data", {}))
    wish = {"optimizer": AdamW(learning_rate=2e-5), "steps": 100} | wish
    return TrainSpec(model="m", data=data, row_tokens=1000, rows_per_step=8, **wish)


def a_ledger(**counts) -> LedgerReport:
    usual = {
        "rows_read": 1000,
        "rows_used": 1000,
        "samples": 1000,
        "tokens_rendered": 400_000,
        "trained_tokens_rendered": 200_000,
        "tokens": 400_000,
        "trained_tokens": 200_000,
        "packed_rows": 410,
        "slots": 410_000,
        "padding": 10_000,
        "pad_share": 10_000 / 410_000,
        "longest_sample": 900,
    }
    return LedgerReport(**usual | counts)


def a_plan(spec: TrainSpec, rows: int = 400) -> PlanReport:
    facts = DataFacts(
        conversations_read=1, conversations_used=1, tokens=400_000, trained_tokens=200_000, rows=rows, pad_share=0.0
    )
    layout, horizon = plan_layout(spec, device="cpu"), plan_horizon(spec, rows_per_epoch=rows)
    return outline_run(spec, layout, horizon, facts, notes=(), storage_bytes=0)


def keys(
    spec: TrainSpec, *, parameters: int = 8 * 10**9, rows: int = 400, ledger: LedgerReport | None = None
) -> list[str]:
    found = lint(spec, parameters=parameters, plan=a_plan(spec, rows), ledger=ledger or a_ledger())
    assert all(warned.text.endswith(".") and warned.reason.endswith(".") for warned in found)
    return [warned.key for warned in found]


def test_a_usual_config_is_warned_of_nothing():
    assert keys(a_spec()) == []


@pytest.mark.parametrize(
    ("rate", "parameters", "warned"),
    [
        (1e-6, 8e9, False),
        (1e-7, 8e9, True),
        (1e-3, 8e9, True),
        (5e-4, 135e6, False),
        (5e-3, 400_000, False),
        (0.0, 8e9, True),
    ],
)
def test_a_rate_is_held_against_what_is_usual_for_the_size(rate, parameters, warned):
    spec = a_spec(optimizer=AdamW(learning_rate=rate))
    assert keys(spec, parameters=int(parameters)) == (["optim.lr"] if warned else [])


def test_adapters_have_a_range_of_their_own_and_other_optimizers_none():
    assert keys(a_spec(optimizer=AdamW(learning_rate=2e-4), lora=Lora())) == []
    assert keys(a_spec(optimizer=AdamW(learning_rate=2e-6), lora=Lora())) == ["optim.lr"]
    assert keys(a_spec(optimizer=SGD(learning_rate=0.1))) == []


def test_keys_without_effect_are_warned_of_with_the_dialects_reason():
    [warned] = lint(a_spec(), notes=("model.attn has no effect here: there is one way.", "epochs is read as epochs."))
    assert (warned.key, warned.reason) == ("model.attn", "There is one way.")


@pytest.mark.parametrize(
    ("wish", "rows", "warned"),
    [
        ({"schedule": Linear(warmup_steps=100, decay_steps=0)}, 400, ["scheduler.warmup_steps"]),
        (
            {"schedule": Linear(warmup_steps=0, decay_steps=80), "steps": None, "epochs": 1},
            400,
            ["scheduler.decay_steps"],
        ),
        ({"schedule": Linear(warmup_steps=5, decay_steps=0, minimum=1e-6)}, 400, ["scheduler.min_lr"]),
        ({"steps": 5}, 7, ["data.batch_size"]),
        ({"steps": 551}, 400, ["max_steps"]),
        ({"steps": None, "epochs": 12}, 400, ["epochs"]),
        ({"checkpoints": Checkpoints(every_steps=500)}, 400, ["ckpt.interval"]),
    ],
)
def test_a_plan_that_few_people_mean(wish, rows, warned):
    assert keys(a_spec(**wish), rows=rows) == warned


@pytest.mark.parametrize(
    ("data", "counts", "warned"),
    [
        ({"pack": False}, {"longest_sample": 200}, ["data.seq_len"]),
        ({}, {"samples": 400, "samples_skipped": {"too long": 600}, "longest_sample": 5000}, ["data.seq_len"]),
        ({}, {"samples": 940, "samples_skipped": {"too long": 60}}, ["data.seq_len"]),
        ({}, {"samples": 950, "samples_skipped": {"too long": 50}}, []),
        ({"overflow": "truncate"}, {"samples_cut": 600, "longest_sample": 5000}, ["data.seq_len"]),
        ({"pack": False}, {"slots": 1_000_000}, ["data.pack"]),
        ({"on_bad_row": "skip"}, {"rows_skipped": {"bad row": 101}}, ["data.on_bad_row"]),
        ({}, {"trained_tokens": 3_999}, ["data.loss_mask"]),
        ({}, {"open_samples": 1}, ["renderer.name"]),
        ({}, {"duplicates": Repeats(rows=40), "near_duplicates": Repeats(rows=11)}, ["data.name"]),
        ({}, {"duplicates": Repeats(rows=40), "near_duplicates": Repeats(rows=10)}, []),
        ({}, {"shared": [Shared(split="test", rows=5, exact=0, near=1)]}, ["data.splits"]),
        ({}, {"shared": [Shared(split="[val]", rows=5, exact=0, near=1)]}, ["val.data.name"]),
        ({}, {"private": PrivateText(secrets={"AWS key": 2})}, ["data.name"]),
        ({}, {"private": PrivateText(personal={"e-mail address": 2})}, []),
    ],
)
def test_rows_that_few_people_mean_to_train_on(data, counts, warned):
    assert keys(a_spec(data=data), ledger=a_ledger(**counts)) == warned
