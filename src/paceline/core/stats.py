"""Medians, intervals and steady state.

Intervals are 90% and run over launches: steps inside one launch share its luck (placement, page cache, who else
was on the machine), so they say nothing about the next launch.

    over launches   log-normal t-interval:  exp(mean(log x) ± t(0.95, n-1) · sd(log x) / √n)   for positive x
                    the value itself is the median of the launches
    ratio           independent logs: se² = se_a² + se_b², Welch's degrees of freedom
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median, quantiles

from paceline.core.estimate import Estimate

__all__ = [
    "NINETY",
    "deviation",
    "estimate",
    "estimate_signed",
    "half_width_ratio",
    "log_error",
    "log_spread",
    "lower_median",
    "mad",
    "powered",
    "ratio",
    "ratio_of",
    "scaled",
    "steady_start",
    "t_quantile",
    "welch_degrees",
]

_CONFIDENCE = 0.90
NINETY = 1.645  # standard deviations on either side of nine tenths
_FEWEST_VALUES = 5


def t_quantile(degrees: float) -> float:
    """The factor of a two-sided 90% t-interval with this many degrees of freedom."""
    from scipy.special import stdtrit  # here: it costs 0.2 s, and --help must stay instant

    return float(stdtrit(degrees, 0.5 + _CONFIDENCE / 2))


def welch_degrees(variances: Sequence[float], counts: Sequence[int]) -> float:
    """Of the difference of two means: (v₁ + v₂)² / Σ vᵢ² / (nᵢ - 1), v the squared standard errors; at least 1."""
    below = sum(v**2 / (n - 1) for v, n in zip(variances, counts, strict=True) if n > 1)
    return max(1.0, sum(variances) ** 2 / below) if below > 0 else 1.0


def estimate(launches: Sequence[float]) -> Estimate | None:
    """A positive quantity over launches: median, log-normal 90% interval; no interval from one launch."""
    if not launches:
        return None
    value = median(launches)
    if len(launches) == 1 or min(launches) <= 0.0:
        return estimate_signed(launches)
    centre, error = _log_centre(launches)
    reach = t_quantile(len(launches) - 1) * error
    low, high = math.exp(centre - reach), math.exp(centre + reach)
    return Estimate(value, min(low, value), max(high, value), len(launches))


def estimate_signed(launches: Sequence[float]) -> Estimate | None:
    """The same for a quantity that may be zero or negative: plain t-interval around the mean."""
    if not launches:
        return None
    value, n = median(launches), len(launches)
    if n == 1:
        return Estimate(value, None, None, 1)
    mean = sum(launches) / n
    sd = math.sqrt(sum((x - mean) ** 2 for x in launches) / (n - 1))
    reach = t_quantile(n - 1) * sd / math.sqrt(n)
    return Estimate(value, min(mean - reach, value), max(mean + reach, value), n)


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate | None:
    """Numerator over denominator, two independent groups of launches of positive quantities."""
    if not numerators or not denominators or min(numerators) <= 0 or min(denominators) <= 0:
        return None
    value = median(numerators) / median(denominators)
    n = min(len(numerators), len(denominators))
    if n == 1:
        return Estimate(value, None, None, 1)
    counts = (len(numerators), len(denominators))
    return _welch(value, _log_centre(numerators), _log_centre(denominators), counts)


def ratio_of(numerator: Estimate, denominator: Estimate) -> Estimate:
    """The same from two Estimates of positive quantities, whose intervals tell what the launches said."""
    value, n = numerator.value / denominator.value, min(numerator.n, denominator.n)
    top, bottom = _stated(numerator), _stated(denominator)
    if n == 1 or top is None or bottom is None:
        return Estimate(value, None, None, n)
    return _welch(value, top, bottom, (numerator.n, denominator.n))


def powered(quantity: Estimate, exponent: float) -> Estimate:
    """A positive quantity to a positive power; the interval follows."""
    low = None if quantity.low is None else quantity.low**exponent
    high = None if quantity.high is None else quantity.high**exponent
    return Estimate(quantity.value**exponent, low, high, quantity.n)


def scaled(quantity: Estimate | None, factor: float) -> Estimate | None:
    """The same estimate in another unit (factor > 0)."""
    if quantity is None:
        return None
    low = None if quantity.low is None else quantity.low * factor
    high = None if quantity.high is None else quantity.high * factor
    return Estimate(quantity.value * factor, low, high, quantity.n)


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation that the middle eight tenths tell: one pause in ten steps does not count; None of few."""
    if len(values) < _FEWEST_VALUES:
        return None
    tenths = quantiles(values, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / _tenth_to_tenth(len(values))


def _tenth_to_tenth(count: int) -> float:
    """Standard deviations between the first and the last tenth of so many normal values: 2.56 of many, less of few.

    By the expected order statistics that the last tenth lies between (Blom)."""
    place = 0.9 * (count - 1) + 1.0
    below = min(count - 1, int(place))
    low, high = (NormalDist().inv_cdf((i - 0.375) / (count + 0.25)) for i in (below, below + 1))
    return 2.0 * (low + (place - below) * (high - low))


def half_width_ratio(quantity: Estimate | None) -> float | None:
    """Half the interval over the value: how tight an estimate is. None without an interval."""
    if quantity is None or quantity.low is None or quantity.high is None or quantity.value == 0.0:
        return None
    return (quantity.high - quantity.low) / 2.0 / abs(quantity.value)


def lower_median(values: Sequence[float]) -> float:
    """The middle value; of two middle ones the smaller, so that one late worker of two is not 'typical'."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def mad(values: Sequence[float]) -> float:
    """A robust standard deviation: 1.4826 × the median distance from the median."""
    centre = median(values)
    return 1.4826 * median([abs(x - centre) for x in values])


def log_spread(launches: Sequence[float]) -> float | None:
    """Standard deviation of the logs: how much launches of one point differ, as a ratio."""
    if len(launches) < 2 or min(launches) <= 0:
        return None
    return _log_centre(launches)[1] * math.sqrt(len(launches))


def steady_start(series: Sequence[float], *, at_least: int) -> int:
    """The first index from which a series of step times is steady, not before `at_least`.

    Steady: the median of the next block of five lies within three robust deviations of the second half's median.
    Warm-up steps are only ever slower or faster at the beginning, so the search goes forward and stops half-way.
    """
    n = len(series)
    tail = series[n // 2 :]
    if len(tail) < 5 or at_least >= n:
        return min(at_least, max(0, n - 1))
    centre, spread = median(tail), max(mad(tail), 0.01 * abs(median(tail)))
    for start in range(at_least, n // 2):
        block = series[start : start + 5]
        if abs(median(block) - centre) <= 3.0 * spread:
            return start
    return max(at_least, n // 2)


def log_error(quantity: Estimate) -> float | None:
    """Standard error of the log that a 90% interval over launches states; None without an interval."""
    stated = _stated(quantity)
    return None if stated is None else stated[1]


def _stated(quantity: Estimate) -> tuple[float, float] | None:
    """Centre of the logs and its standard error, read back from the interval."""
    if quantity.low is None or quantity.high is None or quantity.low <= 0 or quantity.n < 2:
        return None
    low, high = math.log(quantity.low), math.log(quantity.high)
    return (low + high) / 2, max(0.0, high - low) / (2 * t_quantile(quantity.n - 1))


def _welch(
    value: float, top: tuple[float, float], bottom: tuple[float, float], counts: tuple[int, int]
) -> Estimate:
    """A quotient with the interval of two means of logs, each with its standard error and its launches."""
    variance, n = top[1] ** 2 + bottom[1] ** 2, min(counts)
    if variance == 0.0:
        return Estimate(value, value, value, n)
    reach = t_quantile(welch_degrees((top[1] ** 2, bottom[1] ** 2), counts)) * math.sqrt(variance)
    centre = top[0] - bottom[0]
    return Estimate(value, min(math.exp(centre - reach), value), max(math.exp(centre + reach), value), n)


def _log_centre(values: Sequence[float]) -> tuple[float, float]:
    """Mean of the logs and its standard error."""
    logs = [math.log(x) for x in values]
    n = len(logs)
    mean = sum(logs) / n
    if n == 1:
        return mean, 0.0
    variance = sum((x - mean) ** 2 for x in logs) / (n - 1)
    return mean, math.sqrt(variance / n)
