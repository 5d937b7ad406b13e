"""How noisy gradients are: norms of this worker's own gradient and of the mean over workers, every k-th step.

    own      |g_i|   read as each gradient is accumulated, before DDP sends it
    mean     |ḡ|     read when backward has ended, after the exchange and before any clipping

No collective of its own: each worker writes its own numbers, and the desk puts them together (converge/noise_scale.py).
Only read, never changed; hooks are there in the steps that are looked at, and in no others. Not in timed steps.
"""

from __future__ import annotations

from typing import Any

from paceline_agent.guard import guarded
from paceline_agent.record.recorder import Recorder

_MOST = 5_000
_SAME_GRADIENT = {"fp16_compress_hook", "bf16_compress_hook", "allreduce_hook"}


class Noise:
    """Opens for one step at a time."""

    def __init__(self, recorder: Recorder, *, every: int, first: int) -> None:
        self._recorder = recorder
        self._every, self._first = every, first
        self._handles: list[Any] = []
        self._parameters: list[Any] = []
        self._own: dict[int, Any] = {}
        self._mean: Any = None
        self._found: list[tuple[int, Any, Any]] = []

    @property
    def is_open(self) -> bool:
        return bool(self._handles)

    def step_ended(self, k: int, exchanges: Any, *, world: int) -> None:
        """Keep what step k gave, and open for step k + 1 if it is its turn."""
        if self._handles:
            self._close(k)
        due = self._every > 0 and k >= self._first and (k + 1) % self._every == 0
        if not due or world < 2 or len(exchanges.ddps) != 1 or len(self._found) >= _MOST:
            return
        if exchanges.user_hook is None or exchanges.user_hook in _SAME_GRADIENT:
            self._open(next(iter(exchanges.ddps)))

    def after_backward(self) -> None:
        """The mean over workers; of several backwards in a step the last counts, which alone is exchanged."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if gradients:
            self._mean = _square(_norms(gradients))

    def results(self) -> list[dict[str, Any]]:
        """Lines for the worker's file. On a device this waits for it: the trial is over."""
        return [
            {"record": "gradient", "k": k, "own_square": float(own), "mean_square": float(mean)}
            for k, own, mean in self._found
        ]

    def _open(self, ddp: Any) -> None:
        self._parameters = [p for p in ddp.module.parameters() if p.requires_grad]
        accumulated = guarded(self._recorder, self._accumulated)
        for index, parameter in enumerate(self._parameters):

            def hook(parameter: Any, index: int = index) -> None:
                accumulated(index, parameter)

            self._handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def _accumulated(self, index: int, parameter: Any) -> None:
        self._own[index] = _norms([parameter.grad])[0]

    def _close(self, k: int) -> None:
        for handle in self._handles:
            handle.remove()
        if self._own and self._mean is not None:
            self._found.append((k, _square(list(self._own.values())), self._mean))
        self._handles, self._parameters, self._own, self._mean = [], [], {}, None


def _norms(gradients: list[Any]) -> list[Any]:
    import torch

    with torch.no_grad():
        return [torch.linalg.vector_norm(gradient.detach(), dtype=torch.float32) for gradient in gradients]


def _square(norms: list[Any]) -> Any:
    """The squared norm of the whole; a tensor, still on its device."""
    import torch

    return torch.stack(norms).double().square().sum()
