"""Prime's rules, one sentence each: coercion, tagged tables, keys against each other, older and hosted keys."""

from collections.abc import Callable
from typing import Any

import pytest

from burnish.dialects import read_config
from burnish.errors import ConfigError
from burnish.run.plan import learning_rate_at, plan_layout
from burnish.spec.train import Checkpoints, Constant, Cosine, FakeData, Linear, LossMask, Renderer, Resume, SourceData

Asking = Callable[..., str]


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        read_config(text)
    return refused.value


# -- values -----------------------------------------------------------------


@pytest.mark.parametrize(("written", "read"), [("2e-5", 2e-5), ("5e-6", 5e-6), (1, 1.0), ("0.1", 0.1), (0, 0.0)])
def test_a_number_in_quotes_is_that_number_exactly(written: Any, read: float, asking: Asking) -> None:
    assert read_config(asking({"optim.lr": written})).spec.optimizer.learning_rate == read


@pytest.mark.parametrize(("written", "read"), [("16", 16), (16.0, 16), (16, 16)])
def test_a_whole_number_may_come_as_text_or_float(written: Any, read: int, asking: Asking) -> None:
    assert read_config(asking({"data.batch_size": written})).spec.rows_per_step == read


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optim.lr", "3%"),
        ("optim.lr", True),
        ("optim.lr", float("nan")),
        ("optim.lr", float("inf")),
        ("optim.lr", "nan"),
        ("optim.lr", -1e-6),
        ("optim.max_norm", float("inf")),
        ("optim.max_norm", 0),
        ("optim.betas1", 1.0),
        ("data.batch_size", True),
        ("data.batch_size", 0),
        ("data.batch_size", 8.5),
        ("data.batch_size", 10**18),
        ("data.seq_len", "long"),
        ("data.splits", []),
        ("data.splits", "train"),
        ("data.shuffle", "perhaps"),
        ("data.overflow", "wrap"),
        ("data.name", ""),
        ("data.loss_mask", 3),
        ("model", "Qwen"),
        ("model.name", "None"),
        ("scheduler.type", "exponential"),
        ("scheduler.warmup_ratio", "3%"),
        ("scheduler.warmup_ratio", 0.03),
        ("renderer.name", "klingon"),
        ("epochs", 0),
        ("epochs", -1),
        ("max_steps", 0),
        ("max_steps", -4),
        ("max_steps", False),
        ("ckpt.interval", 0),
        ("ckpt.resume_step", 0),
        ("ckpt.resume_step", -2),
        ("deployment.num_train_gpus", 0),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_its_key(key: str, value: Any, asking: Asking) -> None:
    error = refusal(asking({key: value}))
    assert [problem.key for problem in error.problems] == [key]
    assert key in error.message


def test_faults_of_every_kind_come_in_one_answer(asking: Asking) -> None:
    wrong = {"optim.lr": "3%", "data.seq_len": -1, "optim.wd": 0.1, "model.cp": 2, "eval": {}, "output_dir": "x"}
    error = refusal(asking(wrong))
    assert {problem.key for problem in error.problems} >= {"optim.lr", "data.seq_len", "optim.wd", "model.cp", "eval"}
    assert all(key in error.message for key in wrong)


def test_the_word_none_is_null(asking: Asking) -> None:
    spec = read_config(asking({"optim.max_norm": "None", "ckpt": "None", "model.lora": "None", "eval": "None"})).spec
    assert spec.clip_norm is None
    assert spec.checkpoints is None


# -- tagged tables ----------------------------------------------------------


def test_an_empty_section_is_the_section_with_its_defaults(asking: Asking) -> None:
    spec = read_config(asking({"ckpt": {}, "resume": {}, "optim": {}, "scheduler": {}, "deployment": {}})).spec
    assert (spec.checkpoints, spec.resume, spec.schedule) == (Checkpoints(), Resume(), Constant())


def test_a_renderer_must_be_named(asking: Asking) -> None:
    assert refusal(asking({"renderer": {}})).message == "renderer.name is missing."


def test_warmup_without_a_schedule_says_which_type_to_add(asking: Asking) -> None:
    error = refusal(asking({"scheduler.warmup_steps": 5}))
    assert error.message.startswith("scheduler.warmup_steps = 5")
    assert 'type = "linear"' in error.hint


