"""Accuracy as a measured axis: the Goal of a study, what workers said while they trained, and what came of it.

A configuration is a Point; a seed is one Trial of it. paceline.records offers these too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from paceline.core.estimate import Estimate
from paceline.records.state import State

__all__ = ["AccuracyCurve", "Comparison", "Convergence", "Goal", "GradientNorm", "Mark"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What every training of a study is to reach, and when it gives up."""

    target: float | None = None  # None: every training goes to its last epoch
    metric: str | None = None  # a name, or a pattern with one group for what the script prints; None: found
    rises: bool = True  # whether more of it is better
    epochs: int | None = None  # most passes over the data; None: the script's own end
    seeds: int | None = None  # every repeat is a seed; None: the script's own
    train_samples: int | None = None  # in one pass, where it is known: for the price
    data: str | None = None  # what is learned from, as the workload says it


@dataclass(frozen=True, slots=True)
class Mark:
    """One metric at one moment: after step k, at this second of the worker's clock."""

    name: str
    value: float
    k: int
    end_s: float


@dataclass(frozen=True, slots=True)
class GradientNorm:
    """Squared norms of the gradient at step k: of this worker's own samples, and of the mean over all workers."""

    k: int
    own_square: float
    mean_square: float
    samples: int | None  # of this worker


@dataclass(frozen=True, slots=True)
class AccuracyCurve:
    """One training: a configuration (a Point), a seed, and its metric after every evaluation."""

    point: str  # id of the Point
    trial: str
    seed: int
    state: State
    epochs: tuple[float, ...]  # of a script, its n-th evaluation
    wall_s: tuple[float, ...]  # seconds since its first step
    metric: tuple[float, ...]
    epochs_to_target: float | None = None
    time_to_target_s: float | None = None
    trial_s: float | None = None  # from its launch to its end: start-up, data and all

    def __post_init__(self) -> None:
        if not all(map(isfinite, self.epochs)):
            raise ValueError(f"an epoch of {self.trial} has no number")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One configuration over its seeds. Estimates without `high` are censored: some seed never came so far."""

    point: str  # id of the Point
    workers: int
    per_worker_batch: int | None
    global_batch: int | None
    lr_rule: str | None
    warmup_epochs: float | None
    traits: tuple[str, ...]  # what sets it apart, in words: its workers, batch, rule, warm-up, own flags
    seeds: int
    reached: int
    diverged: int
    failed: int  # other than diverged
    time_to_target_s: Estimate | None
    epochs_to_target: Estimate | None
    spent_s: float | None  # by the longest training that did not reach the target
    metric: Estimate | None  # the best of each seed
    plateau_epoch: Estimate | None
    plateau_censored: bool
    epoch: float | None  # the last epoch that every training has: where the next two compare
    difference: Estimate | None  # of the metric against the first configuration; better is positive
    survives: Literal["survives", "worse", "cannot tell"] | None
    noise_scale: Estimate | None
    beside: tuple[tuple[str, Estimate], ...] = ()  # every other metric, as each seed said it last

    @property
    def label(self) -> str:
        """2 workers, global batch 128, sqrt rule."""
        return ", ".join(self.traits)


@dataclass(frozen=True, slots=True)
class Convergence:
    """What accuracy curves say: where they plateau, and up to which global batch more workers help.

    Of a study to an accuracy also every curve, and every configuration over its seeds, the fastest first.
    """

    plateau_epoch: Estimate | None = None
    censored: bool = False
    noise_scale: Estimate | None = None
    critical_global_batch: Estimate | None = None
    metric: str | None = None
    rises: bool = True
    target: float | None = None
    epochs: int | None = None  # the budget of every training
    curves: tuple[AccuracyCurve, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
