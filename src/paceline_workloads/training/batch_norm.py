"""Batch normalisation over the samples of all workers, on any device. (torch's own accepts accelerators only.)

    n = Σ nᵢ      mean = Σ nᵢ mᵢ / n      var = Σ nᵢ (vᵢ + (mᵢ − mean)²) / n        one gather of (m, v, n)
    y = w x̂ + b,  x̂ = (x − mean) / √(var + ε)
    ∂x = w / √(var + ε) · (∂y − Σ∂y / n − x̂ · Σ(∂y x̂) / n)                          one all-reduce of the two sums

With it, N workers at global batch B train as one worker at batch B does. Without it each worker normalises by its own
samples, and what it learns depends on N.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["SyncBatchNorm", "with_sync_batch_norm"]


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose statistics are those of the global batch while training."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise; when judging, by the running statistics, without talking to anybody."""
        if not self.training:
            return super().forward(x)
        dims = [0, *range(2, x.ndim)]
        var, mean = torch.var_mean(x.detach().float(), dims, correction=0)
        count = mean.new_tensor([x.numel() / x.shape[1]])
        own = torch.cat([mean, var, count])
        everybody = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, own)
        means, variances, counts = torch.stack(everybody).tensor_split([len(mean), 2 * len(mean)], dim=1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        var = ((variances + (means - mean) ** 2) * counts).sum(0) / total
        self._remember(mean, var, total)
        normalised: Tensor = _Normalise.apply(x, mean, torch.rsqrt(var + self.eps), total)  # type: ignore[no-untyped-call]
        if not self.affine:
            return normalised
        shape = [1, -1, *([1] * (x.ndim - 2))]
        return normalised * self.weight.view(shape) + self.bias.view(shape)

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - torch's own name
        if input.ndim < 2:
            raise ValueError(f"batch normalisation of {input.ndim} dimensions")

    @torch.no_grad()
    def _remember(self, mean: Tensor, var: Tensor, total: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(var * total / (total - 1), share)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, inverse: Tensor, total: Tensor) -> Tensor:
        shape = [1, -1, *([1] * (x.ndim - 2))]
        normalised = ((x - mean.view(shape)) * inverse.view(shape)).to(x.dtype)
        ctx.save_for_backward(normalised, inverse, total)
        return normalised

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = gradients
        normalised, inverse, total = ctx.saved_tensors
        dims = [0, *range(2, gradient.ndim)]
        sums = torch.stack([gradient.float().sum(dims), (gradient * normalised).float().sum(dims)])
        dist.all_reduce(sums)
        shape = [1, -1, *([1] * (gradient.ndim - 2))]
        first, second = ((each / total).view(shape) for each in sums)
        back = inverse.view(shape) * (gradient - first - normalised * second)
        return back.to(gradient.dtype), None, None, None


def with_sync_batch_norm(network: nn.Module, *, device: torch.device) -> nn.Module:
    """The same network with every batch normalisation over all workers; torch's own where the device has it."""
    if device.type != "cpu":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        return converted
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                setattr(parent, name, _synchronised(child))
    return network


def _synchronised(norm: nn.modules.batchnorm._BatchNorm) -> SyncBatchNorm:
    own = SyncBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    own.load_state_dict(norm.state_dict())
    return own.to(norm.weight.device) if norm.affine else own