def test_a_warmup_of_zero_is_no_warmup(asking: Asking) -> None:
    zero = {"type": "constant", "warmup_steps": 0, "warmup_ratio": 0.0}
    spec = read_config(asking({"optim.lr": 3e-5, "scheduler": zero, "max_steps": 3})).spec
    rates = [learning_rate_at(step, peak=3e-5, schedule=spec.schedule, steps=3) for step in (1, 2, 3)]
    assert rates == [3e-5] * 3
    linear = {"type": "linear", "warmup_steps": 0, "decay_steps": 2}
    assert read_config(asking({"scheduler": linear})).spec.schedule == Linear(warmup_steps=0, decay_steps=2)


def test_schedules_keep_their_numbers(asking: Asking) -> None:
    linear = {"type": "linear", "warmup_steps": 50, "decay_steps": 0, "min_lr": 1e-7}
    cosine = {"type": "cosine", "warmup_steps": 2}
    assert read_config(asking({"scheduler": linear})).spec.schedule == Linear(
        warmup_steps=50, decay_steps=0, minimum=1e-7
    )
    assert read_config(asking({"scheduler": cosine})).spec.schedule == Cosine(warmup_steps=2)


# -- data -------------------------------------------------------------------


def test_made_up_data_needs_no_name(asking: Asking) -> None:
    fake = {"type": "fake", "length": "variable", "input_ids": "random", "seed": 3}
    assert read_config(asking({"data": fake})).spec.data == FakeData(length="variable", tokens="random", seed=3)


def test_real_data_needs_a_name(asking: Asking) -> None:
    assert refusal(asking({"data.name": None})).message.startswith("data.name is missing")


def test_all_that_data_can_say_is_obeyed(asking: Asking) -> None:
    said = {
        "name": "/volume/datasets/x",
        "splits": ["train", "extra"],
        "shuffle": False,
        "seed": 7,
        "pack": False,
        "overflow": "truncate",
        "on_bad_row": "skip",
        "loss_mask": {"user": True, "assistant": False},
    }
    reading = read_config(asking({"data": said}))
    assert reading.spec.data == SourceData(
        path="/volume/datasets/x",
        splits=("train", "extra"),
        shuffle=False,
        seed=7,
        pack=False,
        overflow="truncate",
        on_bad_row="skip",
        loss_mask=LossMask(user=True, assistant=False),
    )
    assert any("data.splits" in note for note in reading.notes)


def test_a_mask_that_trains_nobody_is_refused(asking: Asking) -> None:
    assert "data.loss_mask" in refusal(asking({"data.loss_mask.assistant": False})).message


def test_a_batch_that_does_not_divide_is_refused_in_the_users_keys(asking: Asking) -> None:
    error = refusal(asking({"data.batch_size": 10, "data.micro_batch_size": 4}))
    assert error.message == "data.batch_size = 10 is not a multiple of data.micro_batch_size = 4."
    repaired = int(error.hint.split("=")[1].strip(" ."))
    spec = read_config(asking({"data.batch_size": repaired, "data.micro_batch_size": 4})).spec
    assert plan_layout(spec, device="cpu").micro_batches * 4 == repaired


# -- length -----------------------------------------------------------------


def test_a_config_must_say_when_it_ends(asking: Asking) -> None:
    assert refusal(asking({"max_steps": None})).message.startswith("max_steps is missing")
    assert refusal(asking({"max_steps": "None"})).message.startswith("max_steps is missing")


def test_made_up_data_cannot_be_counted_in_epochs(asking: Asking) -> None:
    assert "max_steps is missing" in refusal(asking({"max_steps": None, "epochs": 1, "data": {"type": "fake"}})).message


@pytest.mark.parametrize("spelling", ["epochs", "max_epochs", "n_epochs"])
def test_epochs_end_a_run_as_steps_do(spelling: str, asking: Asking) -> None:
    reading = read_config(asking({"max_steps": None, spelling: 1.5}))
    assert (reading.spec.steps, reading.spec.epochs) == (None, 1.5)
    assert (f"{spelling} is read as epochs." in reading.notes) == (spelling != "epochs")
    both = read_config(asking({spelling: 2})).spec
    assert (both.steps, both.epochs) == (10, 2.0)


def test_two_spellings_must_agree(asking: Asking) -> None:
    assert read_config(asking({"epochs": 2, "n_epochs": 2})).spec.epochs == 2
    assert "contradict" in refusal(asking({"epochs": 2, "n_epochs": 3})).message
    assert "contradict" in refusal(asking({"name": "a", "run.name": "b"})).message


