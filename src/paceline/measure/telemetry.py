"""What the workers of one Trial used while its steps were measured, from samples taken outside them.

cpu_ratio         CPU seconds per second of a node's workers / cores of the node, on the busiest node
gpu_ratio         share of time with a kernel under way, mean over workers (NCCL that waits counts: no proof of compute)
gpu_memory_bytes  the largest worker's
gpu_clock_ratio   clock / highest clock, on the slowest worker: a step is the slowest worker's
power_watts       all devices together, each counted once
throttled_ratio   share of device samples that name a reason for a lowered clock
stopped_ratio     share of the periods of a CPU limit in which it stopped a worker, on the worker most stopped

CPU seconds are a counter, read once or twice a second: its rise over the measured steps is interpolated between the
samples around them. Steps that the samples cover for less than half tell nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from paceline.core.stats import estimate
from paceline.core.units import percent_text
from paceline.records import Estimate, Finding, Point, Telemetry, TrialResult

__all__ = ["Use", "limited", "share_over", "throttling", "use_of", "use_over"]

THROTTLED_RATIO = 0.05
STOPPED_RATIO = 0.1
_FEWEST_PERIODS = 10
_SETTINGS = ("applications_clocks", "display_clocks")  # chosen by somebody, not held back


@dataclass(frozen=True, slots=True)
class Use:
    """What one Trial used over its measured steps; None where nothing was sampled."""

    cpu_ratio: float | None = None
    gpu_ratio: float | None = None
    gpu_memory_bytes: float | None = None
    gpu_clock_ratio: float | None = None
    power_watts: float | None = None
    throttled_ratio: float | None = None
    reasons: tuple[str, ...] = ()  # why clocks were held back, the commonest first
    stopped_ratio: float | None = None


def use_of(result: TrialResult, *, warmup: int, steps: int) -> Use | None:
    """The Use of one Trial; None without samples."""
    windows = _windows(result, warmup=warmup, steps=steps)
    by_rank: dict[int, list[Telemetry]] = defaultdict(list)
    for sample in result.telemetry:
        by_rank[sample.rank].append(sample)
    inside = {
        rank: [s for s in samples if rank in windows and windows[rank][0] <= s.t_s <= windows[rank][1]]
        for rank, samples in by_rank.items()
    }
    if not by_rank:
        return None
    held = [r for samples in inside.values() for s in samples for r in s.throttled if r not in _SETTINGS]
    clocks = _means(inside, lambda s: s.gpu_clock_ratio)
    busy = _means(inside, lambda s: s.gpu_ratio)
    memory = [s.gpu_memory_bytes for samples in inside.values() for s in samples if s.gpu_memory_bytes]
    return Use(
        cpu_ratio=_cpu_ratio(by_rank, windows),
        gpu_ratio=fmean(busy) if busy else None,
        gpu_memory_bytes=float(max(memory)) if memory else None,
        gpu_clock_ratio=min(clocks) if clocks else None,
        power_watts=_power_watts(inside),
        throttled_ratio=_throttled_ratio(inside),
        reasons=tuple(reason for reason, _ in Counter(held).most_common()),
        stopped_ratio=max((r for s in inside.values() if (r := _stopped_ratio(s)) is not None), default=None),
    )


def use_over(uses: Sequence[Use], quantity: Callable[[Use], float | None]) -> Estimate | None:
    """One quantity over the launches that know it."""
    return estimate([value for use in uses if (value := quantity(use)) is not None])


def share_over(uses: Sequence[Use], quantity: Callable[[Use], float | None]) -> Estimate | None:
    """The same of a share, whose interval ends at 1."""
    found = use_over(uses, quantity)
    if found is None or found.high is None:
        return found
    return replace(found, high=min(1.0, found.high))


def throttling(point: Point, uses: Sequence[Use]) -> Iterator[Finding]:
    """Devices that held their clocks back while steps were measured."""
    shares = [use.throttled_ratio for use in uses if use.throttled_ratio is not None]
    if shares and max(shares) > THROTTLED_RATIO:
        reasons = dict.fromkeys(reason for use in uses for reason in use.reasons)
        yield Finding(
            "throttled",
            "doubt",
            f"a device held its clock back in {percent_text(max(shares))} of the samples of a run "
            f"({', '.join(reasons)}): the step times are those of a slower device",
            value=max(shares),
            threshold=THROTTLED_RATIO,
            hint="look at cooling and power limits (nvidia-smi -q -d PERFORMANCE), then repeat",
            point=point.id,
        )


def limited(point: Point, uses: Sequence[Use]) -> Iterator[Finding]:
    """Workers that their CPU limit stopped while steps were measured."""
    shares = [use.stopped_ratio for use in uses if use.stopped_ratio is not None]
    if shares and max(shares) > STOPPED_RATIO:
        yield Finding(
            "cpu-limit",
            "note",
            f"a CPU limit stopped a worker in {percent_text(max(shares))} of the limit's periods. "
            "While it stands still, all others wait for it",
            value=max(shares),
            threshold=STOPPED_RATIO,
            hint="raise the limit (docker --cpus, resources.limits.cpu, --cpu of a laboratory), or take fewer threads",
            point=point.id,
        )


def _windows(result: TrialResult, *, warmup: int, steps: int) -> dict[int, tuple[float, float]]:
    """When each worker's measured steps began and ended, on its node's clock."""
    windows = {}
    for worker in result.workers:
        measured = [s for s in worker.samples if warmup < s.k <= warmup + steps]
        if measured:
            windows[worker.rank] = (measured[0].end_s - measured[0].step_s, measured[-1].end_s)
    return windows


def _cpu_ratio(
    by_rank: Mapping[int, Sequence[Telemetry]], windows: Mapping[int, tuple[float, float]]
) -> float | None:
    """The share of its cores in use on the busiest node; None unless every sampled worker is known."""
    per_node: dict[int, float] = defaultdict(float)
    for rank, samples in by_rank.items():
        used = _cores_used(samples, windows[rank]) if rank in windows else None
        if used is None:
            return None
        per_node[samples[0].node] += used / samples[0].node_cores
    return min(1.0, max(per_node.values()))


def _cores_used(samples: Sequence[Telemetry], window: tuple[float, float]) -> float | None:
    begin, end = max(window[0], samples[0].t_s), min(window[1], samples[-1].t_s)
    if end - begin < 0.5 * (window[1] - window[0]) or end <= begin:
        return None
    return max(0.0, _cpu_at(samples, end) - _cpu_at(samples, begin)) / (end - begin)


def _cpu_at(samples: Sequence[Telemetry], t_s: float) -> float:
    """CPU seconds at a moment between two samples, on the straight line between them."""
    after = next((i for i, sample in enumerate(samples) if sample.t_s >= t_s), len(samples) - 1)
    if after == 0:
        return samples[0].cpu_s
    left, right = samples[after - 1], samples[after]
    share = (t_s - left.t_s) / (right.t_s - left.t_s) if right.t_s > left.t_s else 1.0
    return left.cpu_s + share * (right.cpu_s - left.cpu_s)


def _stopped_ratio(samples: Sequence[Telemetry]) -> float | None:
    """Of a limit's periods between the first and the last sample, those in which it stopped the worker."""
    known = [(s.periods, s.stopped_periods) for s in samples if s.periods is not None]
    if not known:
        return None
    (first, stopped_then), (last, stopped) = known[0], known[-1]
    if last - first < _FEWEST_PERIODS or stopped is None or stopped_then is None:
        return None
    return (stopped - stopped_then) / (last - first)


def _means(
    inside: Mapping[int, Sequence[Telemetry]], quantity: Callable[[Telemetry], float | None]
) -> list[float]:
    """The mean of each worker that has the quantity."""
    known = [[v for s in samples if (v := quantity(s)) is not None] for samples in inside.values()]
    return [fmean(values) for values in known if values]


def _power_watts(inside: Mapping[int, Sequence[Telemetry]]) -> float | None:
    """Two workers on one device see the same power: it is counted once."""
    watts: dict[tuple[int, str], list[float]] = defaultdict(list)
    for rank, samples in inside.items():
        for s in samples:
            if s.power_watts is not None:
                watts[s.node, s.device or f"of worker {rank}"].append(s.power_watts)
    return sum(fmean(values) for values in watts.values()) if watts else None


def _throttled_ratio(inside: Mapping[int, Sequence[Telemetry]]) -> float | None:
    seen = [s for samples in inside.values() for s in samples if s.gpu_ratio is not None]
    held = [s for s in seen if any(reason not in _SETTINGS for reason in s.throttled)]
    return len(held) / len(seen) if seen else None
