"""Profiles over worker counts: what a step costs at each Point, speed-up and efficiency against the Baseline.

    throughput_per_s = samples of all workers per step / step_s
    speedup          = throughput / throughput of the Baseline
    efficiency_ratio = speedup / (workers / workers of the Baseline)

A Baseline is the Point with the fewest workers of the same series: same scaling, same backend, same varied flags, and
the same per-worker batch (weak) or global batch (strong).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from paceline.core.stats import estimate, estimate_signed, ratio, scaled
from paceline.measure.buckets import timeline
from paceline.measure.memory import largest
from paceline.measure.split import split
from paceline.measure.telemetry import Use, share_over, use_of, use_over
from paceline.records import Estimate, Point, Profile, Scaling, Split, State, TrialResult

__all__ = ["Launches", "curve", "launches"]

_WORST_FIRST: tuple[State, ...] = (
    "oom",
    "diverged",
    "crashed",
    "hung",
    "timeout",
    "short",
    "damaged",
    "cancelled",
)


@dataclass(frozen=True, slots=True)
class Launches:
    """All Trials of one Point: their results, and the Splits of those that gave one."""

    point: Point
    results: tuple[TrialResult, ...]
    splits: tuple[Split, ...]
    uses: tuple[Use, ...] = ()  # what those that were sampled used


def launches(
    points: Sequence[Point], results: Sequence[TrialResult], *, warmup: int, steps: int
) -> tuple[Launches, ...]:
    """Results grouped by Point, in the order of the plan; the batch that was really seen filled in.

    One worker of weak scaling and one of strong scaling at the same batch are two Points with the same launches.
    """
    groups = []
    launched_as = {point.id: point.launched_as for point in points}
    alike: dict[object, list[TrialResult]] = {}
    for result in results:
        alike.setdefault(launched_as.get(result.trial.point.id), []).append(result)
    for point in points:
        own = tuple(alike.get(point.launched_as, ()))
        found = [split(r, warmup=warmup, steps=steps) for r in own if r.state in ("ok", "diverged")]
        splits = tuple(s for s in found if s is not None)
        used = [use_of(r, warmup=warmup, steps=steps) for r in own if r.state == "ok"]
        uses = tuple(use for use in used if use is not None)
        groups.append(Launches(_with_seen_batch(point, splits), own, splits, uses))
    return _with_detected_scaling(groups)


def curve(groups: Sequence[Launches]) -> tuple[Profile, ...]:
    """One Profile per Point, with speed-up and efficiency wherever its series has a Baseline."""
    return tuple(_with_speedup(_profile(group), group, _baseline(group, groups)) for group in groups)


def _profile(group: Launches) -> Profile:
    state, reason = _state(group)
    splits = group.splits
    if not splits:
        return Profile(group.point, state, reason, trials=len(group.results))
    middle = _middle(splits)
    seen = next((s for s in (*middle, *splits) if s.buckets), middle[0])
    return Profile(
        point=group.point,
        state=state,
        reason=reason,
        trials=len(splits),
        step_s=estimate([s.step_s for s in splits]),
        compute_s=_part(_positive([s.compute_s for s in splits]), [s.compute_s for s in middle]),
        exposed_s=_part(_from_zero([s.exposed_s for s in splits]), [s.exposed_s for s in middle]),
        wire_s=_part(_from_zero([s.wire_s for s in splits]), [s.wire_s for s in middle]),
        straggle_s=_part(_from_zero([s.straggle_s for s in splits]), [s.straggle_s for s in middle]),
        bubble_s=_part(_from_zero([s.bubble_s for s in splits]), [s.bubble_s for s in middle]),
        hidden_s=_part(_from_zero([s.hidden_s for s in splits]), [s.hidden_s for s in middle]),
        input_s=_part(_from_zero([s.input_s for s in splits]), [s.input_s for s in middle]),
        optimizer_s=_part(_positive([s.optimizer_s for s in splits]), [s.optimizer_s for s in middle]),
        throughput_per_s=estimate(_throughputs(group)) if _throughputs(group) else None,
        tokens_per_s=_positive([s.tokens_per_step / s.step_s if s.tokens_per_step else None for s in splits]),
        exchanged_bytes_per_step=_from_zero([s.exchanged_bytes_per_step for s in splits]),
        bus_bytes_per_s=_positive([_bus_rate(s) for s in splits]),
        peak_memory_bytes=_positive(
            [None if s.peak_memory_bytes is None else float(s.peak_memory_bytes) for s in splits]
        ),
        overhead_s=_positive([s.overhead_s for s in splits]),
        buckets=seen.buckets,
        backward_end_s=seen.backward_end_s,
        bucket_cap_bytes=seen.bucket_cap_bytes,
        cpu_ratio=share_over(group.uses, lambda use: use.cpu_ratio),
        gpu_ratio=share_over(group.uses, lambda use: use.gpu_ratio),
        gpu_memory_bytes=use_over(group.uses, lambda use: use.gpu_memory_bytes),
        gpu_clock_ratio=share_over(group.uses, lambda use: use.gpu_clock_ratio),
        power_watts=use_over(group.uses, lambda use: use.power_watts),
        throttled_ratio=_from_zero([use.throttled_ratio for use in group.uses]),
        own_s_by_worker=_own_s_by_worker(splits),
        step_noise_s=_from_zero([s.step_noise_s for s in splits]),
        timeline=timeline(seen.buckets, seen.busy_s),
        flops_per_step=_positive([sum(count for _, count in s.flops) or None for s in splits]),
        strategy=middle[0].strategy,
        replicas=middle[0].replicas,
        memory=largest(s.memory for s in splits),
    )


def _middle(splits: Sequence[Split]) -> tuple[Split, ...]:
    """The launch whose step is the median, or the two around it."""
    ordered = sorted(splits, key=lambda part: part.step_s)
    return tuple(ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1])


def _part(over: Estimate | None, middle: Sequence[float | None]) -> Estimate | None:
    """A part of the step as the launch of the median step has it, so that parts add up; the interval is over launches.

    The medians of parts, each from another launch, may be far from adding up where launches differ."""
    known = [value for value in middle if value is not None]
    if over is None or len(known) < len(middle):
        return over
    value = fmean(known)
    low, high = (
        None if edge is None else pick(edge, value) for edge, pick in ((over.low, min), (over.high, max))
    )
    return Estimate(value, low, high, over.n)


def _own_s_by_worker(splits: Sequence[Split]) -> tuple[float, ...]:
    """Each worker's own time per step: the median over launches, worker by worker."""
    own = [part.own_s_by_worker for part in splits if part.compute_s is not None]
    if not own or len({len(times) for times in own}) > 1:
        return ()
    return tuple(median(times) for times in zip(*own, strict=True))


