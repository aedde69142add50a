import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.train import loss
from burnish.train.loss import linear_cross_entropy

# N trained tokens, H hidden, V vocabulary.


def _exact(hidden_NH: torch.Tensor, head_VH: torch.Tensor, targets_N: torch.Tensor) -> list[torch.Tensor]:
    """The sum and its gradients, by autograd in float64 over all logits at once."""
    hidden, head = hidden_NH.double().detach().requires_grad_(), head_VH.double().detach().requires_grad_()
    total = torch.nn.functional.cross_entropy(hidden @ head.T, targets_N, reduction="sum")
    return [total.detach(), *torch.autograd.grad(total, [hidden, head])]


def _make(tokens: int, hidden: int, vocabulary: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    targets = torch.randint(0, vocabulary, (tokens,))
    return torch.randn(tokens, hidden), torch.randn(vocabulary, hidden), targets


@settings(deadline=None, max_examples=30)
@given(tokens=st.integers(1, 300), hidden=st.integers(1, 24), vocabulary=st.integers(2, 90), seed=st.integers(0, 99))
def test_loss_and_gradients_equal_float64_autograd(tokens: int, hidden: int, vocabulary: int, seed: int) -> None:
    hidden_NH, head_VH, targets_N = _make(tokens, hidden, vocabulary, seed)
    exact_loss, exact_hidden, exact_head = _exact(hidden_NH, head_VH, targets_N)
    hidden_NH.requires_grad_(), head_VH.requires_grad_()
    total = linear_cross_entropy(hidden_NH, head_VH, targets_N, scale=1.0)
    total.backward()
    torch.testing.assert_close(total.detach(), exact_loss, rtol=1e-5, atol=1e-4)
    assert hidden_NH.grad is not None and head_VH.grad is not None
    torch.testing.assert_close(hidden_NH.grad.double(), exact_hidden, rtol=1e-3, atol=2e-5)
    torch.testing.assert_close(head_VH.grad.double(), exact_head, rtol=1e-3, atol=2e-4)


def test_chunks_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for chunk_bytes in (1 << 30, 1):
        monkeypatch.setattr(loss, "_CHUNK_BYTES", chunk_bytes)  # at least 64 rows a chunk: 200 make four
        hidden_NH, head_VH, targets_N = _make(200, 16, 50, seed=1)
        hidden_NH.requires_grad_(), head_VH.requires_grad_()
        total = linear_cross_entropy(hidden_NH, head_VH, targets_N, scale=0.01)
        total.backward()
        results.append((total.detach(), hidden_NH.grad, head_VH.grad))
    for one, many in zip(*results, strict=True):
        torch.testing.assert_close(one, many, rtol=1e-5, atol=1e-6)


def test_no_tensor_of_all_logits_is_ever_made() -> None:
    vocabulary, tokens = 4096, 8192
    hidden_NH, head_VH, targets_N = _make(tokens, 4, vocabulary, seed=2)
    hidden_NH.requires_grad_(), head_VH.requires_grad_()
    with torch.profiler.profile(profile_memory=True) as profile:
        linear_cross_entropy(hidden_NH, head_VH, targets_N, scale=1.0).backward()
    largest = max(event.self_cpu_memory_usage for event in profile.events() or ())
    assert 0 < largest <= loss._CHUNK_BYTES < tokens * vocabulary * 4


def test_a_large_vocabulary_costs_no_digits() -> None:
    hidden_NH, head_VH, targets_N = _make(64, 32, 150_000, seed=3)
    head_VH /= 6
    exact, *_ = _exact(hidden_NH, head_VH, targets_N)
    total = linear_cross_entropy(hidden_NH, head_VH, targets_N, scale=1 / 64)
    assert abs(total.item() - exact.item() / 64) < 2e-6


def test_a_frozen_head_gets_no_gradient() -> None:
    hidden_NH, head_VH, targets_N = _make(10, 4, 9, seed=4)
    hidden_NH.requires_grad_()
    linear_cross_entropy(hidden_NH, head_VH, targets_N, scale=1.0).backward()
    torch.testing.assert_close(hidden_NH.grad, _exact(hidden_NH, head_VH, targets_N)[1].float())
    assert head_VH.grad is None
