"""Batch normalisation over the batches of all ranks.

mean = Σ x / Σ n,   var = Σ (x − mean)² / Σ n      sums over all ranks; gradients flow through both sums
"""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from paceline_horovod.common.process_sets import global_process_set
from paceline_horovod.torch.autograd import reduced
from paceline_horovod.torch.ops import Sum
from paceline_horovod.torch.world import size

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """In training, the statistics of all ranks; otherwise, or alone, ordinary batch normalisation."""

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 - torch's name
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        self._check_input_dim(input)
        if not self.training or size() == 1:
            return super().forward(input)
        features = input.shape[1]
        over = [0, *range(2, input.dim())]
        shape = [1, features, *[1] * (input.dim() - 2)]
        values = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        count = values.new_full((1,), input.numel() / features)
        totals = _sum(torch.cat([values.sum(over), count]))
        everywhere = totals[-1].detach()
        mean = totals[:-1] / everywhere
        centred = values - mean.view(shape)
        variance = _sum(centred.square().sum(over)) / everywhere
        self._remember(mean.detach(), variance.detach(), float(everywhere))
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        weight = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight)


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    total: torch.Tensor = reduced(None, (Sum, 1.0, 1.0, global_process_set), tensor)[0]
    return total
