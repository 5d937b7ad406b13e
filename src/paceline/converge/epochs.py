"""Accuracy curves -> plateau epoch, noise scale, epochs to a target at another global batch; does accuracy survive?

plateau      P = median of the last 8 epochs; the first epoch at which the rising (isotonic) envelope is within
             ε = max(asked, the sd of the curve's own noise) of P; half a point is asked by default.
             Censored if it still rises ε/2 in the last quarter.
             Interval: residual bootstrap, widened 1.3 times (it covers 79% where it claims 90)
noise scale  φ = tr Σ / |G|², averaged over a training as 1/(B + φ), which is how it costs samples
epochs       E(B) = E₀ (1 + (B/B_c)^p)               p ~ N(0.93, 0.25);  between linear (E constant) and the noise scale
             residuals count (B/B_largest)^0.75
survives     two one-sided tests on the difference of seed means against a margin, Welch's degrees of freedom
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from paceline.core import calibration
from paceline.core.least_squares import minimise
from paceline.core.stats import t_quantile, welch_degrees
from paceline.records import Convergence, Estimate, Setting

__all__ = [
    "Curve",
    "EpochsLaw",
    "Survival",
    "Verdict",
    "accuracy_survives",
    "convergence_of",
    "critical_batch",
    "epochs_law",
    "isotonic",
    "noise_scale",
    "plateau",
]

Array = NDArray[np.float64]
_LAST_EPOCHS = 8
_WIDEN = 1.3
_EPOCHS_MEMBERS = 64


@dataclass(frozen=True, slots=True)
class Curve:
    """Validation accuracy after each epoch of one training; gradient statistics where they were measured."""

    global_batch: int | None
    epochs: tuple[float, ...]
    accuracy: tuple[float, ...]
    gradient_square: tuple[float, ...] = ()  # |G|², the squared norm of the true gradient
    gradient_variance: tuple[float, ...] = ()  # tr Σ, per sample


@dataclass(frozen=True, slots=True)
class EpochsLaw:
    """Samples of (log E₀, log B_c, p), and the batches that stand behind them."""

    theta: Array
    batches: Array
    epochs: Array
    sigma: float

    def at(self, global_batch: Array, *, seed: int) -> Array:
        """Samples of the epochs at each global batch, [samples × batches]."""
        random = np.random.default_rng(seed)
        level, critical, power = (np.exp(self.theta[:, [i]]) for i in range(3))
        farther = np.log2(np.maximum(1.0, global_batch / self.batches.max()))
        noise = random.standard_normal((len(self.theta), 1)) * np.hypot(
            self.sigma, calibration.EPOCHS_BEYOND.value * farther
        )
        return np.asarray(level * (1 + (global_batch / critical) ** power) * np.exp(noise))

    def samples(self, settings: Sequence[Setting], batch_known: bool, *, seed: int) -> Array | None:
        """Samples of the epochs at each setting; None where settings do not say their batch."""
        if not batch_known or not settings or any(s.per_worker_batch is None for s in settings):
            return None
        return self.at(np.array([float(s.workers * (s.per_worker_batch or 1)) for s in settings]), seed=seed)


Verdict = Literal["survives", "worse", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Survival:
    """Whether accuracy is the same within a margin: the verdict, the difference, and the seeds behind it."""

    verdict: Verdict
    difference: Estimate
    margin: float
    text: str


def isotonic(values: Sequence[float]) -> list[float]:
    """The closest rising sequence (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (high, many), (low, few) = blocks[-2], blocks[-1]
            blocks[-2:] = [((high * many + low * few) / (many + few), many + few)]
    return [value for value, count in blocks for _ in range(count)]


def plateau(
    curve: Curve, *, within: float = 0.005, seed: int = 0, samples: int = 200
) -> tuple[Estimate | None, bool]:
    """The epoch at which accuracy became stable, and whether the training ended before it did."""
    accuracy = [float(x) for x in curve.accuracy]
    if len(accuracy) < 4:
        return None, True
    envelope = isotonic(accuracy)
    residual = np.array(accuracy) - np.array(envelope)
    noise = float(np.sqrt(np.mean(residual**2)))
    tolerance = max(within, noise, 1e-9)
    found = _first_stable(accuracy, curve.epochs, tolerance)
    quarter = max(2, len(accuracy) // 4)
    if envelope[-1] - envelope[-quarter] > tolerance / 2 and _still_rising(accuracy, quarter, noise):
        return Estimate(curve.epochs[-1], curve.epochs[-1], None, len(accuracy)), True
    random = np.random.default_rng(seed)
    redrawn = []
    for _ in range(samples):
        again = (
            np.array(envelope) + random.choice(residual, len(residual)) if noise > 0 else np.array(envelope)
        )
        redrawn.append(_first_stable([float(x) for x in again], curve.epochs, tolerance))
    low, high = (float(q) for q in np.quantile(redrawn, [0.05, 0.95]))
    low, high = found - _WIDEN * max(0.0, found - low), found + _WIDEN * max(0.0, high - found)
    return Estimate(found, max(low, curve.epochs[0]), min(high, curve.epochs[-1]), len(accuracy)), False


def noise_scale(square: Sequence[float], variance: Sequence[float], *, batch: float = 1.0) -> Estimate | None:
    """The noise scale that a whole training at this global batch felt; one entry per epoch (or per k steps).

    A batch B needs mean_k (B + φ_k)/(batch + φ_k) times the samples, φ_k = tr Σ_k / |G|²_k, so the scale that counts is
    the one with the same mean of 1/(batch + φ). Epochs without signal (|G|² ≤ 0) have an endless φ and do not break it.
    """
    pairs = [(max(s, 0.0), v) for s, v in zip(square, variance, strict=True) if math.isfinite(s) and v > 0]
    rates = [s / (batch * s + v) for s, v in pairs if math.isfinite(v)]
    if not rates or fmean(rates) <= 0:
        return None
    middle = fmean(rates)
    value = 1.0 / middle - batch
    if value <= 0:
        return None
    if len(rates) < 4:
        return Estimate(value, None, None, len(rates))
    reach = t_quantile(len(rates) - 1) * math.sqrt(_mean_variance(rates)) / middle
    low, high = 1.0 / (middle * math.exp(reach)) - batch, 1.0 / (middle * math.exp(-reach)) - batch
    return Estimate(value, max(low, 0.0), high, len(rates))


def epochs_law(
    curves: Sequence[Curve], plateau_epochs: Mapping[int, float], *, noise: float | None = None, seed: int = 0
) -> EpochsLaw | None:
    """E(B) from the epochs that different global batches needed; None where no batch is known."""
    points = {float(batch): float(epochs) for batch, epochs in plateau_epochs.items()}
    for curve in curves:
        found, censored = plateau(curve)
        if curve.global_batch is not None and found is not None and not censored:
            points.setdefault(float(curve.global_batch), found.value)
    if noise is None:
        known = [s for c in curves if (s := _noise_of(c)) is not None]
        noise = median([s.value for s in known]) if known else None
    return fit_epochs(list(points), list(points.values()), noise=noise, seed=seed) if points else None


def fit_epochs(
    batches: Sequence[float], epochs: Sequence[float], *, noise: float | None = None, seed: int = 0
) -> EpochsLaw:
    """E₀, B_c and p by randomise-then-optimise. Without a noise scale B_c is believed to lie beyond what was run."""
    order = np.argsort(batches)
    batch, target = np.array(batches, dtype=float)[order], np.log(np.array(epochs, dtype=float)[order])
    beyond = calibration.CRITICAL_OF_NOISE if noise else calibration.CRITICAL_UNKNOWN
    level, power = calibration.EPOCHS_SMALL_BATCH, calibration.EPOCHS_POWER
    mean = np.array(
        [float(target.min()), math.log(beyond.value * (noise or batch.max())), math.log(power.value)]
    )
    spread = np.array([level.spread, beyond.spread, power.spread])
    random = np.random.default_rng(seed)
    data_noise = random.standard_normal((_EPOCHS_MEMBERS, len(batch)))
    prior_noise = random.standard_normal((_EPOCHS_MEMBERS, 3))

    least = sigma = calibration.EPOCHS_MISFIT.value
    near = (batch / batch.max()) ** calibration.SMALLER_BATCHES.value

    def law(theta: Array) -> Array:
        level, critical, power = theta[:, [0]], np.exp(theta[:, [1]]), np.exp(theta[:, [2]])
        return np.asarray(level + np.log1p((batch / critical) ** np.minimum(power, 4.0)))

    def residuals(z: Array, which: NDArray[np.intp]) -> Array:
        return np.asarray(near * ((law(mean + spread * z) - target) / sigma - data_noise[which]))

    z, _ = minimise(residuals, np.zeros_like(prior_noise), prior_noise, iterations=40)
    error = np.median(law(mean + spread * z), axis=0) - target
    sigma = math.sqrt((3 * least**2 + float(np.sum(error**2))) / (3 + len(target)))
    z, _ = minimise(residuals, z, prior_noise, iterations=20)
    theta = mean + spread * z
    return EpochsLaw(theta, batch, np.exp(target), sigma)


def convergence_of(curves: Sequence[Curve], law: EpochsLaw | None) -> Convergence | None:
    """What the curves say together: the plateau of the smallest batch, the noise scale, the critical batch."""
    if not curves and law is None:
        return None
    first = min(curves, key=lambda c: c.global_batch or 0, default=None)
    stable, censored = plateau(first) if first is not None else (None, False)
    noise = _noise_of(first) if first is not None else None
    return Convergence(stable, censored, noise, critical_batch(noise, law))


def critical_batch(noise: Estimate | None, law: EpochsLaw | None) -> Estimate | None:
    """Up to which global batch more workers help: from epochs at two and more batches, else from the noise scale."""
    if law is not None and len(law.batches) > 1:
        low, middle, high = (float(q) for q in np.quantile(np.exp(law.theta[:, 1]), [0.05, 0.5, 0.95]))
        return Estimate(middle, low, high, len(law.batches))
    if noise is None:
        return None
    return Estimate(
        calibration.CRITICAL_SAID.value * noise.value,
        noise.low,
        None if noise.high is None else calibration.CRITICAL_SAID_AT_MOST.value * noise.high,
        noise.n,
    )


def accuracy_survives(
    baseline: Sequence[float],
    scaled: Sequence[float],
    *,
    margin: float,
    validation_samples: int | None = None,
) -> Survival:
    """Whether the mean accuracy over seeds at a larger batch lies within the margin of the Baseline's."""
    difference = fmean(scaled) - fmean(baseline)
    seeds = min(len(baseline), len(scaled))
    variances = _mean_variance(baseline), _mean_variance(scaled)
    variance = sum(variances)
    degrees = welch_degrees(variances, (len(baseline), len(scaled)))
    if validation_samples:  # seeds cannot show less noise than the validation set has
        rate = fmean([*baseline, *scaled])
        counted = rate * (1 - rate) / validation_samples * (1 / len(baseline) + 1 / len(scaled))
        if counted >= variance:  # a count of thousands is known better than a spread of few seeds
            variance, degrees = counted, math.inf
    if seeds < 2 and not validation_samples:
        only = Estimate(difference, None, None, seeds)
        return Survival("cannot tell", only, margin, f"cannot tell with {seeds} seed: train at least 3")
    reach = t_quantile(degrees) * math.sqrt(variance)
    low, high = difference - reach, difference + reach
    estimate = Estimate(difference, low, high, seeds)
    if low > -margin:
        return Survival(
            "survives", estimate, margin, f"accuracy survives within {margin:.2%}: {difference:+.2%}"
        )
    if high < -margin:
        return Survival(
            "worse", estimate, margin, f"accuracy falls by {-difference:.2%} ({-high:.2%} to {-low:.2%})"
        )
    needed = max(seeds + 1, math.ceil(seeds * (reach / margin) ** 2)) if margin > 0 else seeds + 1
    return Survival(
        "cannot tell", estimate, margin, f"cannot tell with {seeds} seeds: about {needed} would be needed"
    )


def _noise_of(curve: Curve) -> Estimate | None:
    return noise_scale(curve.gradient_square, curve.gradient_variance, batch=float(curve.global_batch or 1))


def _first_stable(accuracy: Sequence[float], epochs: Sequence[float], tolerance: float) -> float:
    top = median(accuracy[-_LAST_EPOCHS:])
    for epoch, level in zip(epochs, isotonic(accuracy), strict=True):
        if level >= top - tolerance:
            return float(epoch)
    return float(epochs[-1])


def _still_rising(accuracy: Sequence[float], quarter: int, noise: float) -> bool:
    """Whether the last quarter lies above the quarter before it by more than noise."""
    last, before = accuracy[-quarter:], accuracy[-2 * quarter : -quarter]
    if not before:
        return True
    return fmean(last) - fmean(before) > 2 * noise * math.sqrt(2 / quarter) + 1e-12


def _mean_variance(values: Sequence[float]) -> float:
    """Squared standard error of a mean; 0 where one value cannot show one."""
    if len(values) < 2:
        return 0.0
    centre = fmean(values)
    return sum((x - centre) ** 2 for x in values) / (len(values) - 1) / len(values)
