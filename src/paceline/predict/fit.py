"""Measurements -> the law of a step: one ensemble of parameters per structure, and what the data cannot identify.

residuals   (log T_pred − log T)/σ · (exposed share_pred − share)/2σ where known · (θ − prior)/sd
σ           at least 2%; grows until the residuals are explained; repeats add their own. At least 0.2% where buckets
            were seen, gloo sends them over probed links, and launches say how far they scatter (by Student's t)
ensemble    randomise, then optimise: every member perturbs data and prior and is fitted anew
weights     every structure counts the same: few points must not choose the asymptote
unidentified   a parameter whose spread the data did not reduce to below two thirds of what was believed before
"""

from __future__ import annotations

import math
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
from paceline.predict.step_law import NAMES, STRUCTURES, Array, Practice, Structure, log_time, stacked
from paceline.records import Estimate

__all__ = ["MEMBERS", "Law", "Member", "fit_law", "parameters", "unidentified"]

MEMBERS = 24
_WEIGHT_OF_SIGMA = 3.0  # as if so many residuals had been seen at the least σ
_STARTS = np.array(
    [[0.0, 0.0, 0.0, 0.0], [-1.5, 1.5, -1.5, 1.5], [1.5, -1.5, 1.5, -1.5], [-1.5, -1.5, -1.5, -1.5]]
)
_NOT_LEARNT_RATIO = 0.67
_TELLING_COUNTS = 2
_NONE: Array = np.zeros(())  # nothing drawn: the best fit
Indices = NDArray[np.intp]


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
    misfit: float = 0.0  # beyond what is always expected: how far the measurements lie from the best fit

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

    def fitted(structures: Sequence[Structure]) -> tuple[Member, ...]:
        beliefs = [belief(observed, each, inside=inside, between=between) for each in structures]
        each = 2 * members if len(structures) == 1 else members  # one alone has as many as a ring and a tree
        return _fit(observed, structures, beliefs, each, random, own_sd=own_sd, floor=floor)

    found = fitted(structures_for(observed))
    least = min(_misfit(observed, each) for each in found)
    if (
        len(np.unique(observed.workers)) > _TELLING_COUNTS
    ):  # two totals cannot tell one structure from another
        if least > calibration.CANNOT_FIT.value and np.all(observed.nodes == 1):
            turns = fitted([replace(each, one_thing=True) for each in structures_for(observed)])
            found += tuple(each for each in turns if _misfit(observed, each) < least / 2)
            least = min(_misfit(observed, each) for each in found)
        most = max(2.0 * least, calibration.CANNOT_FIT.value)
        found = tuple(each for each in found if _misfit(observed, each) <= most)
    beyond = math.sqrt(max(0.0, least**2 - float(np.mean(own_sd**2)) - calibration.MISFIT.value**2))
    return Law(observed, found, between_probed=probed, misfit=beyond)


def _misfit(observed: Observed, member: Member) -> float:
    """How far the measurements lie from a structure's best fit, root of the mean square of logs."""
    time = log_time(member.theta[:1], measured_rows(observed), member.structure, observed.overlap)[0]
    return float(np.sqrt(np.mean((time[0] - np.log(observed.time_s)) ** 2)))


def _seen(observed: Observed, *, between_probed: bool) -> bool:
    """Whether hooks saw the buckets, gloo sends them, and the links between nodes were probed."""
    return observed.overlap is not None and observed.backend == "gloo" and between_probed


def _few_launches(observed: Observed) -> Array:
    """What makes a normal deviation of Student's t: few launches know little of how far they scatter."""
    times = (time_of(profile, observed.kind) for profile in observed.profiles)
    return np.array([t_quantile(max(1, time.n - 1)) / NINETY for time in times if time is not None])


