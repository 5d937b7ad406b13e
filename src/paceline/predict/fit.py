"""Measurements -> the law of a step: one ensemble of parameters per structure, and what the data cannot identify.

residuals   (log T_pred − log T)/σ · (exposed share_pred − share)/2σ where known · (θ − prior)/sd
σ           at least 2%; grows until the residuals are explained; repeats add their own. At least 0.2% where buckets
            were seen, gloo sends them over probed links, and launches say how far they scatter (by Student's t)
ensemble    randomise, then optimise: every member perturbs data and prior and is fitted anew
weights     every structure counts the same: few points must not choose the asymptote
unidentified   a parameter whose spread the data did not reduce to below two thirds of what was believed before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from paceline.core import calibration
from paceline.core.least_squares import minimise
from paceline.core.stats import NINETY, t_quantile
from paceline.links.belief import LinkBelief
from paceline.predict.observations import Observed, measured_rows, time_of
from paceline.predict.prior import Belief, belief
from paceline.predict.step_law import NAMES, STRUCTURES, Array, Practice, Structure, log_time
from paceline.records import Estimate

__all__ = ["MEMBERS", "Law", "Member", "fit_law", "parameters", "unidentified"]

MEMBERS = 24
_WEIGHT_OF_SIGMA = 3.0  # as if so many residuals had been seen at the least σ
_STARTS = np.array(
    [[0.0, 0.0, 0.0, 0.0], [-1.5, 1.5, -1.5, 1.5], [1.5, -1.5, 1.5, -1.5], [-1.5, -1.5, -1.5, -1.5]]
)
_NOT_LEARNT_RATIO = 0.67


@dataclass(frozen=True, slots=True)
class Member:
    """One structure: its best parameters first, then its ensemble."""

    structure: Structure
    theta: Array  # [1 + members × parameters]
    prior: Belief
    sigma: float


@dataclass(frozen=True, slots=True)
class Law:
    """The fitted mixture of one series."""

    observed: Observed
    members: tuple[Member, ...]
    practice: Practice = field(default_factory=Practice)
    between_probed: bool = False  # whether the links between nodes were probed over this backend

    @property
    def seen(self) -> bool:
        """Whether nothing of an exchange between nodes is left to guess."""
        return _seen(self.observed, between_probed=self.between_probed)


def fit_law(
    observed: Observed,
    *,
    inside: LinkBelief | None = None,
    between: LinkBelief | None = None,
    members: int = MEMBERS,
    seed: int = 0,
) -> Law:
    """The law that these measurements support, every structure fitted apart."""
    random = np.random.default_rng(seed)
    probed = between is not None and between.probed
    own_sd, floor = observed.own_sd, calibration.MISFIT.value
    if _seen(observed, between_probed=probed) and bool(np.all(own_sd > 0)):
        own_sd, floor = own_sd * _few_launches(observed), calibration.MISFIT_SEEN.value
    fitted = []
    for structure in structures_for(observed):
        prior = belief(observed, structure, inside=inside, between=between)
        fitted.append(_fit(observed, structure, prior, members, random, own_sd=own_sd, floor=floor))
    return Law(observed, tuple(fitted), between_probed=probed)


def _seen(observed: Observed, *, between_probed: bool) -> bool:
    """Whether hooks saw the buckets, gloo sends them, and the links between nodes were probed."""
    return observed.overlap is not None and observed.backend == "gloo" and between_probed


def _few_launches(observed: Observed) -> Array:
    """What makes a normal deviation of Student's t: few launches know little of how far they scatter."""
    times = (time_of(profile, observed.kind) for profile in observed.profiles)
    return np.array([t_quantile(max(1, time.n - 1)) / NINETY for time in times if time is not None])


def structures_for(observed: Observed) -> tuple[Structure, ...]:
    """gloo sends rings and nothing else; NCCL may do either. A slow training may be start-up, or slow steps."""
    found = tuple(s for s in STRUCTURES if s.algorithm == "ring" or observed.backend != "gloo")
    if observed.kind in ("epoch", "job"):
        return tuple(replace(s, start_up=start_up) for start_up in (True, False) for s in found)
    return found


