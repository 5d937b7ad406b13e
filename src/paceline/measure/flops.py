"""Floating-point operations of a step, as every worker counted its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.core.manifest import number
from paceline.records import WorkerRecord

__all__ = ["flops_of"]


def flops_of(workers: Sequence[WorkerRecord]) -> tuple[tuple[str, float], ...]:
    """Operations of all workers in one step, by the type of number; nothing where one of them was not counted."""
    total: dict[str, float] = {}
    for worker in workers:
        counted = worker.manifest.get("flops")
        if not isinstance(counted, Mapping):
            return ()
        for name in counted:
            total[str(name)] = total.get(str(name), 0.0) + (number(counted, name) or 0.0)
    return tuple(sorted(total.items()))
