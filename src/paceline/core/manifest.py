"""What a manifest says of a worker: a number, and the cores that it may use."""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["core_time", "cores_of", "number"]


def cores_of(manifest: Mapping[str, object]) -> int | None:
    """The whole cores that a worker may use, one at least."""
    cores = core_time(manifest)
    return None if cores is None else max(1, int(cores))


def core_time(manifest: Mapping[str, object]) -> float | None:
    """How many cores' time a worker may use: those it may run on, or what its container's quota pays for."""
    cpus, quota = number(manifest, "cpus"), number(manifest, "cpu_quota")
    if cpus is None or cpus < 1:
        return None
    return cpus if quota is None else min(cpus, quota)


def number(mapping: Mapping[str, object], key: str) -> float | None:
    """A number from a manifest, None if it is absent or something else."""
    value = mapping.get(key)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and math.isfinite(value) else None  # type: ignore[arg-type]
