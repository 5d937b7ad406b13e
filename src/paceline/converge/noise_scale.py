"""Gradient norms that workers wrote -> noise scale.

Worker i has b samples, all N of them B = N b, and E|g_b|² = |G|² + tr Σ / b:

    S = mean_i |g_i|²       own, batch b            M = |ḡ|²       mean over workers, batch B
    |G|²  = (B M − b S) / (B − b)                   tr Σ = (S − M) / (1/b − 1/B)              φ = tr Σ / |G|²

A ratio of averages, never an average of ratios: both are averaged over blocks of steps first. Along a training φ grows;
which single number stands for a training is said in paceline.converge.epochs.noise_scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from paceline.records import WorkerRecord

__all__ = ["GradientBlocks", "gradient_blocks"]

_BLOCKS = 8
_FEWEST_READINGS = 5  # readings in a block


@dataclass(frozen=True, slots=True)
class GradientBlocks:
    """|G|² and tr Σ (per sample) of one training, averaged over blocks of steps, in order."""

    global_batch: float
    square: tuple[float, ...]
    variance: tuple[float, ...]


def gradient_blocks(workers: Sequence[WorkerRecord]) -> GradientBlocks | None:
    """The blocks of one trial; None where fewer than two workers took readings of the same steps."""
    if len(workers) < 2:
        return None
    by_step = [{norm.k: norm for norm in worker.gradients} for worker in workers]
    shared = sorted(set.intersection(*(set(steps) for steps in by_step)))
    readings = []
    batches = []
    for k in shared:
        norms = [steps[k] for steps in by_step]
        samples = {norm.samples for norm in norms}
        if len(samples) != 1 or None in samples:
            continue  # workers with different batches: their norms have different expectations
        each = float(next(iter(samples)) or 0)
        own, mean = fmean(norm.own_square for norm in norms), fmean(norm.mean_square for norm in norms)
        readings.append(_moments(own, mean, each, each * len(workers)))
        batches.append(each * len(workers))
    if len(readings) < _FEWEST_READINGS:
        return None
    blocks = _cut(readings, min(_BLOCKS, len(readings) // _FEWEST_READINGS))
    return GradientBlocks(
        global_batch=fmean(batches),
        square=tuple(fmean(square for square, _ in block) for block in blocks),
        variance=tuple(fmean(variance for _, variance in block) for block in blocks),
    )


def _moments(own: float, mean: float, each: float, whole: float) -> tuple[float, float]:
    """|G|² and tr Σ, unbiased; of one step either may be negative."""
    return (whole * mean - each * own) / (whole - each), (own - mean) / (1 / each - 1 / whole)


def _cut(readings: list[tuple[float, float]], parts: int) -> list[list[tuple[float, float]]]:
    edges = [round(i * len(readings) / parts) for i in range(parts + 1)]
    return [readings[a:b] for a, b in pairwise(edges)]
