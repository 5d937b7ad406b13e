"""Times of a probe -> Links: latency per hop and bandwidth of a ring, with intervals, and what cannot be told apart.

    all-reduce of n bytes, N workers on M nodes    t = a0 + 2(N−1) α + 2(N−1)/N · n/B        all-gather: half of it
    inside a node      M = 1
    between nodes      hops between nodes 2(M−1) with α of their own; 2(N−M) hops inside cost what the probe inside says

fit            least squares on relative residuals of the medians over passes, nothing negative: B from sizes of 64 KB
               and more, then a0 and α from all sizes at that B: a latency that varies must not bend the bandwidth,
               nor must links that let the first bytes pass at once (a token bucket's burst): t may begin below zero.
               Over gloo α from the smallest size alone: its rings hide latency under movement in all larger ones
one count      2(N−1) α and a0 are one number: it is shared out over the hops, and a0 is unidentified
too small      where even the largest size is mostly latency, the best bus bandwidth seen is a lower bound of B, and B
               is unidentified
interval       passes are drawn anew (a slow moment hits a whole pass), the fit is repeated; Student's t for few passes

Only all-reduces are fitted where there are any: they are what gradients travel by.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from paceline.core import calibration
from paceline.core.errors import UsageError
from paceline.core.stats import NINETY, estimate, t_quantile
from paceline.links.belief import LinkBelief, measured
from paceline.links.probe import OPS, rounds
from paceline.measure.waiting import bus_factor
from paceline.records import BesideTime, Estimate, Link, LinkClass, LinkProbe, Probe, ProbeRow, ProbeTime

__all__ = ["belief_of", "link_from_probe", "link_of", "link_probes", "probe_rows"]

_DRAWS = 200
_LEAST_MOVING_SHARE = 0.3  # of the largest all-reduce that must be movement, or only a lower bound is known
_DISAGREE_RATIO = 4.0  # between the ends of an interval: passes disagree
_UNKNOWN_RATE_SD = 1.0  # of the logarithm: a factor of e, about as good as not knowing
_FARTHEST_LOG = 20.0  # logarithms: a drawn bandwidth so far off counts as that
_MOVING_BYTES, _FEWEST_SIZES = 65_536, 3  # what tells bandwidth, where the sweep reaches so far
_BURST_COLUMN = 3  # the column of what a link lets pass at once
_LEAST_SIZE_RATIO = 2.0  # sizes that differ by less say nothing about bandwidth
Array = NDArray[np.float64]


def link_probes(probes: Sequence[Probe], *, seed: int = 0) -> tuple[LinkProbe, ...]:
    """Every class of Link that was probed, by backend, inside first; sizes that do not allow a fit are passed over."""
    times: dict[tuple[str, LinkClass], list[ProbeTime]] = defaultdict(list)
    sources: dict[tuple[str, LinkClass], list[str]] = defaultdict(list)
    for probe in probes:
        for time in probe.times:
            if time.workers > 1:
                key = (time.backend, _class(time))
                times[key].append(time)
                sources[key].append(probe.source)
    found: dict[tuple[str, LinkClass], LinkProbe] = {}
    for backend, link in sorted(times, key=lambda key: (key[0], key[1] != "inside")):
        source = ", ".join(dict.fromkeys(sources[backend, link]))
        inside = found.get((backend, "inside"))
        try:
            fitted = link_from_probe(
                times[backend, link],
                inside=inside,
                source=source,
                seed=seed,
                beside=[b for p in probes for b in p.beside if (b.backend, _class(b)) == (backend, link)],
            )
        except UsageError:
            continue
        found[backend, link] = fitted
    return tuple(found.values())


def link_from_probe(
    times: Sequence[ProbeTime],
    *,
    inside: LinkProbe | None = None,
    source: str = "paceline probe",
    seed: int = 0,
    beside: Sequence[BesideTime] = (),
) -> LinkProbe:
    """The Link behind times of one backend and one class. `inside`: what hops inside a node cost, where it is known."""
    usable = [t for t in times if t.workers > 1 and t.seconds > 0]
    fitted = [t for t in usable if t.op == "all_reduce"] or usable
    sizes = {t.size_bytes for t in fitted}
    if len(sizes) < 2 or max(sizes) < _LEAST_SIZE_RATIO * min(sizes):
        raise UsageError(
            f"a link needs times of sizes that differ at least twofold, {len(sizes)} sizes were given",
            hint="probe a whole sweep: paceline probe",
        )
    keys = sorted({_key(t) for t in fitted})
    passes = _passes(fitted, keys)
    hides = fitted[0].backend == "gloo"
    law = _columns(keys, 0.0 if inside is None else inside.latency_s.value, hides=hides)
    middle = _middle(np.concatenate(passes))
    best = _solved(law, middle)
    drawn = np.array([_solved(law, seconds) for seconds in _redrawn(passes, np.random.default_rng(seed))])
    n = min(len(launch) for launch in passes)
    latency, fixed = _latency(best[0], drawn[:, 0], n), _latency(best[1], drawn[:, 1], n)
    rate = _rate(best[2], drawn[:, 2], n)
    largest = max(fitted, key=lambda t: (t.workers, t.nodes))
    rows = probe_rows(usable)
    unknown = [] if law.separable else ["fixed_s"]
    if latency.low is not None and latency.low <= 0.0:
        unknown.append("latency_s")
    if rate is None or _hidden(law, best, rate):
        unknown.append("bytes_per_s")
        seen = max((row.bus_bytes_per_s for row in rows), key=lambda bus: bus.value)
        rate = replace(seen, high=None)
    return LinkProbe(
        link=_class(fitted[0]),
        backend=fitted[0].backend,
        workers=largest.workers,
        nodes=largest.nodes,
        latency_s=latency,
        bytes_per_s=rate,
        fixed_s=fixed if law.separable else None,
        unidentified=tuple(unknown),
        misfit_ratio=_misfit(law, middle, best),
        source=source,
        rows=rows,
        cores_s_per_byte=_cores_s_per_byte(fitted),
        busy_hop_s=_busy_hop_s(beside),
    )


def link_of(probe: LinkProbe) -> Link:
    """The Link as the step law takes it: at the most workers probed, all latency of a call shared out over its hops."""
    hops = _hops("all_reduce", probe.workers, probe.nodes)
    latency = probe.latency_s.value + (0.0 if probe.fixed_s is None else probe.fixed_s.value / hops)
    said = f"probed over {probe.backend} at {probe.workers} workers"
    said += "" if probe.source in ("", "paceline probe") else f", {probe.source}"
    return Link(latency, probe.bytes_per_s.value, probe.link, said)


def belief_of(probe: LinkProbe) -> LinkBelief:
    """What a probe makes one believe: 10% in rate and 30% in latency, less sure where passes or sizes disagree.

    Training exchanges while it computes, and a probe does not: no number of passes makes it surer than that. Over
    gloo, which sends rings and nothing else, rate and latency between 2 nodes were those of 4 to 16 (evidence of
    the laboratory); sizes that disagree there do so because they hide latency. Inside a node workers share its cores
    and memory.
    """
    believed = measured(link_of(probe))
    misfit = probe.misfit_ratio or 0.0
    rate_sd, latency_sd = max(believed.bytes_sd, misfit), max(believed.latency_sd, misfit)
    if probe.backend == "gloo" and probe.link == "between":
        rate_sd, latency_sd = calibration.RING_RATE.spread, calibration.RING_LATENCY.spread
    known = "bytes_per_s" not in probe.unidentified
    return replace(
        believed,
        bytes_sd=max(rate_sd, _log_sd(probe.bytes_per_s)) if known else _UNKNOWN_RATE_SD,
        latency_sd=min(1.0, max(latency_sd, _log_sd(probe.latency_s))),
        probed=known,
        cores_s_per_byte=probe.cores_s_per_byte,
        busy_hop_s=None if probe.busy_hop_s is None else probe.busy_hop_s.value,
    )


def _cores_s_per_byte(times: Sequence[ProbeTime]) -> float | None:
    """What carrying a byte takes of a node's cores: the median over sizes that move, where that was timed."""
    moving = [t for t in times if t.size_bytes >= _MOVING_BYTES] or times
    known = [
        t.cores_s / (t.size_bytes * bus_factor(t.op, t.workers)) for t in moving if t.cores_s is not None
    ]
    return median(known) if known else None