# -- optimizer, devices, resume ---------------------------------------------


def test_a_floor_above_the_peak_is_refused(asking: Asking) -> None:
    error = refusal(asking({"optim.lr": 1e-5, "scheduler": {"type": "cosine", "min_lr": 1e-4}}))
    assert [problem.key for problem in error.problems] == ["scheduler.min_lr"]


def test_more_devices_than_the_machine_has_are_refused(asking: Asking) -> None:
    assert read_config(asking({"deployment.num_train_gpus": 8})).spec.devices.per_machine == 8
    error = refusal(asking({"deployment.num_train_gpus": 3, "deployment.gpus_per_node": 2}))
    assert error.message == "deployment.num_train_gpus = 3 is more than deployment.gpus_per_node = 2."


def test_several_machines_are_refused_and_one_is_not(asking: Asking) -> None:
    one = {"type": "multi_node", "num_train_nodes": 1, "gpus_per_node": 4}
    assert read_config(asking({"deployment": one})).spec.devices.per_machine == 4
    assert "several machines" in refusal(asking({"deployment": one | {"num_train_nodes": 2}})).message
    assert "it would be 2" in refusal(asking({"deployment": {"type": "multi_node"}})).message


def test_resume_names_one_place(asking: Asking) -> None:
    assert read_config(asking({"resume.step": 4})).spec.resume == Resume(step=4)
    assert read_config(asking({"resume.dir": "/runs/a/step_4"})).spec.resume == Resume(directory="/runs/a/step_4")
    assert "resume.dir" in refusal(asking({"resume": {"step": 4, "dir": "/runs/a/step_4"}})).message


# -- renderer ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["auto", "chatml", "smollm", "qwen3", "prime-qwen3"])
def test_every_renderer_that_is_built_passes_by_name(name: str, asking: Asking) -> None:
    assert read_config(asking({"renderer.name": name})).spec.renderer.name == name


def test_a_known_renderer_that_is_not_built_is_refused_as_such(asking: Asking) -> None:
    error = refusal(asking({"renderer": {"name": "hy3", "preserved_thinking": True}}))
    assert error.message == (
        'renderer.name = "hy3" cannot be obeyed: this renderer is known but not built into this version.'
    )
    assert 'name = "auto"' in error.hint


def test_the_default_renderer_is_the_models_template(asking: Asking) -> None:
    reading = read_config(asking({"renderer.name": "default"}))
    assert reading.spec.renderer == Renderer(name="auto")
    assert any('"default" is read as "auto"' in note for note in reading.notes)


def test_thinking_can_be_switched_off_where_the_template_has_the_switch(asking: Asking) -> None:
    spec = read_config(asking({"renderer": {"name": "qwen3", "enable_thinking": False}})).spec
    assert spec.renderer == Renderer(name="qwen3", enable_thinking=False)


# -- the hosted rules -------------------------------------------------------


def test_online_evals_are_refused_in_one_sentence(asking: Asking) -> None:
    error = refusal(asking({"eval": {"interval": 10}, "inference": {}}))
    assert error.message == "Hosted SFT runs are trainer-only: [eval] and [inference] are not supported here."
    assert "Remove" in error.hint
    alone = refusal(asking({"weight_broadcast": {"type": "nccl"}}))
    assert alone.message == "Hosted SFT runs are trainer-only: [weight_broadcast] is not supported here."


def test_output_dir_is_ours_to_decide_even_at_its_default(asking: Asking) -> None:
    error = refusal(asking({"output_dir": "outputs"}))
    assert "output_dir" in error.message
    assert "/runs/<runId>/outputs" in error.message
    assert error.hint == "Leave output_dir out."


def test_the_keys_of_the_hosted_wrapper_are_read_or_noted(asking: Asking) -> None:
    wrapper = {
        "volume": "research",
        "name": "mine",
        "volume_size": "100Gi",
        "gpu_type": "H200",
        "image_tag": "latest",
        "env_file": ".env",
        "env_files": [".env"],
        "type": "sft",
    }
    reading = read_config(asking(wrapper))
    assert (reading.volume, reading.name, reading.spec.name) == ("research", "mine", "mine")
    for key in ("volume_size", "gpu_type", "image_tag", "env_file", "env_files", "type"):
        assert any(note.startswith(f"{key} has no effect here: ") for note in reading.notes)
    assert read_config(asking({"run.name": "mine"})).name == "mine"


