"""Failures and checkpoints at scale.

    M        = hours between failures of one worker / N
    interval = √(2 C M)                                            Young
    wall per interval of work = M e^{R/M} (e^{(τ+C)/M} − 1)        Daly;  goodput = τ / that

C: seconds to write a checkpoint, R: seconds to restart. The rate of one worker is a Gamma belief of shape 4 around a
published fleet (Llama 3: 419 unexpected interruptions, 16,384 H100, 54 days), wide because another fleet was six
times worse; a user's own failures update it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

from paceline.core import calibration
from paceline.records import Estimate

__all__ = [
    "Checkpointing",
    "checkpoint_interval_s",
    "failure_rate",
    "goodput_ratio",
]


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """How long a checkpoint blocks training, and how long a restart takes."""

    write_s: float = 60.0
    restart_s: float = 600.0


def failure_rate(*, failures: int = 0, worker_hours: float = 0.0) -> Estimate:
    """Failures per worker-hour: the published belief, updated with one's own record (Gamma-Poisson)."""
    from scipy.special import gammaincinv

    known = 1.0 / calibration.FAILURES.spread**2
    shape = known + failures
    exposure = known * calibration.FAILURES.value + worker_hours
    low, middle, high = (float(gammaincinv(shape, q)) / exposure for q in (0.05, 0.5, 0.95))
    return Estimate(middle, low, high, failures)


def checkpoint_interval_s(workers: int, plan: Checkpointing, *, rate_per_hour: float) -> float:
    """Seconds of work between checkpoints that waste the least (Young)."""
    return sqrt(2.0 * plan.write_s * _between_failures_s(workers, rate_per_hour))


def goodput_ratio(workers: int, plan: Checkpointing, *, rate_per_hour: float) -> float:
    """Share of the time that moves training forward, at the best interval; 0 where failures outrun restarts."""
    mean = _between_failures_s(workers, rate_per_hour)
    interval = checkpoint_interval_s(workers, plan, rate_per_hour=rate_per_hour)
    exponent = (interval + plan.write_s) / mean
    if exponent > 500 or plan.restart_s / mean > 500:
        return 0.0
    return interval / (mean * exp(plan.restart_s / mean) * (exp(exponent) - 1.0))


def _between_failures_s(workers: int, rate_per_hour: float) -> float:
    return 3600.0 / (rate_per_hour * workers)
