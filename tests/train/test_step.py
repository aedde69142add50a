import copy

import numpy as np
import pytest
import torch

from burnish.data.loader import Batch
from burnish.spec.train import AdamW
from burnish.train import optim
from burnish.train.loop import StepResult, take_step
from burnish.train.model import Decoder
from burnish.train.parallel import World

# AdamW's first step is all but the gradient's sign; a larger epsilon lets its size matter too.
WISH = AdamW(learning_rate=1e-2, weight_decay=0.1, epsilon=1e-3, decay_all=True)


def _step(world: World, decoder: Decoder, batches, *, clip_norm: float | None = 1.0) -> tuple[StepResult, list]:
    """One step from the given weights; the decoder itself is left as it was."""
    model = copy.deepcopy(decoder)
    optimizer = optim.build_optimizer(model, WISH)
    result = take_step(world, model, optimizer, batches, learning_rate=1e-2, clip_norm=clip_norm)
    return result, [each.detach() for each in model.parameters()]


def test_micro_batches_of_unequal_weight_equal_one_big_batch(world: World, decoder: Decoder, make_batch) -> None:
    long, short = make_batch(60, 6), make_batch(8, seed=1)
    both = _step(world, decoder, [_joined(long, short)])
    apart = _step(world, decoder, [long, short])
    assert both[0].trained_tokens == apart[0].trained_tokens == 30 + 3 + 4
    assert both[0].loss == pytest.approx(apart[0].loss, rel=1e-6)
    assert both[0].gradient_norm == pytest.approx(apart[0].gradient_norm, rel=1e-5)
    for one_weight, other in zip(both[1], apart[1], strict=True):
        torch.testing.assert_close(one_weight, other, rtol=1e-3, atol=1e-5)


def test_a_step_equals_plain_autograd_clipping_and_adamw(world: World, decoder: Decoder, make_batch) -> None:
    batch = make_batch(50, 30)
    for clip_norm in (0.01, 1e6, None):
        model = copy.deepcopy(decoder)
        plain = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, eps=1e-3)
        (model.summed_loss(batch, scale=1 / batch.trained_tokens)).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm or float("inf"))
        plain.step()
        result, weights = _step(world, decoder, [batch], clip_norm=clip_norm)
        assert result.gradient_norm == pytest.approx(norm.item(), rel=1e-6)
        for ours, theirs in zip(weights, model.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_a_step_that_is_not_finite_touches_nothing(world: World, decoder: Decoder, make_batch, fault: str) -> None:
    optimizer = optim.build_optimizer(decoder, WISH)
    assert isinstance(optimizer, torch.optim.AdamW)
    good = make_batch(20)
    take_step(world, decoder, optimizer, [good], learning_rate=1e-2, clip_norm=1.0)
    before = [each.detach().clone() for each in decoder.parameters()]
    moments = copy.deepcopy(optimizer.state_dict()["state"])
    if fault == "gradient":
        hook = decoder.head_VH.register_hook(lambda gradient: gradient * float("inf"))
    else:
        last_norm = decoder.body.get_submodule("norm")
        hook = last_norm.register_forward_hook(_spoil)
    result = take_step(world, decoder, optimizer, [good, make_batch(9)], learning_rate=1e-2, clip_norm=1.0)
    hook.remove()
    assert result.is_skipped
    assert all(torch.equal(one, other) for one, other in zip(before, decoder.parameters(), strict=True))
    for key, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, moments[key][name]) for name, value in state.items())
    assert all(each.grad is None for each in decoder.parameters())
    assert not take_step(world, decoder, optimizer, [good], learning_rate=1e-2, clip_norm=1.0).is_skipped


def test_a_learning_rate_of_zero_changes_no_weight(world: World, decoder: Decoder, make_batch) -> None:
    before = [each.detach().clone() for each in decoder.parameters()]
    optimizer = optim.build_optimizer(decoder, WISH)
    assert isinstance(optimizer, torch.optim.AdamW)
    take_step(world, decoder, optimizer, [make_batch(20)], learning_rate=0.0, clip_norm=1.0)
    assert all(torch.equal(one, other) for one, other in zip(before, decoder.parameters(), strict=True))


def _spoil(module: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> torch.Tensor:
    return output * float("nan")


def _joined(*batches: Batch) -> Batch:
    return Batch(
        *(
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in ("inputs_T", "targets_T", "positions_T", "lengths_D")
        )
    )
