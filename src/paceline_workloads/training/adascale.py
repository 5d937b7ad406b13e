"""AdaScale: the learning rate follows what a larger batch really gains, measured at every step.

    S      = B / base                          how much larger the global batch is than the one that lr is for
    |G|²   = (B |ḡ|² − b mean|g|²) / (B − b)   g: gradients of the parts of b samples, ḡ: their mean, B samples
    tr Σ   = (mean|g|² − |ḡ|²) / (1/b − 1/B)
    r      = (v + |G|²) / (v / S + |G|²)       v = tr Σ / base: between 1 (no noise: a larger batch gains nothing)
                                               and S (noise alone: it gains all)
    rate   = lr · r, for Adam and LAMB lr · √r;     the schedule moves by r · base samples per step, not by B

(Johnson et al. 2020.) Both moments are means over steps: plain ones at first, then with weight 1 − S/1000 on what was.
A part is the first backward of each worker, so two workers or two backwards per step are needed. The norms are
exchanged in one all-reduce of two numbers per step, and read on the host: on a device this waits for it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline_workloads.training.learning_rate import RatePlan, rate

__all__ = ["AdaScale", "gain", "moments"]

_KEPT = ("square", "variance", "samples", "steps")
_ADAPTIVE = ("adam", "adamw", "lamb")


def gain(square: float, variance: float, *, scale: float, base_batch: int) -> float:
    """r, from |G|² and tr Σ. Estimates below zero are noise, and count as zero."""
    square, noise = max(square, 0.0), max(variance, 0.0) / base_batch
    below = noise / scale + square
    return (noise + square) / below if below > 0 else 1.0


def moments(own: float, mean: float, *, part: int, whole: int) -> tuple[float, float]:
    """|G|² and tr Σ from the mean squared norm of parts and the squared norm of their mean."""
    return (whole * mean - part * own) / (whole - part), (own - mean) / (1 / part - 1 / whole)


class AdaScale:
    """Watches the gradients of a network while it learns; gives the rate of the next step."""

    def __init__(
        self, network: nn.Module, plan: RatePlan, *, part: int, accumulate: int, optimizer: str
    ) -> None:
        self._plan, self._part, self._accumulate = plan, part, accumulate
        self._power = 0.5 if optimizer in _ADAPTIVE else 1.0
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        self._own: dict[int, Tensor] = {}
        for index, parameter in enumerate(self._parameters):
            parameter.register_post_accumulate_grad_hook(self._hook(index))  # type: ignore[no-untyped-call]
        self.square, self.variance = 0.0, 0.0
        self.samples = 0.0  # along the schedule
        self.steps = 0.0

    @property
    def scale(self) -> float:
        return self._plan.global_batch / self._plan.base_batch

    @property
    def gain(self) -> float:
        """What the last steps say; 1 before the first."""
        return gain(self.square, self.variance, scale=self.scale, base_batch=self._plan.base_batch)

    def rate(self) -> float:
        """The learning rate of the step that comes."""
        r = self.gain
        return rate(self.samples + 0.5 * r * self._plan.base_batch, self._plan) * float(r**self._power)

    def stepped(self) -> None:
        """A step has ended: take its norms in, and move along the schedule."""
        self.samples += self.gain * self._plan.base_batch
        if self._own:
            # a part's gradient was divided by the number of backwards
            own = torch.stack(list(self._own.values())).double().square().sum() * self._accumulate**2
            mean = _squared([p.grad for p in self._parameters if p.grad is not None])
            both = torch.stack([own, mean])
            if dist.is_initialized():
                dist.all_reduce(both)
                both /= dist.get_world_size()
            first, second = both.tolist()
            self._remember(*moments(first, second, part=self._part, whole=self._plan.global_batch))
        self._own.clear()

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {name: getattr(self, name) for name in _KEPT}

    def restore(self, state: dict[str, float]) -> None:
        """Go on where a checkpoint ended."""
        for name in _KEPT:
            setattr(self, name, state[name])

    def _remember(self, square: float, variance: float) -> None:
        kept = min(self.steps / (self.steps + 1), max(1.0 - self.scale / 1000.0, 0.0))
        self.steps += 1
        self.square = kept * self.square + (1 - kept) * square
        self.variance = kept * self.variance + (1 - kept) * variance

    def _hook(self, index: int) -> Any:
        own = self._own

        def accumulated(parameter: Tensor) -> None:
            if index not in own and parameter.grad is not None:  # of a step the first backward
                own[index] = torch.linalg.vector_norm(parameter.grad.detach(), dtype=torch.float32)

        return accumulated


def _squared(gradients: list[Tensor]) -> Tensor:
    return (
        torch.stack([torch.linalg.vector_norm(g.detach(), dtype=torch.float32) for g in gradients])
        .double()
        .square()
        .sum()
    )
