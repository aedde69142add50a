"""Names of targets against names of stored tensors: counted before a run, and refused while the user still looks."""

from pathlib import Path

import pytest

from burnish.errors import ConfigError
from burnish.models.folder import inspect_folder
from burnish.models.tiny import build_tiny
from burnish.run.forecast import forecast_storage_bytes
from burnish.run.targets import count_adapter_parameters, means
from burnish.spec.train import Checkpoints, Export, FakeData, Lora, TrainSpec

Q_PROJ = "model.layers.11.self_attn.q_proj"


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    folder: Path = tmp_path_factory.mktemp("tiny")
    build_tiny(folder)
    return inspect_folder(folder).shapes


@pytest.mark.parametrize(
    ("wished", "is_meant"),
    [
        ("q_proj", True), ("self_attn", True), ("11", True), ("proj", False), ("q_pro", False), ("Q_PROJ", False),
        (r"q_proj$", True), (r"layers\.1\.", False), (r"layers\.\d+\.self_attn\.[qk]_proj", True), ("[", False),
    ],
)  # fmt: skip
def test_a_word_is_a_part_of_the_path_and_a_pattern_is_found_in_it(wished: str, is_meant: bool) -> None:
    if wished == "[":
        with pytest.raises(ConfigError, match="no regular expression"):
            count_adapter_parameters(Lora(target_modules=(wished,)), {}, vocabulary=1)
    else:
        assert means(wished, Q_PROJ) == is_meant


@pytest.mark.parametrize(
    ("wish", "parameters"),
    [
        ({"target_modules": ("q_proj", "v_proj")}, 4 * 8 * ((64 + 64) + (64 + 32))),
        ({"target_modules": ("q_proj",), "use_dora": True}, 4 * (8 * (64 + 64) + 64)),
        ({"target_modules": (r"layers\.[01]\..*o_proj",)}, 2 * 8 * (64 + 64)),
        ({"target_modules": ("q_proj",), "modules_to_save": ("input_layernorm",)}, 4 * 8 * (64 + 64) + 4 * 64),
        ({}, 4 * 8 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 192))),
        ({"target_modules": "all-linear"}, 4 * 8 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 192))),
    ],
)
def test_what_is_trained_is_counted_from_the_stored_shapes(shapes: dict, wish: dict, parameters: int) -> None:
    assert count_adapter_parameters(Lora(rank=8, **wish), shapes, vocabulary=258) == parameters


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"target_modules": ("q_proj", "vproj", "lm_head")}, "vproj matches no module (did you mean v_proj"),
        ({"target_modules": ("q_proj", "vproj", "lm_head")}, "lm_head is no layer that takes an adapter"),
        ({"target_modules": ("norm",)}, "norm has no linear layer in it"),
        ({"modules_to_save": ("nrm",)}, "model.lora.modules_to_save: nrm matches no module (did you mean norm"),
    ],
)
def test_a_name_that_means_nothing_is_refused_before_the_run(shapes: dict, wish: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        count_adapter_parameters(Lora(**wish), shapes, vocabulary=258)
    assert message in caught.value.message


def test_names_of_experts_are_left_to_the_trainer() -> None:
    shapes = {"model.layers.0.mlp.experts.3.gate_proj.weight": [16, 32]}
    assert (
        count_adapter_parameters(Lora(rank=2, target_modules=("gate_proj", "gate_up_proj")), shapes, vocabulary=9) == 96
    )


def test_adapters_need_little_room_unless_they_are_merged() -> None:
    spec = TrainSpec(model="m", data=FakeData(), steps=4, lora=Lora(), checkpoints=Checkpoints())
    sizes = {"parameters": 10**9, "model_bytes": 2 * 10**9, "adapter_parameters": 10**6}
    alone = forecast_storage_bytes(spec, **sizes)
    assert 16 * 10**6 < alone < 36 * 10**6
    merged = forecast_storage_bytes(spec.model_copy(update={"export": Export(merged=True)}), **sizes)
    assert merged == alone + 2 * 10**9
