"""Gradients, reduced as they become ready, in buckets.

    backward    ┌ last layers ready ┐┌ … ┐┌ first layers ready ┐
    engine             └ bucket 0 on its way ┘└ bucket 1 ┘└ bucket 2 ┘
    step                                                         └ wait, copy back, optimizer

A bucket holds gradients of one type and device, in the reverse order of the parameters, up to HOROVOD_FUSION_THRESHOLD
bytes. For an average, gradients are divided by the number of ranks while they are copied into the bucket.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from paceline_horovod.common.process_sets import ProcessSet
from paceline_horovod.torch.asynchronous import (
    allreduce_async_,
    grouped_allreduce_async,
    sparse_allreduce_async,
)
from paceline_horovod.torch.compression import Compression
from paceline_horovod.torch.handles import synchronize
from paceline_horovod.torch.ops import Average, Op, Sum

__all__ = ["Buckets", "Reduction", "cut"]

_FIRST_BYTES = 1 << 20  # a small first bucket starts the exchange early
_DEFAULT_BYTES = 25 << 20


@dataclass(frozen=True)
class Reduction:
    """How gradients of all ranks become one."""

    op: Op
    compression: Any
    predivide_factor: float
    sparse_as_dense: bool
    process_set: ProcessSet


@dataclass
class Bucket:
    """Gradients that travel together."""

    name: str
    parameters: list[torch.nn.Parameter]
    missing: set[int] = field(default_factory=set)  # ids of the parameters whose gradient is not ready
    flat: torch.Tensor | None = None
    views: list[torch.Tensor] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)
    handle: Any = None


def cut(
    parameters: Sequence[torch.nn.Parameter],
    *,
    most_bytes: int | None = None,
    groups: Sequence[Sequence[torch.nn.Parameter]] = (),
) -> list[list[torch.nn.Parameter]]:
    """Share the parameters out to buckets. `groups` stay together; the rest is cut by size, last layers first.

    `most_bytes` is never exceeded but by a single parameter. Without it a bucket is closed once it holds 1 MiB (the
    first) or 25 MiB, as DistributedDataParallel closes its own."""
    buckets = [list(group) for group in groups if group]
    grouped = {id(p) for group in buckets for p in group}
    limit = most_bytes if most_bytes is not None else _FIRST_BYTES
    open_buckets: dict[Any, tuple[list[torch.nn.Parameter], int]] = {}
    for parameter in reversed([p for p in parameters if id(p) not in grouped]):
        kind = (parameter.dtype, parameter.device)
        size = parameter.numel() * parameter.element_size()
        members, held = open_buckets.get(kind, ([], 0))
        full = held >= limit if most_bytes is None else held + size > limit
        if members and full:
            members, held = [], 0
            limit = limit if most_bytes is not None else _DEFAULT_BYTES
        if not members:
            buckets.append(members)
        members.append(parameter)
        open_buckets[kind] = (members, held + size)
    return buckets


class Buckets:
    """The gradients of one optimizer between backward and step."""

    def __init__(
        self,
        named: Sequence[tuple[str, torch.nn.Parameter]],
        reduction: Reduction,
        *,
        prefix: str,
        passes: int,
        groups: Sequence[Sequence[torch.nn.Parameter]] = (),
    ) -> None:
        self.passes = passes
        self._reduction = reduction
        self._names = {id(p): f"{prefix}.{name}" for name, p in named}
        given = os.environ.get("HOROVOD_FUSION_THRESHOLD", "")
        parts = cut([p for _, p in named], most_bytes=int(given) if given else None, groups=groups)
        self._buckets = [Bucket(f"{prefix}.bucket.{i}", part) for i, part in enumerate(parts)]
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.parameters}
        self._passes_left: dict[int, int] = {}
        self._sparse: dict[int, tuple[torch.nn.Parameter, Any]] = {}
        self._known_sparse: dict[int, torch.nn.Parameter] = {}
        self._made_dense: set[int] = set()  # sparse_as_dense: their gradients are handed back sparse
        self._lock = threading.Lock()
        for _, parameter in named:
            hooked: Any = parameter
            hooked.register_post_accumulate_grad_hook(self._accumulated)
        self._reset()

    def in_flight(self) -> bool:
        return bool(self._sparse) or any(bucket.handle is not None for bucket in self._buckets)

    def finish(self) -> None:
        """Reduce what has not been reduced, wait for all, and put the results where the gradients were.

        A parameter without a gradient takes part with zeros: on another rank it may have one."""
        for bucket in self._buckets:
            if bucket.handle is None and bucket.parameters:
                self._send(bucket)
        for key, parameter in self._known_sparse.items():
            if key not in self._sparse:
                self._send_sparse(parameter)
        try:
            for bucket in self._buckets:
                if bucket.handle is not None:
                    self._receive(bucket)
            for parameter, handle in self._sparse.values():
                parameter.grad = synchronize(handle)
        finally:
            self._reset()

    def _reset(self) -> None:
        self._passes_left = dict.fromkeys(self._names, self.passes)
        self._sparse = {}
        for bucket in self._buckets:
            bucket.missing = {id(p) for p in bucket.parameters}
            bucket.handle = None

    def set_passes(self, passes: int) -> None:
        self.passes = passes
        self._passes_left = dict.fromkeys(self._names, passes)

    def _accumulated(self, parameter: torch.Tensor) -> None:
        """A gradient has been computed: when its last pass is in, its bucket may leave."""
        key = id(parameter)
        with self._lock:
            if self._passes_left[key] == 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call to step(). "
                    "Increase backward_passes_per_step to accumulate gradients locally."
                )
            self._passes_left[key] -= 1
            if self._passes_left[key]:
                return
            gradient = parameter.grad
            assert gradient is not None
            if gradient.is_sparse:
                if not self._reduction.sparse_as_dense:
                    self._take_out(parameter)
                    self._send_sparse(parameter)
                    return
                self._made_dense.add(key)
            bucket = self._bucket_of[key]
            bucket.missing.discard(key)
            if not bucket.missing:
                self._send(bucket)

    def _take_out(self, parameter: Any) -> None:
        """The first sparse gradient of a parameter: from now on it travels alone."""
        bucket = self._bucket_of.get(id(parameter))
        if bucket is not None and id(parameter) not in self._known_sparse:
            self._known_sparse[id(parameter)] = parameter
            bucket.parameters = [p for p in bucket.parameters if p is not parameter]
            bucket.missing.discard(id(parameter))
            bucket.flat = None
            if not bucket.missing and bucket.parameters:
                self._send(bucket)

    def _send_sparse(self, parameter: Any) -> None:
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(parameter).to_sparse(1)
        name, how = self._names[id(parameter)], self._reduction
        self._sparse[id(parameter)] = (
            parameter,
            sparse_allreduce_async(gradient, name, how.op, how.process_set),
        )

    def _send(self, bucket: Bucket) -> None:
        how = self._reduction
        gradients = [self._dense(parameter) for parameter in bucket.parameters]
        if how.compression is not Compression.none or len({g.dtype for g in gradients}) > 1:
            sent = [how.compression.compress(gradient) for gradient in gradients]
            bucket.contexts = [context for _, context in sent]
            bucket.handle = grouped_allreduce_async(
                [tensor for tensor, _ in sent],
                name=bucket.name,
                op=how.op,
                prescale_factor=1 / how.predivide_factor,
                postscale_factor=how.predivide_factor,
                process_set=how.process_set,
            )
            return
        if bucket.flat is None or bucket.flat.dtype != gradients[0].dtype:
            _allocate(bucket, gradients)
        before, _ = self._factors()
        for gradient, view in zip(gradients, bucket.views, strict=True):
            if before == 1.0:
                view.copy_(gradient)
            else:
                torch.mul(gradient, before, out=view)
        assert bucket.flat is not None
        op = Sum if how.op == Average else how.op
        bucket.handle = allreduce_async_(bucket.flat, name=bucket.name, op=op, process_set=how.process_set)

    def _receive(self, bucket: Bucket) -> None:
        results = synchronize(bucket.handle)
        _, after = self._factors()
        if isinstance(results, list):
            decompress = self._reduction.compression.decompress
            results = [decompress(r, context) for r, context in zip(results, bucket.contexts, strict=True)]
            after = 1.0
        else:
            results = bucket.views
        with torch.no_grad():
            for parameter, result in zip(bucket.parameters, results, strict=True):
                if parameter.grad is None and not parameter.requires_grad:
                    continue  # frozen since: the optimizer must go on leaving it alone
                if id(parameter) in self._made_dense:
                    parameter.grad = (result * after).to_sparse(1)
                    continue
                if parameter.grad is None or parameter.grad.is_sparse:
                    parameter.grad = torch.empty_like(parameter)
                if after == 1.0:
                    parameter.grad.copy_(result)
                else:
                    torch.mul(result, after, out=parameter.grad)

    def _factors(self) -> tuple[float, float]:
        """What gradients are multiplied with before and after the sum: 1/f and f/n, or 1/n and 1 without an f."""
        how = self._reduction
        if how.op != Average:
            return 1.0, 1.0
        size = how.process_set.size()
        if how.predivide_factor == 1.0:
            return 1 / size, 1.0
        return 1 / how.predivide_factor, how.predivide_factor / size

    @staticmethod
    def _dense(parameter: torch.nn.Parameter) -> torch.Tensor:
        if parameter.grad is None:
            return torch.zeros_like(parameter.detach())
        gradient = parameter.grad.detach()
        return gradient.to_dense() if gradient.is_sparse else gradient


def _allocate(bucket: Bucket, gradients: Sequence[torch.Tensor]) -> None:
    bucket.flat = torch.empty(
        sum(g.numel() for g in gradients), dtype=gradients[0].dtype, device=gradients[0].device
    )
    bucket.views, begin = [], 0
    for gradient in gradients:
        bucket.views.append(bucket.flat[begin : begin + gradient.numel()].view(gradient.shape))
        begin += gradient.numel()