def structures_for(observed: Observed) -> tuple[Structure, ...]:
    """gloo sends rings and nothing else; NCCL may do either. A slow training may be start-up, or slow steps."""
    found = tuple(s for s in STRUCTURES if not s.tree or observed.backend != "gloo")
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
    structures: Sequence[Structure],
    beliefs: Sequence[Belief],
    members: int,
    random: np.random.Generator,
    *,
    own_sd: Array,
    floor: float,
) -> tuple[Member, ...]:
    """All structures at once, each from several starts, then all their ensembles.

    z: deviations of what was believed, of the parameters that these rows move; the others stay as they are drawn."""
    count, rows, target = len(structures), measured_rows(observed), np.log(observed.time_s)
    mean, sd = (np.array([getattr(each, name) for each in beliefs]) for name in ("mean", "sd"))
    moved = _moved(observed)
    seen = np.isfinite(observed.exposed_ratio)
    exposed = observed.exposed_ratio[seen]
    sigma = np.full(count, floor)

    def law(z: Array, of: Indices) -> tuple[Array, Array]:
        theta = mean[of]
        theta[:, moved] += sd[of][:, moved] * z
        return log_time(theta, rows, stacked(structures, of), observed.overlap)

    def residuals(z: Array, of: Indices, drawn: Array) -> Array:
        (time, share), own = law(z, of), sigma[of][:, None]
        data = (time - target) / np.hypot(own, own_sd) - drawn
        return np.concatenate([data, (share[:, seen] - exposed) / (2 * own)], axis=1)

    def best_from(start: Array) -> Array:
        """[structures × parameters] of [structures × starts × parameters]."""
        of = np.repeat(np.arange(count), start.shape[1])
        flat = start.reshape(len(of), -1)
        z, loss = minimise(lambda z, p: residuals(z, of[p], _NONE), flat, _NONE, iterations=20)
        least = loss.reshape(count, -1).argmin(axis=1)
        return np.asarray(z.reshape(start.shape)[np.arange(count), least])

    best = best_from(_starts(sd)[:, :, moved])
    for again in (True, True, False):
        error = law(best, np.arange(count))[0] - target
        sigma = np.sqrt(
            (_WEIGHT_OF_SIGMA * floor**2 + np.sum(error**2, axis=1)) / (_WEIGHT_OF_SIGMA + len(target))
        )
        sigma *= max(1.0, len(target) / calibration.INDEPENDENT_ROWS.value) ** 0.5
        if again:
            best = best_from(best[:, None])
    data_noise, prior_noise = (_drawn(random, count, members, size) for size in (len(target), mean.shape[1]))
    of = np.repeat(np.arange(count), members)
    drawn, _ = minimise(
        lambda z, p: residuals(z, of[p], data_noise[p]), best[of], prior_noise[:, moved], iterations=8
    )
    z = np.zeros((count, 1 + members, mean.shape[1]))
    z[:, 1:] = prior_noise.reshape(count, members, -1)
    z[:, 0, moved], z[:, 1:, moved] = best, drawn.reshape(count, members, -1)
    theta = mean[:, None] + sd[:, None] * z
    return tuple(
        Member(structure, theta[i], beliefs[i], float(sigma[i])) for i, structure in enumerate(structures)
    )


def _drawn(random: np.random.Generator, count: int, members: int, size: int) -> Array:
    """Normal deviations, each with its opposite: few members, and yet their middle is that of all."""
    half = random.standard_normal((count, -(-members // 2), size))
    return np.concatenate([half, -half], axis=1)[:, :members].reshape(count * members, size)


def _moved(observed: Observed) -> NDArray[np.bool_]:
    """Which parameters these rows move at all."""
    rows = measured_rows(observed)
    neighbours, across, several = rows.per_node > 1, rows.nodes > 1, rows.workers > 1
    where = dict.fromkeys(("x_i", "a_i", "kappa"), neighbours)
    where |= {"x_n": across, "a_n": across, "eta": across & neighbours}
    where |= {"pair": rows.nodes == 2, "gamma": rows.nodes > 2, "cv": several}
    where |= {"omega": several & (observed.overlap is None), "share": rows.batch != 1}
    named = [bool(np.any(where.get(name, True))) for name in NAMES]
    return np.array([*named, *(True for _ in observed.batches)])


def _starts(sd: Array) -> Array:
    """Where a fit begins: at what was believed, at slow and fast links, and at a training that is all start-up."""
    z = np.zeros((len(sd), len(_STARTS), sd.shape[1]))
    z[:, :, :4] = _STARTS * np.minimum(1.0, 1.0 / sd[:, None, :4])
    z[:, -1, NAMES.index("fixed")] = 2.0
    return z
