"""Adapters beside a frozen model: which weights get one, what learns, what is saved, and who can read it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes.functional import dequantize_4bit
from bitsandbytes.nn.modules import Linear4bit
from peft import PeftModel
from safetensors.torch import load_file
from test_trainer_process import events_of, losses_of, the_end, train, trained_state
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    GptOssConfig,
    PreTrainedModel,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
)

from burnish.errors import ConfigError, ModelError
from burnish.run.events import Adapted, Exported
from burnish.spec.model_facts import read_model_facts
from burnish.spec.train import AdamW, Lora
from burnish.train import optim
from burnish.train.adapter import Adapter, merged_weight
from burnish.train.adapters import adapt, adapted_layers
from burnish.train.generate import ChatModel
from burnish.train.loop import take_step
from burnish.train.meter import StepReport, useful_flops
from burnish.train.model import Decoder, load_decoder
from burnish.train.parallel import World
from burnish.train.snapshot import Snapshot

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
PROBE = torch.arange(40)[None]
QUICK = {"kind": "adamw", "learning_rate": 1e-2}


@pytest.fixture
def qwen3() -> PreTrainedModel:
    """The shape of Qwen3-0.6B, without its weights."""
    with torch.device("meta"):
        return _from_config(
            Qwen3Config(
                hidden_size=1024,
                intermediate_size=3072,
                num_hidden_layers=28,
                num_attention_heads=16,
                num_key_value_heads=8,
                head_dim=128,
                vocab_size=151_936,
                tie_word_embeddings=True,
            )
        )


def mixture(**changes: Any) -> PreTrainedModel:
    """A tiny mixture of experts, whose experts are one weight per layer."""
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "moe_intermediate_size": 16,
        "vocab_size": 260,
        "head_dim": 8,
    }
    counts: dict[str, Any] = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts": 4,
    }
    torch.manual_seed(1)
    return _from_config(Qwen3MoeConfig(**sizes, **counts, num_experts_per_tok=2, **changes))


def shared_mixture() -> PreTrainedModel:
    """One whose tokens all pass through a dense expert as well."""
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 16, "vocab_size": 260}
    counts: dict[str, Any] = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts": 4,
    }
    torch.manual_seed(1)
    return _from_config(Qwen2MoeConfig(**sizes, **counts, num_experts_per_tok=2, shared_expert_intermediate_size=24))


def transposed_mixture() -> PreTrainedModel:
    """One that stores its experts as [experts, in, out]."""
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 24, "vocab_size": 260, "head_dim": 8}
    counts: dict[str, Any] = {
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
    }
    return _from_config(GptOssConfig(**sizes, **counts, num_experts_per_tok=2))


def _from_config(config: Any) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    return model


def put_adapter(decoder: Decoder, world: World, wish: Lora, *, seed: int = 0) -> None:
    decoder.adapter = Adapter.put_into(decoder.model, wish, seed=seed, compute_dtype=world.compute_dtype)


def refusal(model: PreTrainedModel, **wish: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        adapt(model, Lora(**wish), seed=0)
    return caught.value.message


# -- which weights ----------------------------------------------------------


def test_q_and_v_at_rank_8_are_so_many_parameters(qwen3: PreTrainedModel) -> None:
    told = adapt(qwen3, Lora(rank=8, alpha=16, target_modules=("q_proj", "v_proj")), seed=0)
    assert told.modules == {"q_proj": 28, "v_proj": 28}
    assert told.trainable_parameters == 1_146_880 == 28 * (8 * (1024 + 2048) + 8 * (1024 + 1024))
    assert told.parameters == 596_049_920


def test_a_name_that_means_nothing_is_refused_with_the_near_ones(qwen3: PreTrainedModel) -> None:
    message = refusal(qwen3, target_modules=("q_proj", "vproj", "lm_head"))
    assert "vproj matches no module (did you mean v_proj" in message
    assert "lm_head" in message and "tied to the embeddings" in message
    assert "q_proj matches" not in message


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        ({"target_modules": ("input_layernorm",)}, "input_layernorm has no linear layer in it"),
        ({"target_modules": ("embed_tokens",)}, "embed_tokens is no layer that takes an adapter"),
        ({"target_modules": ("(q_proj",)}, "no regular expression"),
        ({"modules_to_save": ("lmhead",)}, "did you mean lm_head"),
        ({"modules_to_save": ("lm_head",)}, "one matrix in this model"),
        ({"modules_to_save": ("embed_tokens",)}, "one matrix in this model"),
    ],
)
def test_what_cannot_be_adapted_is_refused_by_name(qwen3: PreTrainedModel, wish: dict, names: str) -> None:
    assert names in refusal(qwen3, **wish)


@pytest.mark.parametrize(
    ("target_modules", "modules"),
    [
        (("self_attn",), {"q_proj": 28, "k_proj": 28, "v_proj": 28, "o_proj": 28}),
        ((r"layers\.[01]\..*[qk]_proj$", "o_proj"), {"q_proj": 2, "k_proj": 2, "o_proj": 28}),
        (
            "all-linear",
            dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), 28),
        ),
    ],
)
def test_targets_are_parts_of_paths_or_patterns(qwen3: PreTrainedModel, target_modules: Any, modules: dict) -> None:
    assert adapt(qwen3, Lora(target_modules=target_modules), seed=0).modules == modules


def test_usual_targets_that_a_model_lacks_are_passed_over_and_told(qwen3: PreTrainedModel) -> None:
    told = adapt(qwen3, Lora(), seed=0)
    assert set(told.passed_over) == {"experts", "fc1_latent_proj", "fc2_latent_proj"}
    assert sum(told.modules.values()) == 7 * 28


@pytest.mark.parametrize(
    "target_modules",
    [("q_proj", "gate_proj", "up_proj", "down_proj"), ("q_proj", "experts"), ("q_proj", "gate_up_proj", "down_proj")],
)
def test_every_expert_is_adapted_where_experts_are_one_weight(target_modules: tuple[str, ...]) -> None:
    model = mixture()
    told = adapt(model, Lora(rank=8, target_modules=target_modules), seed=0)
    assert told.modules == {"q_proj": 2, "experts.gate_up_proj": 2, "experts.down_proj": 2}
    experts = 2 * 4 * 8 * ((32 + 2 * 16) + (16 + 32))
    assert told.trainable_parameters == experts + 2 * 8 * (32 + 32)


@pytest.mark.parametrize(
    ("target_modules", "modules"),
    [
        (None, {"experts.gate_up_proj", "experts.down_proj", "gate_proj", "up_proj", "down_proj", *ATTENTION}),
        (("shared_expert",), {"gate_proj", "up_proj", "down_proj"}),
        (("experts",), {"experts.gate_up_proj", "experts.down_proj"}),
    ],
)
def test_dense_layers_beside_experts_are_adapted_under_their_own_names(target_modules: Any, modules: set[str]) -> None:
    """peft alone would take `shared_expert.gate_proj` for a weight of the experts."""
    assert adapt(shared_mixture(), Lora(target_modules=target_modules), seed=0).modules.keys() == modules


@pytest.mark.parametrize("make", ["mixture", "shared_mixture", "transposed_mixture"])
def test_a_merged_weight_is_what_peft_computes_with(make: str) -> None:
    model = globals()[make]()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    adapt(model, Lora(rank=4), seed=0)
    for path, layer in adapted_layers(model):
        torch.nn.init.normal_(layer.lora_B["default"].get_parameter("weight"))
        expected = before[path] + layer.get_delta_weight("default")  # type: ignore[operator] (each layer has it)
        torch.testing.assert_close(merged_weight(layer, before[path]), expected)


def test_the_usual_targets_of_a_mixture_hold_its_experts() -> None:
    assert {"experts.gate_up_proj", "experts.down_proj"} < adapt(mixture(), Lora(), seed=0).modules.keys()


@pytest.mark.parametrize("switch", [{"dropout": 0.1}, {"use_dora": True}])
def test_what_peft_cannot_do_to_experts_is_refused(switch: dict) -> None:
    assert next(iter(switch)) in refusal(mixture(), target_modules=("experts",), **switch)


def test_adapters_depend_on_the_seed_alone(tiny: Path, world: World) -> None:
    def drawn(seed: int) -> list[Tensor]:
        decoder = load_decoder(tiny, world)
        torch.rand(seed + 3)  # chance that was used before changes nothing
        state = torch.get_rng_state()
        put_adapter(decoder, world, Lora(rank=4), seed=seed)
        assert torch.equal(state, torch.get_rng_state())
        return [each for each in decoder.parameters() if each.requires_grad]

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not all(torch.equal(one, two) for one, two in zip(first, other, strict=True))


# -- a step -----------------------------------------------------------------


def test_a_step_moves_every_adapter_and_nothing_else(world: World, decoder: Decoder, make_batch) -> None:
    frozen = {name: weight.clone() for name, weight in decoder.model.state_dict().items()}
    put_adapter(decoder, world, Lora(rank=8, alpha=16, target_modules=("q_proj", "v_proj")))
    optimizer = optim.build_optimizer(decoder.model, AdamW(learning_rate=1e-2))
    take_step(world, decoder, optimizer, [make_batch(60, 40)], learning_rate=1e-2, clip_norm=1.0)
    for _, layer in adapted_layers(decoder.model):
        assert layer.lora_B["default"].get_parameter("weight").count_nonzero() > 0
    for name, weight in decoder.model.state_dict().items():
        if "lora_" not in name:
            assert torch.equal(weight, frozen[name.replace(".base_layer", "")])
    assert all(each.grad is None for each in decoder.parameters())
    learning = sum(each.numel() for each in decoder.parameters() if each.requires_grad)
    moments = sum(state["exp_avg"].numel() for state in optimizer.state.values())
    assert moments == learning == 4 * 8 * ((64 + 64) + (64 + 32))


def test_a_step_works_out_no_gradient_of_a_frozen_weight(tiny: Path, world: World, make_batch) -> None:
    """Forward is one product a weight, backward one instead of two; the head's gradient goes with them."""
    batch = make_batch(200, 56)

    def products(wish: Lora | None) -> int:
        decoder = load_decoder(tiny, world)
        if wish is not None:
            put_adapter(decoder, world, wish)
        with FlopCounterMode(display=False) as counter:
            decoder.summed_loss(batch, scale=1.0).backward()
        return sum(flops for kind, flops in counter.get_flop_counts()["Global"].items() if "mm" in str(kind))

    full, lora = products(None), products(Lora(rank=1, target_modules=("q_proj",)))
    assert lora < 0.70 * full  # 2 / 3, and the adapters' own


