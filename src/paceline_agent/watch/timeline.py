"""When each gradient bucket is ready: a hook on every parameter, only in the few steps after the measured ones.

Seconds count from the beginning of the step. Medians over the profiled steps.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter, time
from typing import Any, Optional


class Timeline:
    """Opens after the last measured step, closes before the trial ends."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._on_device = False
        self._began: Optional[float] = None
        self._ready: dict[int, float] = {}
        self._wall_minus_perf = 0.0
        self._backward_end: Optional[float] = None
        self._steps: list[tuple[dict[int, float], Optional[float]]] = []
        self._buckets: list[tuple[int, list[int]]] = []
        self._names: list[str] = []

    def open(self, ddp: Any, *, on_device: bool) -> None:
        """Hook every parameter of this DDP. On a device, times on the host say when work was queued, not done:
        there the timeline is not taken."""
        if on_device:
            return
        self._buckets = bucket_parameters(ddp)
        if not self._buckets:
            return
        self._wall_minus_perf = time() - perf_counter()
        for index, parameter in enumerate(p for p in ddp.module.parameters() if p.requires_grad):
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._hook(index)))

    @property
    def is_open(self) -> bool:
        return bool(self._handles)

    def _hook(self, index: int) -> Any:
        ready = self._ready

        def gradient_ready(_parameter: Any) -> None:
            ready[index] = perf_counter()

        return gradient_ready

    def after_backward(self, stamps: Optional[tuple[float, float]]) -> None:
        if self._handles and stamps is not None:
            self._backward_end = stamps[1] - self._wall_minus_perf

    def step_ended(self, now: float) -> None:
        if not self._handles:
            return
        if self._began is not None and self._ready:
            began = self._began
            end = None if self._backward_end is None else self._backward_end - began
            self._steps.append(({index: at - began for index, at in self._ready.items()}, end))
        self._ready.clear()
        self._began = now

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def result(self) -> Optional[dict[str, Any]]:
        """Per bucket its bytes and when it was ready; None where nothing was profiled."""
        if not self._steps:
            return None
        buckets: list[list[float]] = []
        for size, parameters in self._buckets:
            times = [
                max(ready[i] for i in parameters)
                for ready, _ in self._steps
                if all(i in ready for i in parameters)
            ]
            if not times:
                return None
            buckets.append([size, median(times)])
        ends = [end for _, end in self._steps if end is not None]
        return {
            "buckets": buckets,
            "backward_end_s": median(ends) if ends else None,
            "steps": len(self._steps),
        }


def bucket_parameters(ddp: Any) -> list[tuple[int, list[int]]]:
    """DDP's buckets after it has rebuilt them: bytes, and the numbers of the parameters in each."""
    texts = ddp.logger._get_ddp_logging_data().strs_map
    sizes = [int(x) for x in texts.get("rebuilt_bucket_sizes", "").replace(",", " ").split()]
    groups = [
        [int(x) for x in group.split()]
        for group in texts.get("rebuilt_per_bucket_param_indices", "").split(",")
    ]
    return list(zip(sizes, groups)) if len(sizes) == len(groups) else []