def _busy_hop_s(beside: Sequence[BesideTime]) -> Estimate | None:
    """By how much a hop takes longer beside computing: every pass by itself, the mean over its sizes; none gains."""
    passes: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    for time in beside:
        hops = _hops("all_reduce", time.workers, time.nodes)
        passes[time.workers, time.nodes, time.repeat].append((time.computing_s - time.waiting_s) / hops)
    found = estimate([fmean(longer) for longer in passes.values()])
    if found is None:
        return None
    return replace(
        found,
        value=max(0.0, found.value),
        low=None if found.low is None else max(0.0, found.low),
        high=None if found.high is None else max(0.0, found.high),
    )


def probe_rows(times: Sequence[ProbeTime]) -> tuple[ProbeRow, ...]:
    """Time and bus bandwidth of every collective at every size, over passes."""
    groups: dict[tuple[str, int, int, int], list[float]] = defaultdict(list)
    for time in times:
        groups[_key(time)].append(time.seconds)
    found = []
    for key in sorted(groups, key=lambda k: (OPS.index(k[0]) if k[0] in OPS else len(OPS), *k[1:])):
        op, workers, nodes, size = key
        seconds = estimate(groups[key])
        if seconds is not None:
            moved = size * bus_factor(op, workers)
            bus = Estimate(
                moved / seconds.value,
                None if seconds.high is None else moved / seconds.high,
                None if seconds.low is None else moved / seconds.low,
                seconds.n,
            )
            found.append(ProbeRow(op, workers, nodes, size, seconds, bus))
    return tuple(found)


