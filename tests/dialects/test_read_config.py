"""From text to a reading: what is not TOML, what is another's, and which keys nobody knows."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.dialects import read_config
from burnish.dialects.nearest import nearest_key
from burnish.dialects.prime_schema import PrimeConfig
from burnish.dialects.schema import rows_of
from burnish.errors import ConfigError
from burnish.spec.train import AdamW, Checkpoints, Devices, Renderer, SourceData, TrainSpec

HERE = Path(__file__).parent


def test_the_walkthrough_file_reads_to_what_it_says() -> None:
    reading = read_config((HERE / "walkthrough.toml").read_text())
    assert reading.spec == TrainSpec(
        model="PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT",
        data=SourceData(path="datasets/reverse-text"),
        row_tokens=2048,
        rows_per_step=8,
        rows_per_device=1,
        steps=10,
        renderer=Renderer(name="prime-qwen3"),
        optimizer=AdamW(learning_rate=2e-5, decay_all=True),
        checkpoints=Checkpoints(),
        devices=Devices(),
    )
    assert (reading.dialect, reading.notes, reading.volume, reading.name) == ("prime", (), None, None)


def test_the_file_for_sixty_four_gpus_is_refused_naming_all_that_is_not_done() -> None:
    with pytest.raises(ConfigError) as refused:
        read_config((HERE / "sixty_four_gpus.toml").read_text())
    assert {problem.key for problem in refused.value.problems} == {
        "model.cp",
        "model.ep",
        "model.debug.force_balanced_routing",
        "deployment.num_train_nodes",
    }
    assert all(problem.key in refused.value.message for problem in refused.value.problems)


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    text = (HERE / "walkthrough.toml").read_text()
    assert read_config("\ufeff" + text.replace("\n", "\r\n")) == read_config(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("max_steps = ten", "line 1, column 13"),
        ("max_steps = 1\n[model\nname = 3", "line 2, column 7"),
        ("max_steps = 1\nmax_steps = 2", "line 2, column 14"),
        ("max_steps: 3", "line 1, column 10"),
        ('a = 1\n[model]\nname = "half', "line 3, column 13"),
        ('{"model": "x"}', "line 1, column 1"),
        ("a = True", "line 1, column 5"),
    ],
)
def test_unreadable_toml_is_refused_with_line_and_column_and_a_way_out(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=place) as refused:
        read_config(text)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["", "  \n\t\n", "x = " + "9" * 5000, "x = " + "[" * 3000, "\ufeff"])
def test_text_that_holds_no_config_is_refused_in_words(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_config(text)
    assert refused.value.hint


def test_the_config_of_another_dialect_is_refused_as_such() -> None:
    with pytest.raises(ConfigError, match=r"Synth's, by its \[algorithm\] and \[job\]"):
        read_config('[algorithm]\ntype = "offline"\n[job]\nmodel = "x"\n[policy_]\n')
    with pytest.raises(ConfigError, match="reinforcement learning"):
        read_config("[orchestrator]\nbatch_size = 8\n")
    with pytest.raises(ConfigError, match="'yaml' is not a dialect"):
        read_config("max_steps = 1", "yaml")
    assert read_config((HERE / "walkthrough.toml").read_text(), "prime").dialect == "prime"


# -- unknown keys -----------------------------------------------------------


def test_all_unknown_keys_are_named_in_one_answer_each_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as refused:
        read_config("""
            max_steps = 2
            learning_rate = 1e-3
            [model]
            name = "Qwen/Qwen3-0.6B"
            [data]
            name = "data.jsonl"
            seq_length = 64
            [optim]
            lr = 1e-4
            weight_decy = 0.1
            [schedulr]
            type = "cosine"
        """)
    assert refused.value.message == (
        "4 keys are unknown: learning_rate (did you mean optim.lr?), data.seq_length (did you mean data.seq_len?), "
        "optim.weight_decy (did you mean optim.weight_decay?), schedulr (did you mean scheduler?)."
    )
    assert [problem.key for problem in refused.value.problems] == [
        "learning_rate",
        "data.seq_length",
        "optim.weight_decy",
        "schedulr",
    ]


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("lr", "optim.lr"),
        ("seq_len", "data.seq_len"),
        ("optim.batch_size", "data.batch_size"),
        ("data.batch-size", "data.batch_size"),
        ("max_step", "max_steps"),
        ("data.loss_msk", "data.loss_mask"),
        ("data.loss_mask.asistant", "data.loss_mask.assistant"),
        ("model.ac.frequ", "model.ac.freq"),
        ("training.lora.r", "model.lora"),
        ("checkpoint.interval", "ckpt"),
        ("optimizer.lr", "optim"),
        ("lora_rank", "model.lora.rank"),
        ("Model.name", "model"),
        ("monitor.file", "monitors"),
        ("deployment.gpus", "deployment.num_train_gpus"),
    ],
)
def test_a_misspelt_or_misplaced_key_is_answered_with_the_one_meant(
    key: str, near: str, asking: Callable[..., str]
) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {near}\\?"):
        read_config(asking({key: 1}))


@pytest.mark.parametrize(
    ("key", "given", "hint"),
    [
        ("renderer.name", "qwen-3", 'Did you mean "qwen3"?'),
        ("data.overflow", "truncated", 'Did you mean "truncate"?'),
        ("data.overflow", "?", ""),
    ],
)
def test_a_misspelt_choice_is_answered_with_the_one_meant(
    key: str, given: str, hint: str, asking: Callable[..., str]
) -> None:
    with pytest.raises(ConfigError, match="is not one of") as refused:
        read_config(asking({key: given}))
    assert refused.value.hint == hint


def test_a_key_like_no_other_gets_no_suggestion(asking: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match=r"^zzyzx is not a known key\.$"):
        read_config(asking({"zzyzx": 1}))


def test_a_top_level_key_below_a_section_is_sent_back_to_the_top(asking: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match=r"^ckpt\.max_steps is not a known key: did you mean max_steps\?$") as refused:
        read_config(asking({"max_steps": None, "ckpt.max_steps": 3}))
    assert refused.value.hint == "Move it above the first [section]."


def test_a_key_of_another_variant_names_the_type_it_needs(asking: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match=r'^data\.length belongs to data\.type = "fake"\.$'):
        read_config(asking({"data.length": "fixed"}))
    with pytest.raises(ConfigError, match=r"deployment\.num_train_nodes") as refused:
        read_config(asking({"deployment.num_train_nodes": 1}))
    assert 'type = "multi_node"' in refused.value.hint


def test_thousands_of_unknown_keys_are_refused_without_a_long_search(write: Callable[[Any], str]) -> None:
    with pytest.raises(ConfigError, match=r"5000 keys are unknown: .* and 4980 more"):
        read_config(write({f"max_stepz{place}": 1 for place in range(5000)}))


def test_a_key_that_would_break_the_line_is_quoted(write: Callable[[Any], str]) -> None:
    with pytest.raises(ConfigError) as refused:
        read_config(write({"a\nb.c": 1}))
    assert refused.value.message == '"a\\nb.c" is not a known key.'


def test_no_key_is_nearest_among_none() -> None:
    assert nearest_key(["optim", "lr"], []) is None


# -- anything at all --------------------------------------------------------

_KNOWN_WORDS = st.sampled_from(sorted({word for row in rows_of(PrimeConfig) for word in row.key.split(".")}))
_KEYS = _KNOWN_WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_LEAVES = (
    st.booleans()
    | st.integers()
    | st.integers(-3, 12)
    | st.sampled_from([10**400, -(2**63), 2**63])
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["None", "sft", "fake", "linear", "cosine", "adamw", "multi_node", "auto", "qwen3", "2e-5", "8"])
)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=25
)
_SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "max_steps": st.integers(-1, 20) | _LEAVES,
        "data": st.dictionaries(_KEYS, _VALUES, max_size=5),
        "optim": st.dictionaries(_KEYS, _LEAVES, max_size=4),
        "scheduler": st.dictionaries(_KEYS, _LEAVES, max_size=4),
        "model": st.dictionaries(_KEYS, _VALUES, max_size=4),
        "deployment": st.dictionaries(_KEYS, _LEAVES, max_size=4),
    },
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=6), _SECTIONS)
def test_any_document_at_all_is_read_or_refused_and_never_breaks(
    write: Callable[[Any], str], document: dict[str, Any], sections: dict[str, Any]
) -> None:
    try:
        reading = read_config(write(document | sections))
    except ConfigError as error:
        assert error.message.endswith((".", "?"))
        assert "\n" not in error.message
    else:
        assert reading.spec.steps or reading.spec.epochs


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_at_all_is_read_or_refused_and_never_breaks(text: str) -> None:
    with pytest.raises(ConfigError):
        read_config(text)


def test_reading_a_config_imports_nothing_heavy() -> None:
    program = (
        "import sys, burnish.dialects\n"
        "heavy = {'numpy', 'torch', 'pyarrow', 'fastapi', 'httpx', 'rich', 'typer', 'sqlalchemy', 'asyncio'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_is_no_config_by_its_length_is_not_read():
    with pytest.raises(ConfigError, match=r"is 293Ki long, and 256Ki is the most"):
        read_config("max_steps = 1\n#" + "x" * 300_000)


@pytest.mark.parametrize("text", ["a." * 3000 + "b = 1", "a = " + "[" * 200 + "]" * 200, "a = " + "[" * 3000])
def test_what_is_nested_without_end_is_refused_before_anything_walks_it(text: str):
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_config(text)


def test_a_refusal_spells_out_what_a_terminal_would_obey():
    text = '"\\u001b[2Jkey\\u009b\\u202e" = 1\nmax_steps = "\\u001b]0;\\u007f"\n'
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert caught.value.message.isprintable()
    assert all(each.message.isprintable() and each.key.isprintable() for each in caught.value.problems)


def test_a_variable_that_no_process_can_have_is_refused():
    with pytest.raises(ConfigError, match=r"env_vars\.X holds a NUL"):
        read_config('max_steps = 1\n[data]\ntype = "fake"\n[env_vars]\nX = "a\\u0000b"\n')


@pytest.mark.parametrize("line", ["seq_len = 1", "seq_len = 1000000000000", "batch_size = 1000000000"])
def test_a_row_or_a_step_of_an_impossible_size_is_refused(line: str):
    with pytest.raises(ConfigError, match="is out of range"):
        read_config(f'max_steps = 1\n[data]\ntype = "fake"\n{line}\n')


def test_a_data_name_that_forges_a_second_line_is_refused():
    with pytest.raises(ConfigError, match=r'data\.name = "x\\nError: no" holds a control code'):
        read_config('max_steps = 1\n[data]\nname = "x\\nError: no"\n')
