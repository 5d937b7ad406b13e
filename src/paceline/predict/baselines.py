"""The simple curves that every projection is shown beside, each fitted to the same points. T is the time of fixed work.

last        the same efficiency as at the largest measured count
log-log     log T = a − p log N
amdahl      T = T₁ (s + (1−s)/N)
gustafson   throughput = (s + (1−s) N) / T₁
usl         throughput = N / (1 + σ(N−1) + κ N(N−1)) / T₁
pollux      step = (t^γ + (r + p·(N−2))^γ)^(1/γ) for N ≥ 2
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["METHODS", "baseline_times", "held_out_error"]

Array = NDArray[np.float64]
_MEANINGLESS = 200.0  # in logs: beyond this no time is meant
METHODS = ("last", "log-log", "amdahl", "gustafson", "usl", "pollux")


def baseline_times(
    workers: Sequence[float], work_time: Sequence[float], targets: Sequence[float]
) -> dict[str, list[float] | None]:
    """Time of the fixed work at the targets by every method; None where the points do not determine it."""
    n, t, at = (np.asarray(x, dtype=float) for x in (workers, work_time, targets))
    order = np.argsort(n)
    n, t = n[order], t[order]
    step = t * n
    predicted: dict[str, Array | None] = {
        "last": step[-1] * np.ones_like(at),
        "log-log": _log_log(n, step, at),
        "amdahl": _amdahl(n, step, at),
        "gustafson": _gustafson(n, step, at),
        "usl": _usl(n, step, at),
        "pollux": _pollux(n, step, at),
    }
    return {
        name: None if value is None else [float(x) for x in np.asarray(value) / at]
        for name, value in predicted.items()
    }


def held_out_error(workers: Sequence[float], work_time: Sequence[float]) -> Mapping[str, float | None]:
    """Relative error of every method at the largest count, fitted on the others; None with fewer than 3 counts."""
    largest = max(workers)
    kept = [i for i, n in enumerate(workers) if n < largest]
    out = [i for i, n in enumerate(workers) if n == largest]
    if len({workers[i] for i in kept}) < 2:
        return dict.fromkeys(METHODS, None)
    predicted = baseline_times([workers[i] for i in kept], [work_time[i] for i in kept], [largest])
    truth = math.exp(sum(math.log(work_time[i]) for i in out) / len(out))
    return {name: None if value is None else abs(value[0] / truth - 1.0) for name, value in predicted.items()}


def _log_log(n: Array, step: Array, at: Array) -> Array | None:
    if len(np.unique(n)) < 2:
        return None
    slope, intercept = np.polyfit(np.log(n), np.log(step), 1)
    return np.asarray(np.exp(np.clip(intercept + slope * np.log(at), -_MEANINGLESS, _MEANINGLESS)))


def _amdahl(n: Array, step: Array, at: Array) -> Array | None:
    """step = T₁ (s N + (1−s)): relative least squares with both coefficients kept ≥ 0."""
    if len(np.unique(n)) < 2:
        return None
    found = _nonnegative(np.column_stack([np.ones_like(n), n]) / step[:, None])
    return None if found is None else np.asarray(found[0] + found[1] * at)


def _gustafson(n: Array, step: Array, at: Array) -> Array | None:
    """rate = (s + (1−s) N)/T₁, so N/step is affine in N."""
    found = _nonnegative(np.column_stack([np.ones_like(n), n]) / (n / step)[:, None])
    if found is None or len(np.unique(n)) < 2:
        return None
    return np.asarray(at / (found[0] + found[1] * at))


def _usl(n: Array, step: Array, at: Array) -> Array | None:
    """step = T₁ (1 + σ(N−1) + κ N(N−1)); with two counts κ is not determined."""
    if len(np.unique(n)) < 3:
        return None
    columns = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)])
    found = _nonnegative(columns / step[:, None])
    return None if found is None else np.asarray(found[0] + found[1] * (at - 1) + found[2] * at * (at - 1))


def _pollux(n: Array, step: Array, at: Array) -> Array | None:
    """Grid over γ in [1, 10]; retrogression p needs a third count, else it is 0."""
    if len(np.unique(n)) < 2 or n[0] != 1:
        return None
    alone = float(np.exp(np.mean(np.log(step[n == 1]))))
    several = n >= 2
    beyond = n[several] - 2 if len(np.unique(n[several])) > 1 else np.zeros(several.sum())
    gamma = np.linspace(1.0, 10.0, 37)[:, None]
    sync = np.maximum(step[several] ** gamma - alone**gamma, 0.0) ** (1 / gamma)
    found, *_ = np.linalg.lstsq(np.column_stack([np.ones(several.sum()), beyond]), sync.T, rcond=None)
    rate, growth = np.maximum(found, 0.0)[:, :, None]

    def curves(x: Array) -> Array:
        wait = np.where(x >= 2, rate + growth * (x - 2), 0.0)
        return np.asarray((alone**gamma + wait**gamma) ** (1 / gamma))

    loss = np.sum(np.log(curves(n) / step) ** 2, axis=1)
    best = int(np.argmax(loss <= loss.min() + 1e-12))  # of those that do as well, the smallest γ
    return np.asarray(curves(at)[best])


def _nonnegative(columns: Array) -> Array | None:
    from scipy.optimize import nnls

    try:
        solution, _ = nnls(columns, np.ones(len(columns)))
    except RuntimeError:
        return None
    return np.asarray(solution) if np.any(solution > 0) else None
