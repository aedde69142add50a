import pytest

from burnish.run.forecast import forecast_storage_bytes
from burnish.run.plan import describe_slots
from burnish.spec.train import Checkpoints, Export, FakeData, TrainSpec

SMALL = 1 << 20


def _spec(**values) -> TrainSpec:
    return TrainSpec(model="m", data=FakeData(), **values)


@pytest.mark.parametrize(
    ("spec", "saves"),
    [
        (_spec(steps=10, checkpoints=Checkpoints()), 1),
        (_spec(steps=10, checkpoints=Checkpoints(every_steps=5)), 2),
        (_spec(steps=10, checkpoints=Checkpoints(every_steps=3)), 4),
        (_spec(steps=10, checkpoints=Checkpoints(every_steps=1, keep_last=2)), 3),
        (_spec(epochs=3, checkpoints=Checkpoints(every_steps=1, keep_last=2)), 3),
        (_spec(epochs=3, checkpoints=Checkpoints(every_steps=1)), 1),
        (_spec(steps=99, checkpoints=Checkpoints(every_steps=1, keep_best=2)), 4),
        (_spec(steps=99, checkpoints=Checkpoints(every_steps=4, keep_interval=10)), 4 + 2),
        (_spec(steps=8, checkpoints=Checkpoints(every_steps=4, keep_interval=4, keep_last=5)), 2),
    ],
)
def test_the_forecast_counts_every_save_that_is_there_at_once(spec: TrainSpec, saves: int) -> None:
    assert forecast_storage_bytes(spec, parameters=1000, model_bytes=4000) == saves * (16_000 + SMALL)


def test_a_run_without_checkpoints_still_needs_room_for_its_model() -> None:
    assert forecast_storage_bytes(_spec(steps=10), parameters=1000, model_bytes=4000) == 4000 + SMALL


def test_a_gguf_file_is_counted_with_each_export() -> None:
    plain, f16, q8_0 = (
        forecast_storage_bytes(_spec(steps=1, export=Export(gguf=kind)), parameters=3200, model_bytes=4000)
        for kind in (None, "f16", "q8_0")
    )
    assert f16 - plain == 6400 + (16 << 20) and q8_0 - plain == 3400 + (16 << 20)


def test_slots_are_counted_in_words() -> None:
    words = [describe_slots("cpu", 0), describe_slots("cpu", 1), describe_slots("cuda", 4)]
    assert words == ["no slot at all", "one CPU slot", "4 GPU slots"]
