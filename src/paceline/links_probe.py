"""Times of a probe -> Links: latency per hop and bandwidth of a ring, with intervals, and what cannot be told apart.

    all-reduce of n bytes, N workers on M nodes    t = a0 + 2(N−1) α + 2(N−1)/N · n/B        all-gather: half of it
    inside a node      M = 1
    between nodes      hops between nodes 2(M−1) with α of their own; 2(N−M) hops inside cost what the probe inside says

fit            a0, α ≥ 0 and 1/B by least squares on relative residuals of the medians over passes: every size counts
               the same, 1 KB as 100 MB
one count      2(N−1) α and a0 are one number: it is shared out over the hops, and a0 is unidentified
interval       passes are drawn anew (a slow moment hits a whole pass), the fit is repeated; Student's t for few passes

Only all-reduces are fitted where there are any: they are what gradients travel by.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from paceline.errors import UsageError
from paceline.links import LinkBelief, measured
from paceline.probe import OPS, bus_factor, rounds
from paceline.records import Estimate, Link, LinkClass, LinkProbe, Probe, ProbeRow, ProbeTime
from paceline.stats import estimate, t_quantile

__all__ = ["belief_of", "link_from_probe", "link_of", "link_probes", "probe_rows"]

_DRAWS = 200
_RING_SD = 0.02
_GROWTH = 2.0  # sizes that differ by less say nothing about bandwidth
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
            fitted = link_from_probe(times[backend, link], inside=inside, source=source, seed=seed)
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
) -> LinkProbe:
    """The Link behind times of one backend and one class. `inside`: what hops inside a node cost, where it is known."""
    usable = [t for t in times if t.workers > 1 and t.seconds > 0]
    fitted = [t for t in usable if t.op == "all_reduce"] or usable
    sizes = {t.size_bytes for t in fitted}
    if len(sizes) < 2 or max(sizes) < _GROWTH * min(sizes):
        raise UsageError(
            f"a link needs times of sizes that differ at least twofold, {len(sizes)} sizes were given",
            hint="probe a whole sweep: paceline probe",
        )
    keys = sorted({_key(t) for t in fitted})
    passes = _passes(fitted)
    known = 0.0 if inside is None else inside.latency_s.value
    separable = len({_hops(op, n, m) for op, n, m, _ in keys}) > 1
    best = _solved(keys, _medians(passes, keys), known, separable)
    if best[2] <= 0:
        raise UsageError(
            "the times do not grow with the size: bandwidth cannot be told",
            hint="probe larger buffers: --bytes 256MB",
        )
    random = np.random.default_rng(seed)
    drawn = [_solved(keys, _medians(_redrawn(passes, random), keys), known, separable) for _ in range(_DRAWS)]
    latency, fixed, rate = _estimates(best, np.array(drawn), min(len(p) for p in passes.values()))
    largest = max(fitted, key=lambda t: (t.workers, t.nodes))
    vague = latency.low is not None and latency.low <= 0.0
    return LinkProbe(
        link=_class(fitted[0]),
        backend=fitted[0].backend,
        workers=largest.workers,
        nodes=largest.nodes,
        latency_s=latency,
        bytes_per_s=rate,
        fixed_s=fixed if separable else None,
        unidentified=(*(() if separable else ("fixed_s",)), *(("latency_s",) if vague else ())),
        misfit_ratio=_misfit(keys, _medians(passes, keys), known, best),
        source=source,
        rows=probe_rows(usable),
    )


def link_of(probe: LinkProbe) -> Link:
    """The Link as the step law takes it: at the most workers probed, all latency of a call shared out over its hops."""
    hops = _hops("all_reduce", probe.workers, probe.nodes)
    latency = probe.latency_s.value + (0.0 if probe.fixed_s is None else probe.fixed_s.value / hops)
    said = f"probed over {probe.backend} at {probe.workers} workers"
    said += "" if probe.source == "paceline probe" else f", {probe.source}"
    return Link(latency, probe.bytes_per_s.value, probe.link, said)


def belief_of(probe: LinkProbe) -> LinkBelief:
    """What a probe makes one believe: 10 % in rate and 30 % in latency, less sure where passes or sizes disagree.

    Training exchanges while it computes, and a probe does not: no number of passes makes it surer than that. Over
    gloo, which sends rings and nothing else, the rate between 2 nodes was that of 4 to 16 within 2 % (evidence of
    the laboratory); sizes that disagree there do so by latency. Inside a node workers share its cores and memory.
    """
    believed = measured(link_of(probe))
    misfit = probe.misfit_ratio or 0.0
    if probe.backend == "gloo" and probe.link == "between":
        return replace(
            believed,
            bytes_sd=max(_RING_SD, _log_sd(probe.bytes_per_s)),
            latency_sd=min(1.0, max(believed.latency_sd, _log_sd(probe.latency_s), misfit)),
            probed=True,
        )
    return replace(
        believed,
        probed=True,
        bytes_sd=max(believed.bytes_sd, _log_sd(probe.bytes_per_s), misfit),
        latency_sd=min(1.0, max(believed.latency_sd, _log_sd(probe.latency_s), misfit)),
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
    """Half the 90 % interval as a standard deviation of the logarithm."""
    if quantity.high is None or quantity.value <= 0.0:
        return 0.0
    return math.log(quantity.high / quantity.value) / 1.645


Key = tuple[str, int, int, int]  # collective, workers, nodes, bytes
Passes = dict[tuple[int, int], dict[int, dict[Key, list[float]]]]  # launch -> pass -> seconds


def _key(time: ProbeTime) -> Key:
    return time.op, time.workers, time.nodes, time.size_bytes


def _class(time: ProbeTime) -> LinkClass:
    return "inside" if time.nodes == 1 else "between"


def _hops(op: str, workers: int, nodes: int) -> int:
    """Messages that follow one another over the class of Link in question: between nodes where there are several."""
    return rounds(op, workers if nodes == 1 else nodes)


def _passes(times: Sequence[ProbeTime]) -> Passes:
    found: Passes = {}
    for time in times:
        launch = found.setdefault((time.workers, time.nodes), {})
        launch.setdefault(time.repeat, {}).setdefault(_key(time), []).append(time.seconds)
    return found


def _redrawn(passes: Passes, random: np.random.Generator) -> Passes:
    """The same number of passes of every launch, drawn with replacement."""
    found: Passes = {}
    for launch, by_repeat in passes.items():
        names = list(by_repeat)
        drawn = random.integers(0, len(names), len(names))
        found[launch] = {i: by_repeat[names[int(k)]] for i, k in enumerate(drawn)}
    return found


def _medians(passes: Passes, keys: Sequence[Key]) -> Array:
    """Median seconds of every key over passes; NaN where the drawn passes lack it."""
    seen: dict[Key, list[float]] = defaultdict(list)
    for launch in passes.values():
        for rows in launch.values():
            for key, seconds in rows.items():
                seen[key] += seconds
    return np.array([median(seen[key]) if key in seen else math.nan for key in keys])


def _columns(keys: Sequence[Key], known_latency_s: float) -> tuple[Array, Array, Array]:
    """Hops, bytes carried by every link, and the seconds that hops inside nodes take."""
    hops = np.array([_hops(op, n, m) for op, n, m, _ in keys], dtype=float)
    moved = np.array([size * bus_factor(op, n) for op, n, _, size in keys])
    offset = np.array([(rounds(op, n) - _hops(op, n, m)) * known_latency_s for op, n, m, _ in keys])
    return hops, moved, offset


def _solved(keys: Sequence[Key], seconds: Array, known_latency_s: float, separable: bool) -> Array:
    """α, a0, 1/B, none of them negative, by least squares on relative residuals."""
    from scipy.optimize import nnls

    hops, moved, offset = _columns(keys, known_latency_s)
    kept = np.isfinite(seconds)
    parts = [hops, np.ones_like(hops), moved] if separable else [hops, moved]
    weights = seconds[kept]
    scale = np.array([np.median(part[kept] / weights) for part in parts])
    matrix = np.column_stack([part[kept] / weights for part in parts]) / scale
    solution = nnls(matrix, np.maximum(1.0 - offset[kept] / weights, 0.0))[0] / scale
    return solution if separable else np.array([solution[0], 0.0, solution[1]])


def _misfit(keys: Sequence[Key], seconds: Array, known_latency_s: float, best: Array) -> float:
    """Root mean square of the relative residuals: what no repetition removes."""
    hops, moved, offset = _columns(keys, known_latency_s)
    law = offset + best[0] * hops + best[1] + best[2] * moved
    return float(np.sqrt(np.mean((law / seconds - 1.0) ** 2)))


def _estimates(best: Array, drawn: Array, passes: int) -> tuple[Estimate, Estimate, Estimate]:
    """α and a0 with symmetric intervals cut off at zero, B with one symmetric in its logarithm."""
    if passes < 2:
        return Estimate(float(best[0])), Estimate(float(best[1])), Estimate(float(1.0 / best[2]))
    reach = t_quantile(passes - 1)  # medians of drawn passes scatter a little too much already
    found = []
    for i in (0, 1):
        value, half = float(best[i]), reach * float(np.std(drawn[:, i]))
        found.append(Estimate(value, max(0.0, value - half), value + half, passes))
    moving = drawn[drawn[:, 2] > 0, 2]
    half = reach * float(np.std(np.log(moving))) if len(moving) > 1 else math.inf
    value = float(1.0 / best[2])
    rate = Estimate(value, value * math.exp(-half), value * math.exp(half), passes)
    return found[0], found[1], replace(rate, high=None, low=None) if math.isinf(half) else rate
