"""When a number would be a guess: the rules, each with the measurement that would lift it and its price.

more-workers-than-cores  workers that compute on CPU cores would have to share them
not-comparable           speed-up above 1.05 × the worker ratio (1.10 where it ran once): they do not belong together
link-class               the target crosses a kind of link that was never measured nor declared
not-identifiable         one worker count above 1 and no probe: latency and rate cannot be told apart beyond 4×
batch                    a per-worker batch that was not measured, and no neighbours within a factor 1.5; not where
                         the global batch was kept, and would be
horizon                  more than 16 times the largest measured count
failed                   the very setting was tried, and its trials failed
wide-interval            a 90% interval wider than 2×: the interval is shown, no point is claimed
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from paceline.core.units import duration_text, is_wide
from paceline.links.belief import LinkBelief
from paceline.measure.comparable import incomparable
from paceline.predict.observations import Observed, strong_batch
from paceline.records import Profile, Projection, Refusal, Setting

__all__ = [
    "HORIZON",
    "Cores",
    "price_text",
    "refusal",
    "too_wide",
    "tried",
]

HORIZON = 16
_NEIGHBOUR_RATIO = 1.5
_SEPARABLE_RATIO = 4
_PRICED_STEPS, _PRICED_START_S = 40, 60.0


@dataclass(frozen=True, slots=True)
class Cores:
    """The CPU cores of a node whose workers compute on them, and the threads that each worker keeps busy."""

    per_node: int
    per_worker: int = 1

    def suffice(self, workers: int, nodes: int) -> bool:
        """Whether the fullest node has a core for every thread."""
        return ceil(workers / nodes) * self.per_worker <= self.per_node


def refusal(
    observed: Observed,
    setting: Setting,
    *,
    inside: LinkBelief | None = None,
    between: LinkBelief | None = None,
    cores: Cores | None = None,
) -> Refusal | None:
    """Why this setting is not projected, or None where it may be."""
    rules = (
        _more_than_cores(observed, setting, cores),
        _not_comparable(observed, setting),
        _batch(observed, setting),
        _link_class(observed, setting, inside, between),
        _not_identifiable(observed, setting, inside, between),
        _horizon(observed, setting, inside, between),
    )
    return next((found for found in rules if found is not None), None)


def tried(setting: Setting, profiles: Sequence[Profile]) -> Refusal | None:
    """The rule of what was seen: a setting whose trials failed has no time to predict."""
    ended = next((p for p in profiles if p.state not in ("ok", "cancelled") and _is_at(p, setting)), None)
    if ended is None:
        return None
    return Refusal(
        setting.workers,
        "failed",
        f"{setting.workers} workers were tried and ended in state {ended.state}",
        "a smaller batch per worker, or a device with more memory"
        if ended.state == "oom"
        else f"mend what ended {ended.point.id}, then measure it again",
    )


def _is_at(profile: Profile, setting: Setting) -> bool:
    point = profile.point
    unknown = None in (point.per_worker_batch, setting.per_worker_batch)
    alike = unknown or point.per_worker_batch == setting.per_worker_batch
    return alike and (point.workers, point.nodes) == (setting.workers, setting.nodes)


def too_wide(projection: Projection, observed: Observed, *, failed: Container[int] = ()) -> Refusal | None:
    """The interval rule: the projection stands as an order of magnitude, with what would halve it."""
    time = projection.time_s
    if time.low is None or time.high is None or not is_wide(time):
        return None
    middle = _between(int(observed.workers.max()), projection.workers)
    where = " on several nodes" if projection.nodes > 1 else ""
    return Refusal(
        projection.workers,
        "wide-interval",
        f"the 90% interval at {projection.workers} workers spans {time.high / time.low:.1f}x "
        f"({duration_text(time.low)} to {duration_text(time.high)}): too wide for a prediction",
        f"measure {middle} workers{where}: {price_text(observed, middle)}"
        if middle not in failed
        else f"make {middle} workers{where} train: they were tried and failed",
    )


def price_text(observed: Observed, workers: int) -> str:
    """What 40 steps at a count cost, at the pace of the largest measured one."""
    largest = int(np.argmax(observed.workers))
    step = float(observed.time_s[largest] / observed.units[largest])
    wall = _PRICED_START_S + (_PRICED_STEPS * step if observed.absolute else float(observed.time_s[largest]))
    return f"about {duration_text(wall)}, {workers * wall / 3600:.2g} worker-hours"


def _more_than_cores(observed: Observed, setting: Setting, cores: Cores | None) -> Refusal | None:
    if cores is None or cores.suffice(setting.workers, setting.nodes):
        return None
    threads = ceil(setting.workers / setting.nodes) * cores.per_worker
    most = max(1, cores.per_node // cores.per_worker)
    return Refusal(
        setting.workers,
        "more-workers-than-cores",
        f"this machine has {cores.per_node} cores, and each worker keeps {cores.per_worker} busy: "
        f"only {most} fit on a node",
        f"measure {setting.workers} workers on a machine with {threads} cores "
        f"({price_text(observed, setting.workers)}), or declare workers_per_node in a cluster file",
    )


def _not_comparable(observed: Observed, setting: Setting) -> Refusal | None:
    bad = incomparable(observed.profiles)
    same = [
        p for p in bad if not observed.batch_known or p.point.per_worker_batch == setting.per_worker_batch
    ]
    if not same:
        return None
    point, gain = same[0].point, same[0].efficiency_ratio
    return Refusal(
        setting.workers,
        "not-comparable",
        f"{point.workers} workers measured {gain.value if gain else 0:.0%} of a linear speed-up: "
        "the two measurements do not belong together",
        f"repeat {point.workers} workers and its baseline on the same machine and data: "
        f"{price_text(observed, point.workers)}",
    )


def _batch(observed: Observed, setting: Setting) -> Refusal | None:
    if not observed.batch_known:
        return None
    wanted = setting.per_worker_batch
    batches = observed.batches
    if wanted is None or np.any(np.isclose(batches, wanted)):
        return None
    whole = strong_batch(observed)
    if whole is not None and wanted == max(1, round(whole / setting.workers)):
        return None  # its batches were seen to shrink with the workers
    below, above = batches[batches < wanted], batches[batches > wanted]
    if (
        len(below)
        and len(above)
        and above.min() / below.max() <= _NEIGHBOUR_RATIO**2
        and (wanted / below.max() <= _NEIGHBOUR_RATIO and above.min() / wanted <= _NEIGHBOUR_RATIO)
    ):
        return None
    return Refusal(
        setting.workers,
        "batch",
        f"a per-worker batch of {wanted} was not measured (measured: {', '.join(f'{b:g}' for b in batches[:8])}); "
        "step time between batches is not a straight line",
        f"measure 1 worker at a per-worker batch of {wanted}: {price_text(observed, 1)}",
    )


def _link_class(
    observed: Observed, setting: Setting, inside: LinkBelief | None, between: LinkBelief | None
) -> Refusal | None:
    crossed = bool(np.any(observed.nodes > 1))
    if setting.nodes > 1 and not crossed and between is None:
        return Refusal(
            setting.workers,
            "link-class",
            f"{setting.nodes} nodes: no measurement crosses from one node to another, and no link was declared",
            f"measure 2 nodes with 1 worker each ({price_text(observed, 2)}), "
            "probe the links (paceline probe --nodes 2), or declare [links.between] in a cluster file",
        )
    neighbours = bool(np.any(observed.workers > observed.nodes))
    if setting.workers > setting.nodes and not neighbours and inside is None:
        return Refusal(
            setting.workers,
            "link-class",
            f"{setting.workers} workers on {setting.nodes} {'node' if setting.nodes == 1 else 'nodes'}: no measurement "
            "has two workers on one node, and no link was declared",
            f"measure 2 workers on one node ({price_text(observed, 2)}), probe the links (paceline probe), "
            "or declare [links.inside] in a cluster file",
        )
    return None


def _not_identifiable(
    observed: Observed, setting: Setting, inside: LinkBelief | None, between: LinkBelief | None
) -> Refusal | None:
    several = np.unique(observed.workers)
    several = several[several > several.min()] if len(several) > 1 else several[several > 1]
    if len(several) > 1 or inside is not None or between is not None:
        return None
    if len(np.unique(observed.workers)) < 2:
        only = int(observed.workers[0])
        return Refusal(
            setting.workers,
            "not-identifiable",
            f"only {only} {'worker was' if only == 1 else 'workers were'} measured: "
            "one count says nothing about scaling",
            f"measure {2 * only} workers ({price_text(observed, 2 * only)}) or declare the links in a cluster file",
        )
    most = _SEPARABLE_RATIO * int(several[0])
    if setting.workers <= most:
        return None
    return Refusal(
        setting.workers,
        "not-identifiable",
        f"only {int(several[0])} workers were measured beside the baseline. Latency and bandwidth of the links "
        f"cannot be separated, so there is no prediction beyond {most} workers",
        f"measure {2 * int(several[0])} workers ({price_text(observed, 2 * int(several[0]))}) "
        "or probe the links (paceline probe)",
    )


def _horizon(
    observed: Observed, setting: Setting, inside: LinkBelief | None, between: LinkBelief | None
) -> Refusal | None:
    largest = int(observed.workers.max())
    middle = _between(largest, setting.workers)
    limit = HORIZON * (largest if inside is None and between is None else max(4, largest))
    if setting.workers <= limit:
        return None
    return Refusal(
        setting.workers,
        "horizon",
        f"{setting.workers} workers are {setting.workers / largest:.0f} times the largest measured count ({largest}); "
        f"predictions end at {limit}",
        f"measure {middle} workers: {price_text(observed, middle)}",
    )


def _between(measured: int, wanted: int) -> int:
    """A power of two about half-way (in doublings) from what was measured to what is wanted."""
    middle = int(2 ** round(np.log2((measured * wanted) ** 0.5)))
    return middle if measured < middle < wanted else wanted
