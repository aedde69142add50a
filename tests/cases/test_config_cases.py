"""Configs as public bug reports show them being misread, each with the right outcome."""

import pytest

from burnish.dialects import read_config
from burnish.errors import ConfigError

WALKTHROUGH = """
max_steps = 1
{top}
[model]
name = "burnish/tiny"
[data]
name = "data.jsonl"
{data}
[optim]
{optim}
{more}
"""


def config(*, top: str = "", data: str = "", optim: str = "lr = 1e-4", more: str = "") -> str:
    return WALKTHROUGH.format(top=top, data=data, optim=optim, more=more)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    return caught.value.message


def test_every_unknown_key_is_named_with_what_was_meant() -> None:
    message = refusal(
        config(
            top="learning_rate = 1e-3",
            data="seq_length = 64",
            optim="lr = 1e-4\nweight_decy = 0.1",
            more='[schedulr]\ntype = "cosine"',
        )
    )
    for wrong, meant in {
        "learning_rate": "optim.lr",
        "data.seq_length": "data.seq_len",
        "optim.weight_decy": "optim.weight_decay",
        "schedulr": "scheduler",
    }.items():
        assert f"{wrong} (did you mean {meant}?)" in message


@pytest.mark.parametrize("written", ['"5e-6"', "5e-6", "0.000005", '"0.000005"'])
def test_a_number_as_text_is_that_number(written: str) -> None:
    spec = read_config(config(optim=f"lr = {written}")).spec
    assert spec.optimizer.learning_rate == 0.000005


@pytest.mark.parametrize("written", ['"3%"', '"fast"', '"5e-6 "x', "true", '"1e-6,5"'])
def test_what_is_no_number_is_refused_by_its_key(written: str) -> None:
    assert "lr" in refusal(config(optim=f"lr = {written}")) or "line" in refusal(config(optim=f"lr = {written}"))


def test_a_ratio_in_per_cent_is_refused() -> None:
    assert "warmup_ratio" in refusal(config(more='[scheduler]\ntype = "linear"\nwarmup_ratio = "3%"'))


CLASHING = """
[algorithm]
type = "offline"
method = "sft"
variety = "lora"
[policy]
model_name = "Qwen/Qwen3-0.6B"
source = "ft:abc"
trainer_mode = "full"
[training]
mode = "full_finetune"
use_qlora = true
[hyperparameters.parallelism]
use_deepspeed = true
fsdp = true
bf16 = true
fp16 = true
"""


def test_every_clash_of_options_is_listed_in_one_answer() -> None:
    message = refusal(CLASHING)
    assert "4 of its options contradict each other" in message
    for key in (
        "variety",
        "trainer_mode",
        "use_qlora",
        "model_name",
        "source",
        "use_deepspeed",
        "fsdp",
        "bf16",
        "fp16",
    ):
        assert key in message


@pytest.mark.parametrize(
    ("change", "clashes"),
    [
        (("bf16 = true", "bf16 = false"), "3"),
        (('source = "ft:abc"', ""), "3"),
        (('variety = "lora"', 'variety = "fft"'), "4"),
    ],
)
def test_options_that_agree_are_no_clash(change: tuple[str, str], clashes: str) -> None:
    assert f"And {clashes} of its options" in refusal(CLASHING.replace(*change))


def test_lora_in_four_bits_is_one_method() -> None:
    text = CLASHING.replace('trainer_mode = "full"', 'trainer_mode = "lora"').replace('"full_finetune"', '"qlora"')
    assert "variety" not in refusal(text)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ('subsets = ["a", "b"]\nsplits = ["train"]', ("data.subsets", "data.splits")),
        ("probabilities = [0.5, 0.5]", ("data.probabilities",)),
        ('subsets = ["a", "b"]\nprobabilities = [1.0]', ("data.probabilities",)),
        ('subsets = ["a", "b"]\nprobabilities = [0.9, 0.2]', ("data.probabilities", "1.1")),
        ('subsets = ["a", "b"]\nprobabilities = [1.5, -0.5]', ("data.probabilities",)),
        ('pack = true\npack_function = "stack"', ("data.pack_function", "data.pack")),
    ],
)
def test_data_options_that_cannot_both_be_meant_are_refused(data: str, names: tuple[str, ...]) -> None:
    message = refusal(config(data=data))
    assert all(name in message for name in names)
