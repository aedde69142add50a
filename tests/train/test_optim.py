"""Each optimizer does what its paper says, resumes to the bit, and leaves alone what is not to decay."""

from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from burnish.spec import train as spec
from burnish.train import optim
from burnish.train.checkpoint import Progress, load_trainer, save_trainer
from burnish.train.snapshot import look_at

WISHES = {
    "adamw": {"kind": "adamw"},
    "adamw 8 bit": {"kind": "adamw", "bits": 8},
    "sgd": {"kind": "sgd"},
    "sgd without momentum": {"kind": "sgd", "momentum": 0.0, "nesterov": False},
    "muon": {"kind": "muon"},
    "sign_sgd": {"kind": "sign_sgd"},
}
RATE = 1e-2


class Small(nn.Module):
    """An embedding, a matrix, a norm and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(32, 8)
        self.matrix = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 32, bias=False)
        self.head.weight = self.embedding.weight

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.matrix(self.embedding(ids))))


def wish_of(name: str, **more) -> spec.Optimizer:
    return TypeAdapter(spec.Optimizer).validate_python(
        {**WISHES[name], "learning_rate": RATE, "weight_decay": 0.1, **more}
    )


def learn(model: Small, optimizer: optim.Optimizer, steps: int, *, clip_norm: float | None = 1.0) -> list[float]:
    losses = []
    for number in range(steps):
        ids = torch.arange(12) * (number % 3 + 1) % 32
        loss = nn.functional.cross_entropy(model(ids), ids)
        loss.backward()
        optim.step(optimizer, learning_rate=RATE, norm=optim.gradient_norm(model), clip_norm=clip_norm)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", WISHES)
def test_the_loss_falls(name: str) -> None:
    model = Small()
    losses = learn(model, optim.build_optimizer(model, wish_of(name, decay_all=False)), 60)
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])


@pytest.mark.parametrize("name", WISHES)
def test_a_resumed_optimizer_goes_on_to_the_bit(name: str, tmp_path: Path) -> None:
    whole = Small()
    learn(whole, optim.build_optimizer(whole, wish_of(name)), 3)
    first = Small()
    optimizer = optim.build_optimizer(first, wish_of(name))
    learn(first, optimizer, 3)
    save_trainer(tmp_path / "trainer", look_at(first, optimizer), Progress(step=3))
    second = Small()
    resumed = optim.build_optimizer(second, wish_of(name))
    assert load_trainer(tmp_path / "trainer", second, resumed).step == 3
    assert learn(second, resumed, 4) == learn(first, optimizer, 4)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", WISHES)
def test_norms_biases_and_embeddings_decay_only_if_all_do(name: str) -> None:
    moved = {}
    for decay_all in (False, True):
        model = Small()
        optimizer = optim.build_optimizer(model, wish_of(name, decay_all=decay_all))
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        before = {key: value.detach().clone() for key, value in model.named_parameters()}
        optim.step(optimizer, learning_rate=RATE, norm=torch.zeros(()), clip_norm=None)
        moved[decay_all] = {key for key, value in model.named_parameters() if not torch.equal(value, before[key])}
    assert moved[False] == {"matrix.weight"}
    assert moved[True] >= {"matrix.weight", "norm.weight", "embedding.weight"}


@pytest.mark.parametrize("name", WISHES)
def test_a_clipped_gradient_is_as_long_as_it_may_be(name: str) -> None:
    updates = []
    for factor in (1.0, 1000.0):
        model = Small()
        optimizer = optim.build_optimizer(model, wish_of(name, weight_decay=0.0))
        (model(torch.arange(8)).square().sum() * factor).backward()
        before = model.matrix.weight.detach().clone()
        optim.step(optimizer, learning_rate=RATE, norm=optim.gradient_norm(model), clip_norm=0.01)
        updates.append(model.matrix.weight.detach() - before)
    assert torch.allclose(updates[0], updates[1], rtol=1e-3, atol=1e-7)


def test_sign_sgd_moves_each_weight_by_the_rate() -> None:
    model = Small()
    optimizer = optim.build_optimizer(model, wish_of("sign_sgd", weight_decay=0.0))
    before = model.matrix.weight.detach().clone()
    model(torch.arange(8)).square().sum().backward()
    assert model.matrix.weight.grad is not None
    sign = model.matrix.weight.grad.sign()
    optim.step(optimizer, learning_rate=RATE, norm=torch.ones(()), clip_norm=None)
    assert torch.allclose(before - model.matrix.weight.detach(), RATE * sign, atol=1e-7)
    assert not optimizer.state


def test_muon_takes_the_matrices_between_embeddings_and_head() -> None:
    model = Small()
    optimizer = optim.build_optimizer(model, wish_of("muon"))
    learn(model, optimizer, 1)
    assert set(optimizer.state[model.matrix.weight]) == {"momentum_buffer"}
    assert "exp_avg" in optimizer.state[model.embedding.weight]
    update = optimizer.state[model.matrix.weight]["momentum_buffer"]
    assert update.shape == (8, 8)


def test_moments_in_eight_bits_take_a_quarter_of_the_room() -> None:
    model = nn.Linear(256, 256, bias=False)
    optimizer = optim.build_optimizer(model, wish_of("adamw 8 bit"))
    model(torch.ones(1, 256)).sum().backward()
    optim.step(optimizer, learning_rate=RATE, norm=optim.gradient_norm(model), clip_norm=1.0)
    assert optimizer.state[model.weight]["state1"].element_size() == 1
