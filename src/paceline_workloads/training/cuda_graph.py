"""One step captured as a CUDA graph and replayed: small batches are bound by launching kernels, not by computing.

    first steps   as they are, on a side stream: they allocate what the graph will use
    then          captured once, with fixed places for the batch; each step copies its batch there and replays

The learning rate is read from the device, so schedules go on working. Under DDP the exchange is captured too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline_workloads.data.examples import Batch
from paceline_workloads.training.learner import Learner, batch_loss

__all__ = ["CapturedStep"]

_EAGER_STEPS = 11  # DDP rebuilds its buckets and logs in its first ten steps; none of that may be captured


class CapturedStep:
    """Calls the step; after some steps it replays it."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: list[Tensor] = []
        self._loss = torch.zeros((), device=learner.device)

    def __call__(self, batch: Batch) -> Tensor:
        """One step on this batch; its loss, in a place that the next step overwrites."""
        if self._graph is None:
            self._place(batch)
            if self._steps < _EAGER_STEPS:
                self._steps += 1
                self._side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self._side):
                    self._forget_gradients()
                    self._step()
                torch.cuda.current_stream().wait_stream(self._side)
                return self._loss
            self._graph = torch.cuda.CUDAGraph()
            self._forget_gradients()
            with torch.cuda.graph(self._graph, stream=self._side):
                self._step()
        else:
            self._place(batch)
        self._graph.replay()
        return self._loss

    def _place(self, batch: Batch) -> None:
        if not self._batch:
            self._batch = [part.to(self._learner.device).clone() for part in batch]
        for place, part in zip(self._batch, batch, strict=True):
            place.copy_(part, non_blocking=True)

    def _forget_gradients(self) -> None:
        """Alone, gradients that are written, not added to, save a kernel per parameter; DDP's lie in its buckets."""
        if self._learner.exchange is None:
            self._learner.optimizer.zero_grad(set_to_none=True)

    def _step(self) -> None:
        if self._learner.exchange is not None:
            self._learner.optimizer.zero_grad(set_to_none=False)
        inputs, targets, draws = self._batch
        loss = batch_loss(self._learner, (inputs, targets, draws))
        loss.backward()  # type: ignore[no-untyped-call]
        self._learner.optimizer.step()
        self._loss.copy_(loss.detach())
