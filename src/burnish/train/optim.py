"""The optimizer as the run asked for it, with clipping. Knows no schedule; it is told the rate."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from burnish.errors import PlanError
from burnish.spec import train as spec


class SignSGD(torch.optim.Optimizer):
    """`w -= lr * (sign(g) + weight_decay * w)`: no state at all (Bernstein et al. 2018, arXiv:1802.04434)."""

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override] (there is no closure here)
        for group in self.param_groups:
            rate, decay = group["lr"], group["weight_decay"]
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - rate * decay).sub_(parameter.grad.sign(), alpha=rate)


class Joined:
    """Two optimizers over two halves of a model, as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self._parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self._parts for group in part.param_groups]

    @property
    def state(self) -> dict[Tensor, Any]:
        return {parameter: state for part in self._parts for parameter, state in part.state.items()}

    def step(self) -> None:
        for part in self._parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self._parts:
            part.zero_grad(set_to_none)


Optimizer = torch.optim.Optimizer | Joined


def build_optimizer(model: nn.Module, wish: spec.Optimizer) -> Optimizer:
    """Over all parameters that learn. Weight decay leaves norms, biases and embeddings alone unless `decay_all`."""
    groups = list(_groups(model, wish))
    match wish:
        case spec.AdamW(bits=8):
            return _adamw_8bit(groups, wish)
        case spec.AdamW():
            # One fused kernel, on CPUs too, where it runs four times faster than `foreach`.
            return torch.optim.AdamW(
                groups, lr=wish.learning_rate, betas=wish.betas, eps=wish.epsilon, fused=True
            )  # fmt: skip
        case spec.SGD():
            momentum, nesterov = wish.momentum, wish.nesterov
            return torch.optim.SGD(groups, lr=wish.learning_rate, momentum=momentum, nesterov=nesterov, fused=True)
        case spec.SignSGD():
            return SignSGD(groups, wish.learning_rate, wish.weight_decay)
        case spec.Muon():
            return _muon(model, wish)


def gradient_norm(model: nn.Module) -> Tensor:
    """L2 norm of all gradients together; not finite if any of them is not."""
    return nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None])


def step(optimizer: Optimizer, *, learning_rate: float, norm: Tensor, clip_norm: float | None) -> None:
    """One update, then no gradients. They are clipped to `clip_norm`, inside the kernel where it can do that."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    if clip_norm is not None:
        if isinstance(optimizer, torch.optim.AdamW):
            # The fused kernel divides by what a gradient scaler would have multiplied with.
            optimizer.grad_scale = (norm / clip_norm).clamp(min=1.0).float()  # type: ignore[attr-defined]
        else:
            nn.utils.clip_grads_with_norm_(_learnt(optimizer), clip_norm, norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def make_state(optimizer: Optimizer) -> None:
    """Give every parameter the state that a first step would, and change nothing: a load needs the places before."""
    for parameter in _parameters(optimizer):
        parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _groups(model: nn.Module, wish: spec.Optimizer) -> Iterator[dict[str, Any]]:
    """One group that decays and one that does not; either may be missing."""
    decaying, kept = _split(model, decay_all=wish.decay_all)
    for parameters, decay in ((decaying, wish.weight_decay), (kept, 0.0)):
        if parameters:
            yield {"params": parameters, "weight_decay": decay}


def _split(model: nn.Module, *, decay_all: bool) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    learning = [each for each in model.parameters() if each.requires_grad]
    if decay_all:
        return learning, []
    spared = {
        id(each) for module in model.modules() if isinstance(module, nn.Embedding) for each in module.parameters()
    }
    decays = [each.ndim > 1 and id(each) not in spared for each in learning]
    return (
        [each for each, does in zip(learning, decays, strict=True) if does],
        [each for each, does in zip(learning, decays, strict=True) if not does],
    )


def _muon(model: nn.Module, wish: spec.Muon) -> Optimizer:
    """Muon for the matrices between embeddings and head, AdamW for the rest (Jordan et al. 2024).

    Updates are scaled to AdamW's usual size (Liu et al. 2025, arXiv:2502.16982), so one learning rate serves both.
    """
    outer = {id(each) for module in _ends(model) for each in module.parameters()}
    learning = [each for each in model.parameters() if each.requires_grad]
    matrices = [each for each in learning if each.ndim == 2 and id(each) not in outer]
    if not matrices:
        raise PlanError("Muon has no matrix to work on in this model.", hint='Use optim.type = "adamw".')
    inner = {id(each) for each in matrices}
    decaying, kept = _split(model, decay_all=wish.decay_all)
    rest = [
        {"params": parameters, "weight_decay": decay}
        for part, decay in ((decaying, wish.weight_decay), (kept, 0.0))
        if (parameters := [each for each in part if id(each) not in inner])
    ]
    muon = torch.optim.Muon(
        matrices,
        lr=wish.learning_rate,
        weight_decay=wish.weight_decay,
        momentum=wish.momentum,
        adjust_lr_fn="match_rms_adamw",
    )
    if not rest:
        return muon
    return Joined(muon, torch.optim.AdamW(rest, lr=wish.learning_rate, betas=wish.betas, fused=True))


def _ends(model: nn.Module) -> Iterator[nn.Module]:
    """Embeddings and the head, whose matrices are tables of tokens."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            yield module
    head = getattr(model, "get_output_embeddings", lambda: None)()
    if isinstance(head, nn.Module):
        yield head


def _adamw_8bit(groups: list[dict[str, Any]], wish: spec.AdamW) -> Optimizer:
    try:
        from bitsandbytes.optim.adamw import AdamW8bit
    except ImportError as error:
        raise PlanError(
            "The 8-bit optimizer needs bitsandbytes, which is not installed here.",
            hint='Install it, or use optim.type = "adamw".',
        ) from error
    return AdamW8bit(groups, lr=wish.learning_rate, betas=wish.betas, eps=wish.epsilon)


def _parameters(optimizer: Optimizer) -> Iterable[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _learnt(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for parameter in _parameters(optimizer) if parameter.grad is not None]