def _log_sd(quantity: Estimate) -> float:
    """Half the 90% interval as a standard deviation of the logarithm."""
    if quantity.high is None or quantity.value <= 0.0:
        return 0.0
    return math.log(quantity.high / quantity.value) / NINETY


def _hidden(law: _Law, best: Array, rate: Estimate) -> bool:
    """Whether latency hides the bandwidth: even the largest size hardly moves, or passes disagree about it."""
    moved = float(law.moved.max() * best[2])
    waits = float(best[1] + law.hops.max() * best[0])
    wide = rate.low is not None and rate.high is not None and rate.high > _DISAGREE_RATIO * rate.low
    return moved < _LEAST_MOVING_SHARE * (moved + waits) or wide


Key = tuple[str, int, int, int]  # collective, workers, nodes, bytes


def _key(time: ProbeTime) -> Key:
    return time.op, time.workers, time.nodes, time.size_bytes


def _class(time: ProbeTime | BesideTime) -> LinkClass:
    return "inside" if time.nodes == 1 else "between"


def _hops(op: str, workers: int, nodes: int) -> int:
    """Messages that follow one another over the class of Link in question: between nodes where there are several."""
    return rounds(op, workers if nodes == 1 else nodes)


@dataclass(frozen=True, slots=True)
class _Law:
    """t = offset + hops · α + a0 + moved / B, one entry for each collective and size."""

    hops: Array
    moved: Array  # bytes that every link carries
    offset: Array  # seconds that hops inside nodes take
    sizes: Array
    separable: bool
    hides: bool  # whether larger sizes hide their latency


def _columns(keys: Sequence[Key], known_latency_s: float, *, hides: bool) -> _Law:
    hops = np.array([_hops(op, n, m) for op, n, m, _ in keys], dtype=float)
    inside = np.array([rounds(op, n) for op, n, _, _ in keys]) - hops
    return _Law(
        hops=hops,
        moved=np.array([size * bus_factor(op, n) for op, n, _, size in keys]),
        offset=inside * known_latency_s,
        sizes=np.array([size for _, _, _, size in keys], dtype=float),
        separable=len(set(hops)) > 1,
        hides=hides,
    )


def _passes(times: Sequence[ProbeTime], keys: Sequence[Key]) -> list[Array]:
    """For every launch its passes, [passes × keys], NaN where a pass lacks a key."""
    place = {key: i for i, key in enumerate(keys)}
    launches: dict[tuple[int, int], dict[tuple[int, int], Array]] = defaultdict(dict)
    seen: dict[tuple[Key, int], int] = defaultdict(int)
    for time in times:
        again = seen[_key(time), time.repeat]  # a second probe of the same count is further passes
        seen[_key(time), time.repeat] += 1
        rows = launches[time.workers, time.nodes]
        row = rows.setdefault((again, time.repeat), np.full(len(keys), math.nan))
        row[place[_key(time)]] = time.seconds
    return [np.array(list(rows.values())) for rows in launches.values()]