def _with_speedup(profile: Profile, group: Launches, baseline: Launches | None) -> Profile:
    if baseline is None or not group.splits or not baseline.splits:
        return profile
    more = group.point.workers / baseline.point.workers
    if group is baseline:
        n = len(group.splits)
        return replace(
            profile, speedup=Estimate(1.0, 1.0, 1.0, n), efficiency_ratio=Estimate(1.0, 1.0, 1.0, n)
        )
    if _throughputs(group) and _throughputs(baseline):
        speedup = ratio(_throughputs(group), _throughputs(baseline))
    elif (
        group.point.scaling == "weak"
    ):  # nobody saw the batch: the same per worker by definition of weak scaling
        speedup = scaled(ratio([s.step_s for s in baseline.splits], [s.step_s for s in group.splits]), more)
    else:
        speedup = ratio([s.step_s for s in baseline.splits], [s.step_s for s in group.splits])
    return replace(profile, speedup=speedup, efficiency_ratio=scaled(speedup, 1.0 / more))


def _baseline(group: Launches, groups: Sequence[Launches]) -> Launches | None:
    same = [g for g in groups if g.point.series == group.point.series and g.splits]
    return min(same, key=lambda g: g.point.workers, default=None)


def _throughputs(group: Launches) -> list[float]:
    """Samples per second of each launch; the planned batch stands in where the loader could not be seen."""
    planned = group.point.global_batch
    totals = [s.samples_per_step if s.samples_per_step is not None else planned for s in group.splits]
    return [t / s.step_s for t, s in zip(totals, group.splits, strict=True) if t]


def _bus_rate(part: Split) -> float | None:
    """Bus bandwidth as nccl-tests defines it: what a link carries over the time that communication took."""
    if not part.bus_bytes_per_step or not part.busy_s or part.busy_s <= 0:
        return None
    return part.bus_bytes_per_step / part.busy_s


def _state(group: Launches) -> tuple[State, str | None]:
    """The state of a Point: ok if any launch gave a split; else the most telling failure."""
    bad = [r for r in group.results if r.state != "ok"]
    if any(r.state == "ok" for r in group.results) and group.splits:
        return "ok", f"{len(bad)} of {len(group.results)} runs failed: {bad[0].reason}" if bad else None
    for state in _WORST_FIRST:
        for result in bad:
            if result.state == state:
                return state, result.reason
    if group.results:
        last = max((w.samples[-1].k for r in group.results for w in r.workers if w.samples), default=0)
        return "short", f"the script ended after {last} steps, too few beyond the warm-up: lower --warmup"
    return "cancelled", "not run"


def _with_seen_batch(point: Point, splits: Sequence[Split]) -> Point:
    """The point with the batch that its steps consumed: where none was asked for, where what was asked for is one of
    several micro-steps, and where workers share one."""
    seen = Counter((s.global_batch, s.per_worker_batch) for s in splits if s.global_batch is not None)
    if not seen:
        return point
    (whole, each), _ = seen.most_common(1)[0]
    asked, micro = point.per_worker_batch, splits[0].micro_steps
    if asked is None or each == asked * micro:
        return replace(point, per_worker_batch=each, global_batch=whole)
    spread = any(s.replicas is not None and s.replicas < point.workers for s in splits)
    return replace(point, global_batch=whole) if spread else point


def _with_detected_scaling(groups: Sequence[Launches]) -> tuple[Launches, ...]:
    """A script that keeps its global batch while workers grow scales strongly, whatever was asked for."""
    alike: dict[object, list[Launches]] = {}
    for group in groups:
        if group.results and group.splits and group.point.scaling == "weak":
            asked = group.results[0].trial.point.per_worker_batch
            alike.setdefault(
                (group.point.backend, group.point.varied, group.point.variant, asked), []
            ).append(group)
    found = [group for same in alike.values() if _keep_their_batch(same) for group in same]
    strong: Scaling = "strong"
    return tuple(replace(g, point=replace(g.point, scaling=strong)) if g in found else g for g in groups)


def _keep_their_batch(groups: Sequence[Launches]) -> bool:
    totals = {group.splits[0].global_batch for group in groups}
    return len({group.point.workers for group in groups}) > 1 and len(totals) == 1 and None not in totals


def _from_zero(values: Sequence[float | None]) -> Estimate | None:
    """A quantity that may be zero and is never negative, over launches."""
    known = [value for value in values if value is not None]
    found = estimate_signed(known) if len(known) == len(values) else None
    if found is None or found.low is None:
        return found
    return replace(found, low=max(0.0, found.low))


def _positive(values: Sequence[float | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return estimate(known) if len(known) == len(values) else None