def parameters(law: Law) -> dict[str, Estimate]:
    """The parameters with a meaning of their own, over the whole mixture."""
    pooled = np.concatenate([member.theta[1:] for member in law.members])
    crossed = bool(np.any(law.observed.nodes > 1))
    found: dict[str, Estimate] = {}
    for name, (label, kind) in _SHOWN.items():
        if name in ("x_n", "a_n", "eta") and not crossed:
            continue
        if name == "fixed" and law.observed.kind in ("step", "sample"):
            continue
        raw = pooled[:, NAMES.index(name)]
        if name == "t_ref":  # only its product with the deviation of its own batch is seen
            raw = raw + pooled[:, len(NAMES) + len(law.observed.batches) // 2]
        values = 1.0 / (1.0 + np.exp(-raw)) if kind == "unit" else np.exp(raw)
        low, middle, high = (float(q) for q in np.quantile(values, [0.05, 0.5, 0.95]))
        found[label] = Estimate(middle, low, high, len(law.observed.time_s))
    return found


def unidentified(law: Law) -> tuple[str, ...]:
    """Names of the parameters about which the data say little more than was believed before."""
    learnt: dict[str, list[float]] = {}
    shown = parameters(law)
    for member in law.members:
        for name, (label, _) in _SHOWN.items():
            if label in shown:
                i = NAMES.index(name)
                learnt.setdefault(label, []).append(float(np.std(member.theta[1:, i])) / member.prior.sd[i])
    return tuple(label for label, ratios in learnt.items() if float(np.median(ratios)) > _NOT_LEARNT_RATIO)


_SHOWN = {
    "x_i": ("exchange_inside_node_s", "value"),
    "a_i": ("latency_inside_node_s", "value"),
    "x_n": ("exchange_between_nodes_s", "value"),
    "a_n": ("latency_between_nodes_s", "value"),
    "kappa": ("host_dilation_ratio", "value"),
    "omega": ("overlap_ratio", "unit"),
    "eta": ("network_sharing_ratio", "value"),
    "cv": ("step_variation_ratio", "value"),
    "fixed": ("fixed_s", "value"),
    "t_ref": ("compute_alone_s", "value"),
}


def _fit(
    observed: Observed,
    structure: Structure,
    prior: Belief,
    members: int,
    random: np.random.Generator,
    *,
    own_sd: Array,
    floor: float,
) -> Member:
    rows = measured_rows(observed)
    target = np.log(observed.time_s)
    seen = np.isfinite(observed.exposed_ratio)
    exposed = observed.exposed_ratio[seen]
    data_noise = np.vstack([np.zeros(len(target)), random.standard_normal((members, len(target)))])
    prior_noise = np.vstack([np.zeros(len(prior.mean)), random.standard_normal((members, len(prior.mean)))])

    def residuals(sigma: float, theta: Array, which: Sequence[int] | NDArray[np.intp]) -> Array:
        time, share = log_time(theta, rows, structure, observed.overlap)
        spread = np.sqrt(sigma**2 + own_sd**2)
        parts = [
            (time - target) / spread - data_noise[which],
            (theta - prior.mean) / prior.sd - prior_noise[which],
        ]
        if len(exposed):
            parts.append((share[:, seen] - exposed) / (2 * sigma))
        return np.concatenate(parts, axis=1)

    sigma = floor
    start = np.tile(prior.mean, (len(_STARTS), 1))
    start[:, :4] += _STARTS * np.minimum(prior.sd[:4], 1.0)
    start[-1, NAMES.index("fixed")] += 2.0 * prior.sd[NAMES.index("fixed")]  # perhaps it is all start-up
    for _ in range(3):
        found, loss = minimise(lambda t, _w, s=sigma: residuals(s, t, [0] * len(t)), start, iterations=40)  # type: ignore[misc]
        best = found[[int(loss.argmin())]]
        error: Array = log_time(best, rows, structure, observed.overlap)[0][0] - target
        sigma = float(
            np.sqrt((_WEIGHT_OF_SIGMA * floor**2 + np.sum(error**2)) / (_WEIGHT_OF_SIGMA + len(target)))
        )
        sigma *= max(1.0, len(target) / calibration.INDEPENDENT_ROWS.value) ** 0.5
        start[0] = best[0]
    theta, _ = minimise(lambda t, w: residuals(sigma, t, w), np.tile(best, (members + 1, 1)), iterations=12)
    return Member(structure, theta, prior, sigma)