def test_variables_reach_the_trainer_and_never_a_message(asking: Asking) -> None:
    spec = read_config(asking({"env_vars": {"HF_TOKEN": "hf_x"}})).spec
    assert spec.environment == {"HF_TOKEN": "hf_x"}
    error = refusal(asking({"env_vars": {"CUDA_VISIBLE_DEVICES": "s3cret", "PRL_RUN_ID": "s3cret", "A=B": "s3cret"}}))
    assert "CUDA_VISIBLE_DEVICES" in error.message
    assert "PRL_RUN_ID" in error.message
    told = [error, refusal(asking({"env_vars": {"PIN": 31337}})), refusal(asking({"env_vars": "s3cret"}))]
    for each in told:
        whole = f"{each.message} {each.hint} {each.problems}"
        assert "s3cret" not in whole
        assert "31337" not in whole


def test_a_gguf_file_wants_a_whole_model(asking: Asking) -> None:
    assert read_config(asking({"export.gguf": "q8_0"})).spec.export.gguf == "q8_0"
    lora = {"model.lora.rank": 4, "export.gguf": "f16"}
    assert read_config(asking(lora | {"export.merged": True})).spec.export.gguf == "f16"
    assert "wants a whole model" in refusal(asking(lora)).message


# -- absences and older keys ------------------------------------------------


def test_no_checkpoints_means_the_model_is_exported_all_the_same(asking: Asking) -> None:
    reading = read_config(asking())
    assert reading.spec.checkpoints is None
    assert reading.notes == ("[ckpt] is absent: the trained weights are exported, no resumable checkpoint is kept.",)


def test_the_model_that_is_taken_when_none_is_named_is_said(asking: Asking) -> None:
    reading = read_config(asking({"model": None}))
    assert any(reading.spec.model in note for note in reading.notes)


def test_longer_micro_batches_do_not_lengthen_the_rows_and_this_is_said(asking: Asking) -> None:
    reading = read_config(asking({"data.micro_batch_size": 2}))
    assert any(note.startswith("data.micro_batch_size = 2: rows stay") for note in reading.notes)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"ckpt": {"resume_step": 5}}, {"ckpt": {}, "resume": {"step": 5}}),
        ({"ckpt": {"resume_step": -1}}, {"ckpt": {}, "resume": {}}),
        ({"data.pack_function": "cat"}, {"data.pack": True}),
        ({"data.pack_function": "stack"}, {"data.pack": False}),
        ({"deployment.num_gpus": 2}, {"deployment.num_train_gpus": 2}),
        ({"clean_output_dir": True}, {}),
        ({"loss_impl": "liger_fused"}, {}),
        ({"use_renderer": True}, {}),
        ({"file_monitor": {"path": "m.jsonl"}}, {}),
        ({"model.fused_lm_head_chunk_size": 2048}, {}),
        ({"ckpt": {"weights": {"interval": 3}}}, {"ckpt": {}}),
    ],
)
def test_an_older_key_reads_as_the_newer_one_and_says_so(
    older: dict[str, Any], newer: dict[str, Any], asking: Asking
) -> None:
    reading, wanted = read_config(asking(older)), read_config(asking(newer))
    assert reading.spec == wanted.spec
    assert len(reading.notes) == len(wanted.notes) + 1


@pytest.mark.parametrize(
    "older",
    [
        {"wandb": {"project": "x"}},
        {"bench": True},
        {"experimental": {"x": 1}},
        {"loss": {"type": "x"}},
        {"ckpt.weights_only": True},
        {"model.tp": 2},
        {"deployment": {"type": "multi_node", "num_train_nodes": 1, "num_nodes": 2}},
    ],
)
def test_an_older_key_without_a_meaning_here_is_refused_by_name(older: dict[str, Any], asking: Asking) -> None:
    error = refusal(asking(older))
    assert len(error.problems) == 1
    assert error.hint


@pytest.mark.parametrize(
    "both",
    [
        {"ckpt": {"resume_step": 5}, "resume": {"step": 5}},
        {"data.pack_function": "cat", "data.pack": False},
        {"deployment": {"num_gpus": 2, "num_train_gpus": 3}},
    ],
)
def test_an_older_key_and_the_newer_one_do_not_settle_it_between_them(both: dict[str, Any], asking: Asking) -> None:
    assert refusal(asking(both)).hint.startswith("Keep ")
