"""The optimizers: torch's SGD, Adam and AdamW, and the two layer-wise ones for large batches.

    LARS   w ← w − lr · v,   v ← m v + φ (g + d w),        φ = trust · |w| / (|g| + d |w|)
    LAMB   w ← w − lr · φ u, u = m̂ / (√v̂ + ε) + d w,       φ = |w| / |u|

(You, Gitman, Ginsburg 2017; You et al. 2020.) Biases and normalisation weights, that is all parameters of fewer
than two dimensions, are neither decayed nor rescaled: φ = 1 and d = 0. So are, in the three others, decays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

__all__ = ["LAMB", "LARS", "OPTIMIZERS", "optimizer"]

OPTIMIZERS = ("sgd", "adam", "adamw", "lars", "lamb")
_TRUST = 0.001


class LARS(Optimizer):
    """SGD with momentum whose step is rescaled per layer."""

    def __init__(self, params: Iterable[Any], *, lr: float | Tensor, momentum: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": 0.0, "trust": _TRUST})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; norms stay on the device, nothing waits for it."""
        loss = _closed(closure)
        for group in self.param_groups:
            decay, adapts = group["weight_decay"], group["adapts"]
            for weight in (w for w in group["params"] if w.grad is not None):
                update = weight.grad + decay * weight if decay else weight.grad.clone()
                if adapts:
                    update *= _ratio(
                        group["trust"] * weight.norm(), weight.grad.norm() + decay * weight.norm()
                    )
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                state["momentum"].mul_(group["momentum"]).add_(update)
                weight.sub_(state["momentum"] * group["lr"])
        return loss


class LAMB(Optimizer):
    """Adam whose step is rescaled per layer."""

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float | Tensor,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; the step count is a tensor, so that a captured step counts on."""
        loss = _closed(closure)
        for group in self.param_groups:
            (first, second), decay = group["betas"], group["weight_decay"]
            for weight in (w for w in group["params"] if w.grad is not None):
                state = self.state[weight]
                if not state:
                    state["step"] = torch.zeros((), device=weight.device)
                    state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
                state["step"] += 1
                state["mean"].lerp_(weight.grad, 1 - first)
                state["square"].mul_(second).addcmul_(weight.grad, weight.grad, value=1 - second)
                mean = state["mean"] / (1 - first ** state["step"])
                square = state["square"] / (1 - second ** state["step"])
                update = mean / (square.sqrt() + group["eps"]) + decay * weight
                if group["adapts"]:
                    update *= _ratio(weight.norm(), update.norm())
                weight.sub_(update * group["lr"])
        return loss


def optimizer(
    name: str,
    network: nn.Module,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    capturable: bool,
    shared: bool = False,
) -> Optimizer:
    """The optimizer of this name; `capturable` for a step that is captured in a CUDA graph, `shared` where each worker
    is to keep the state of a part of the weights alone (ZeRO stage 1)."""
    groups = _groups(network, weight_decay=weight_decay)
    device = next(network.parameters()).device
    rate: float | Tensor = torch.tensor(lr, device=device) if capturable else lr
    whole = not any(isinstance(p, DTensor) for p in network.parameters())  # torch has no fused SGD of parts
    kinds: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
        "sgd": (torch.optim.SGD, {"momentum": momentum, "fused": whole}),
        "adam": (torch.optim.Adam, {"fused": True, "capturable": capturable}),
        "adamw": (torch.optim.AdamW, {"fused": True, "capturable": capturable}),
        "lars": (LARS, {"momentum": momentum}),
        "lamb": (LAMB, {}),
    }
    kind, settings = kinds[name]
    if shared:
        from torch.distributed.optim import ZeroRedundancyOptimizer  # compiles old code when it is imported

        return ZeroRedundancyOptimizer(groups, optimizer_class=kind, lr=rate, **settings)
    return kind(groups, lr=rate, **settings)  # type: ignore[call-arg]


def _groups(network: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    trained = [p for p in network.parameters() if p.requires_grad]
    wide = [p for p in trained if p.ndim > 1]
    thin = [p for p in trained if p.ndim <= 1]
    groups = [
        {"params": wide, "weight_decay": weight_decay, "adapts": True},
        {"params": thin, "weight_decay": 0.0, "adapts": False},
    ]
    return [group for group in groups if group["params"]]


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 1 where either is zero: a layer that starts at zero must still move."""
    return torch.where((above > 0) & (below > 0), above / below, torch.ones_like(above))


def _closed(closure: Callable[[], float] | None) -> float | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