def test_the_counted_work_of_a_step_is_what_it_computes(tiny: Path, world: World, make_batch) -> None:
    batch = make_batch(256, 128)
    decoder = load_decoder(tiny, world)
    put_adapter(decoder, world, Lora(rank=8))
    assert decoder.adapter is not None
    with FlopCounterMode(display=False) as counter:
        decoder.summed_loss(batch, scale=1.0).backward()
    report = StepReport(
        step=1, loss=0, gradient_norm=0, learning_rate=0, seconds=1, epoch=0, skipped=0, peak_memory_bytes=0, slots=0,
        tokens=batch.tokens, trained_tokens=batch.trained_tokens, squared_lengths=0,
    )  # fmt: skip
    products = sum(flops for kind, flops in counter.get_flop_counts()["Global"].items() if "mm" in str(kind))
    counted = useful_flops(read_model_facts(tiny), report, decoder.adapter.told.trainable_parameters)
    # Nobody needs the gradient of the first layer's inputs.
    assert 0.93 * counted < products < counted


@pytest.mark.parametrize(
    "wish", [{"use_dora": True}, {"use_rslora": True}, {"dropout": 0.5}, {"modules_to_save": ("norm",)}]
)
def test_every_variant_learns(tiny: Path, world: World, make_batch, wish: dict) -> None:
    decoder, batch = load_decoder(tiny, world), make_batch(60, 40)
    put_adapter(decoder, world, Lora(rank=4, **wish))
    optimizer = optim.build_optimizer(decoder.model, AdamW(learning_rate=1e-2))
    losses = [take_step(world, decoder, optimizer, [batch], learning_rate=1e-2, clip_norm=1.0).loss for _ in range(6)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("wish", [{}, {"use_dora": True}, {"quantize": "nf4"}])
def test_frozen_weights_in_bfloat16_compute_close_to_float32(make_run, wish: dict) -> None:
    losses = []
    for dtype in ("float32", "bfloat16"):
        run = make_run(dtype, dtype=dtype, steps=4, lora={"rank": 4} | wish)
        assert train(run) == 0, the_end(run)
        losses.append([loss for _, loss in losses_of(run)])
    assert losses[0] == pytest.approx(losses[1], rel=3e-3)
    assert losses[0] != losses[1]


def test_experts_learn_in_bfloat16(make_run, tiny: Path, tmp_path: Path) -> None:
    base = shutil.copytree(tiny, tmp_path / "mixture")
    mixture().save_pretrained(base)
    run = make_run(model=base, dtype="bfloat16", steps=4, lora={"rank": 4}, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    losses = [loss for _, loss in losses_of(run)]
    assert losses[-1] < losses[0]


# -- whole runs -------------------------------------------------------------


def test_a_run_leaves_an_adapter_that_stock_peft_loads(make_run, tiny: Path, capsys: pytest.CaptureFixture) -> None:
    run = make_run(steps=4, checkpoints={}, lora={"rank": 8, "target_modules": ["q_proj", "v_proj"]})
    assert train(run) == 0, the_end(run)
    (told,) = events_of(run, Adapted)
    assert told.modules == {"q_proj": 4, "v_proj": 4}
    assert f"q_proj x 4, v_proj x 4: {told.trainable_parameters:,} parameters are trained" in capsys.readouterr().out
    (exported,) = events_of(run, Exported)
    assert exported.form == "adapter"
    folder = run.checkpoint(4).model
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "burnish/tiny"
    assert config["target_modules"] == ["q_proj", "v_proj"]
    assert AutoTokenizer.from_pretrained(folder).chat_template
    saved = load_file(folder / "adapter_model.safetensors")
    assert sum(each.numel() for each in saved.values()) == told.trainable_parameters
    state = trained_state(run.checkpoint(4))
    weights = [name for name in state if name.startswith("model/")]
    assert len(weights) == len(saved) and all("lora_" in name for name in weights)


VARIANTS = [
    {},
    {"use_dora": True},
    {"use_rslora": True, "alpha": 7.5},
    {"modules_to_save": ["norm", r"layers\.0\.mlp"]},
]


@pytest.mark.parametrize("wish", VARIANTS)
def test_the_adapter_and_the_merged_model_give_the_trainers_logits(
    make_run, tiny: Path, world: World, monkeypatch: pytest.MonkeyPatch, wish: dict
) -> None:
    ours = []
    monkeypatch.setattr(Adapter, "export", _listening(ours))
    run = make_run(steps=3, lora={"rank": 4} | wish, export={"merged": True}, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    assert [event.form for event in events_of(run, Exported)] == ["merged", "adapter"]
    base = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    with torch.no_grad():
        before = base(PROBE).logits
        theirs = PeftModel.from_pretrained(base, str(run.checkpoint(3).model))(PROBE).logits
        merged = AutoModelForCausalLM.from_pretrained(run.checkpoint(3).merged, dtype=torch.float32)(PROBE).logits
    assert (theirs - before).abs().max() > 1e-2
    assert (theirs - ours[0]).abs().max() < 1e-5
    assert (merged - theirs).abs().max() < 1e-4


def test_the_adapter_is_talked_to_as_the_merged_model_is(make_run, tiny: Path) -> None:
    turns = [{"role": "user", "content": "hi"}]
    row = json.dumps({"messages": [*turns, {"role": "assistant", "content": "ho"}]})
    wishes = {"text": row, "rows_per_step": 1, "steps": 60, "lora": {"rank": 16}, "export": {"merged": True}}
    run = make_run(optimizer=QUICK, **wishes)
    assert train(run) == 0, the_end(run)
    folder = run.checkpoint(60)
    for model in (ChatModel.load(folder.model, base=tiny), ChatModel.load(folder.merged)):
        assert "".join(model.reply(turns, max_tokens=12)) == "ho"


def test_an_adapter_of_another_model_is_refused(make_run, tiny: Path, tmp_path: Path) -> None:
    run = make_run(steps=1, lora={"rank": 4}, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    other = shutil.copytree(tiny, tmp_path / "other")
    mixture().save_pretrained(other)
    with pytest.raises(ModelError, match="does not fit the model"):
        ChatModel.load(run.checkpoint(1).model, base=other)


def _listening(heard: list[Tensor]) -> Any:
    """`Adapter.export`, and the trainer's own logits at that moment."""
    export = Adapter.export

    def export_and_hear(adapter: Adapter, folder: Path, state: Snapshot, **names: Any) -> None:
        adapter.model.eval()
        with torch.no_grad():
            heard.append(adapter.model(PROBE, lengths=[PROBE.shape[1]]).logits)
        adapter.model.train()
        export(adapter, folder, state, **names)

    return export_and_hear


@pytest.mark.parametrize("make", ["mixture", "shared_mixture"])
def test_experts_of_one_weight_are_trained_exported_and_merged(
    make_run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: str
) -> None:
    base = shutil.copytree(tiny, tmp_path / "mixture")
    globals()[make]().save_pretrained(base)
    ours = []
    monkeypatch.setattr(Adapter, "export", _listening(ours))
    wish = {"rank": 4, "target_modules": ["q_proj", "gate_proj", "up_proj", "down_proj"]}
    run = make_run(model=base, steps=3, lora=wish, export={"merged": True}, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    stock = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with torch.no_grad():
        before = stock(PROBE).logits
        theirs = PeftModel.from_pretrained(stock, str(run.checkpoint(3).model))(PROBE).logits
        merged = AutoModelForCausalLM.from_pretrained(run.checkpoint(3).merged, dtype=torch.float32)(PROBE).logits
    assert (theirs - before).abs().max() > 1e-3
    assert (theirs - ours[0]).abs().max() < 1e-5
    assert (merged - theirs).abs().max() < 1e-4
    for name, weight in load_file(run.checkpoint(3).model / "adapter_model.safetensors").items():
        assert "lora_B" not in name or weight.count_nonzero() > 0


def test_a_base_of_four_bits_is_trained_beside_and_merged_in_full(
    make_run, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter is the same file as any; its logits are the trainer's on a base of 4 bits."""
    ours = []
    monkeypatch.setattr(Adapter, "export", _listening(ours))
    lora = {"rank": 4, "quantize": "nf4"}
    run = make_run(steps=2, lora=lora, export={"merged": True}, checkpoints={}, optimizer=QUICK)
    assert train(run) == 0, the_end(run)
    (told,) = events_of(run, Adapted)
    whole = sum(each.numel() for each in load_file(tiny / "model.safetensors").values())
    assert told.parameters == whole
    packing = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    folder = run.checkpoint(2)
    packed = AutoModelForCausalLM.from_pretrained(
        tiny, dtype=torch.float32, quantization_config=packing, device_map={"": "cpu"}
    )
    full = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    with torch.no_grad():
        # In eval mode bitsandbytes would compute in bfloat16 here, on a CPU that has it.
        on_packed = PeftModel.from_pretrained(packed, str(folder.model)).train()(PROBE).logits
        on_full = PeftModel.from_pretrained(full, str(folder.model))(PROBE).logits
        merged = AutoModelForCausalLM.from_pretrained(folder.merged, dtype=torch.float32)(PROBE).logits
    assert (on_packed - ours[0]).abs().max() < 1e-5
    assert (merged - on_full).abs().max() < 1e-4
    assert (on_packed - on_full).abs().max() > 1e-3
    assert all("lora_" in name for name in trained_state(folder) if name.startswith("model/"))


def test_gradients_through_four_bits_are_those_of_the_weights_they_stand_for(
    tiny: Path, world: World, make_batch
) -> None:
    packed = load_decoder(tiny, world, quantize="nf4")
    plain = load_decoder(tiny, world)
    for path, module in packed.model.named_modules():
        if isinstance(module, Linear4bit):
            weight = dequantize_4bit(module.weight.data, module.weight.quant_state)  # type: ignore[attr-defined]
            plain.model.get_submodule(path).get_parameter("weight").data = weight
    for decoder in (packed, plain):
        put_adapter(decoder, world, Lora(rank=4))
        decoder.eval()
        with torch.no_grad():
            decoder.summed_loss(make_batch(20), scale=1.0)  # as validation does
        decoder.train()
        decoder.summed_loss(make_batch(60, 40), scale=1.0).backward()
    learning = [each for each in plain.parameters() if each.requires_grad]
    for ours, theirs in zip((each for each in packed.parameters() if each.requires_grad), learning, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_a_module_of_four_bits_is_not_trained_whole(tiny: Path, world: World) -> None:
    decoder = load_decoder(tiny, world, quantize="nf4")
    assert "held in 4 bits" in refusal(decoder.model, modules_to_save=("down_proj",))


def test_a_dense_layer_of_four_bits_beside_experts_is_refused(world: World, tmp_path: Path) -> None:
    shared_mixture().save_pretrained(tmp_path)
    model = load_decoder(tmp_path, world, quantize="nf4").model
    assert "model.lora.quantize" in refusal(model, target_modules=("shared_expert",))
    assert adapt(model, Lora(target_modules=("experts",)), seed=0).modules


def test_an_adapter_run_cut_in_two_equals_the_whole_run_bit_for_bit(make_run) -> None:
    wishes = {"steps": 6, "checkpoints": {"every_steps": 3}, "lora": {"rank": 4, "dropout": 0.2}}
    whole = make_run("whole", **wishes)
    assert train(whole) == 0, the_end(whole)
    rest = make_run("rest", **wishes, resume_from=whole.checkpoint(3).root)
    assert train(rest) == 0, the_end(rest)
    assert losses_of(rest) == losses_of(whole, first=4)
    assert trained_state(rest.checkpoint(6)) == trained_state(whole.checkpoint(6))


@pytest.mark.parametrize("wish", [{"rank": 8}, {"rank": 4, "target_modules": ["q_proj"]}, None])
def test_a_checkpoint_of_other_adapters_is_refused(make_run, wish: dict | None) -> None:
    first = make_run("first", steps=1, checkpoints={}, lora={"rank": 4, "target_modules": ["v_proj"]})
    assert train(first) == 0, the_end(first)
    second = make_run("second", steps=2, lora=wish, resume_from=first.checkpoint(1).root)
    assert train(second) == 1
    assert "does not fit this model" in the_end(second).message


def test_a_target_that_means_nothing_fails_the_run_by_name(make_run) -> None:
    run = make_run(lora={"target_modules": ["q_proj", "vproj"]})
    assert train(run) == 1
    assert "vproj" in the_end(run).message and the_end(run).code == "config"