def _redrawn(passes: Sequence[Array], random: np.random.Generator) -> Array:
    """Medians over passes that are drawn with replacement, as many of every launch as it has, [draws × keys]."""
    drawn = [launch[random.integers(0, len(launch), (_DRAWS, len(launch)))] for launch in passes]
    return _middle(np.concatenate(drawn, axis=1).swapaxes(0, 1))


def _middle(values: Array) -> Array:
    """The median along the first axis of what is not NaN; NaN where nothing is."""
    ordered = np.sort(values, axis=0)  # NaN comes last
    count = np.sum(np.isfinite(values), axis=0)
    low, high = (count - 1) // 2, count // 2
    picked = [np.take_along_axis(ordered, np.maximum(at, 0)[None], axis=0)[0] for at in (low, high)]
    return np.asarray((picked[0] + picked[1]) / 2)


def _solved(law: _Law, seconds: Array) -> Array:
    """α, a0, 1/B: the bandwidth from sizes that move, the latencies from all sizes at that bandwidth."""
    kept, alike = np.isfinite(seconds), np.ones_like(law.hops)
    whole, target = np.column_stack([law.hops, alike, law.moved, -alike]), seconds - law.offset
    free = [0, 1, 2] if law.separable else [0, 2]
    large = kept & (law.sizes >= _MOVING_BYTES)
    if len(set(law.sizes[large])) < _FEWEST_SIZES:
        return _relative(whole, target, seconds, kept, free)[:3]
    rate = _relative(whole, target, seconds, large, [*free, _BURST_COLUMN])[2]
    telling = kept & (law.sizes == law.sizes[kept].min()) if law.hides else kept
    latencies = _relative(whole, target - rate * law.moved, seconds, telling, free[:-1])
    return np.array([latencies[0], latencies[1], rate])


def _relative(whole: Array, target: Array, seconds: Array, kept: NDArray[np.bool_], free: list[int]) -> Array:
    """The coefficients of the `free` columns, none negative, by least squares on residuals relative to `seconds`."""
    from scipy.optimize import nnls

    matrix = whole[kept][:, free] / seconds[kept, None]
    scale = np.abs(matrix).max(axis=0)  # columns of at most one: nnls stops at a tolerance of its own
    found = np.zeros(whole.shape[1])
    found[free] = nnls(matrix / scale, np.maximum(target[kept] / seconds[kept], 0.0))[0] / scale
    return found


def _misfit(law: _Law, seconds: Array, best: Array) -> float:
    """Root mean square of the relative residuals: what no repetition removes."""
    fitted = law.offset + best[0] * law.hops + best[1] + best[2] * law.moved
    return float(np.sqrt(np.mean((fitted / seconds - 1.0) ** 2)))


def _latency(best: float, drawn: Array, passes: int) -> Estimate:
    """α or a0 with a symmetric interval, cut off at zero."""
    if passes < 2:
        return Estimate(float(best))
    half = t_quantile(passes - 1) * _spread(
        drawn
    )  # medians of drawn passes scatter a little too much already
    return Estimate(float(best), max(0.0, float(best) - half), float(best) + half, passes)


def _rate(best: float, drawn: Array, passes: int) -> Estimate | None:
    """B from 1/B, with an interval symmetric in its logarithm; None where time does not grow with size."""
    if best <= 0:
        return None
    value = float(1.0 / best)
    if passes < 2:
        return Estimate(value)
    half = t_quantile(passes - 1) * _spread(np.log(np.maximum(drawn, best * math.exp(-_FARTHEST_LOG))))
    return Estimate(value, value * math.exp(-half), value * math.exp(half), passes)


def _spread(drawn: Array) -> float:
    """A standard deviation from the middle nine tenths: one wild pass, drawn often, must not make it."""
    low, high = (float(q) for q in np.quantile(drawn, [0.05, 0.95]))
    return (high - low) / (2 * NINETY)
