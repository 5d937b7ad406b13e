"""What holds a Point back, and what measuring itself cost there. Launches -> Findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from paceline.core.units import bytes_text, duration_text, percent_text
from paceline.measure.bottleneck import input_wait_s, slower_computing_s
from paceline.measure.profiles import Launches
from paceline.records import Finding, Profile

__all__ = ["agent_troubles", "limits", "shorter_computing", "slower_computing"]

INPUT_RATIO = 0.10
WIRE_RATIO = 0.15
STRAGGLE_RATIO = 0.10
SLOWER_RATIO = 0.10
SHORTER_RATIO = 0.70
OVERHEAD_RATIO = 0.01
OVERHEAD_S = 1e-4
_EXPLAINING_RATIO = 0.5  # of a lag: what explains this share of it is its cause


def limits(group: Launches, profile: Profile) -> Iterator[Finding]:
    """What holds this Point back."""
    point, step = group.point, profile.step_s
    if step is None:
        return
    if profile.straggle_s and profile.straggle_s.value > STRAGGLE_RATIO * step.value:
        kind, who, hint = _late(group)
        yield Finding(
            kind,
            "note",
            f"{duration_text(profile.straggle_s.value)} of each {duration_text(step.value)} step are spent "
            f"waiting for the slowest worker; {who}",
            value=profile.straggle_s.value,
            threshold=STRAGGLE_RATIO * step.value,
            hint=hint,
            point=point.id,
        )
    if profile.input_s and profile.input_s.value > INPUT_RATIO * step.value:
        yield Finding(
            "input-bound",
            "note",
            f"{percent_text(profile.input_s.value / step.value)} of each step is waiting for data",
            value=profile.input_s.value / step.value,
            threshold=INPUT_RATIO,
            hint="more data-loader workers, or cheaper decoding; more workers make this worse",
            point=point.id,
        )
    if profile.wire_s and profile.wire_s.value > WIRE_RATIO * step.value:
        rate = profile.bus_bytes_per_s
        payload = profile.exchanged_bytes_per_step
        moved = f"{bytes_text(payload.value) if payload else 'unknown bytes'} per step"
        if rate:
            moved += f", bus bandwidth {bytes_text(rate.value)}/s"
        yield Finding(
            "wire-bound",
            "note",
            f"{percent_text(profile.wire_s.value / step.value)} of each step is waiting for the network ({moved}). "
            "A faster network can win back at most that",
            value=profile.wire_s.value / step.value,
            threshold=WIRE_RATIO,
            hint="a larger batch per worker, gradient accumulation with no_sync, or compressed communication",
            point=point.id,
        )


def _late(group: Launches) -> tuple[str, str, str]:
    """The kind of lateness, who is late and why, as far as it was seen, and what to look at."""
    named = [part for part in group.splits if part.slowest_worker is not None]
    if len(named) * 2 <= len(group.splits):
        hint = "look at what disturbs them: other processes, uneven samples"
        return "straggler", "now one, now another: none stands out", hint
    workers = [part.slowest_worker for part in named]
    rank = max(set(workers), key=workers.count)
    runs = f"{workers.count(rank)} of {len(group.splits)} run{'s' if len(group.splits) > 1 else ''}"
    who = f"worker {rank} stands out in {runs}"
    by_data = [
        part.slowest_input_s
        for part in named
        if part.slowest_input_s
        and part.slowest_lag_s
        and part.slowest_input_s > _EXPLAINING_RATIO * part.slowest_lag_s
    ]
    if len(by_data) * 2 > len(named):
        waits = duration_text(median(by_data))
        why = f"{who}: it waits {waits} longer for its data"
        return "late-data", why, "more data-loader workers, or cheaper decoding"
    return "straggler", who, "look at that worker's host: other processes, clocks, its share of the data"


def slower_computing(profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Where the same work on every worker takes longer than on the fewest: they share cores, caches, memory, power."""
    for profile in profiles:
        alike = [p for p in profiles if p.point.series == profile.point.series and p.compute_s]
        base = min(alike, key=lambda p: p.point.workers, default=None)
        longer_s = None if base is None else slower_computing_s(base, profile)
        step = profile.step_s
        if base is None or base.compute_s is None or profile.compute_s is None or step is None:
            continue
        if longer_s is not None and longer_s > SLOWER_RATIO * step.value:
            yield Finding(
                "slower-computing",
                "note",
                f"computing takes {duration_text(profile.compute_s.value)} of a step, "
                f"{duration_text(base.compute_s.value)} at {base.point.id}: "
                "the workers of a machine share its cores, caches, memory and power",
                value=longer_s / step.value,
                threshold=SLOWER_RATIO,
                hint="leave cores free, fewer workers on a machine, or another machine",
                point=profile.point.id,
            )


def shorter_computing(profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Where the same work on every worker seems to take much less computing than on the fewest: it cannot.

    A device that runs behind its host computes while the host already waits: part of the wait is computing.
    """
    for profile in profiles:
        alike = [p for p in profiles if p.point.series == profile.point.series and p.compute_s]
        base = min(alike, key=lambda p: p.point.workers, default=None)
        if base is None or base.compute_s is None or profile.compute_s is None:
            continue
        if slower_computing_s(base, profile) is None or base.point.workers == profile.point.workers:
            continue
        most, least = profile.compute_s.high, base.compute_s.low
        most = profile.compute_s.value if most is None else most
        least = base.compute_s.value if least is None else least
        if most - input_wait_s(profile) < SHORTER_RATIO * (least - input_wait_s(base)):
            yield Finding(
                "split-contradicts",
                "doubt",
                f"computing seems to take {duration_text(profile.compute_s.value)} of a step, and "
                f"{duration_text(base.compute_s.value)} at {base.point.id} with the same batch per worker: "
                "the step could not be split reliably",
                value=profile.compute_s.value / base.compute_s.value,
                threshold=SHORTER_RATIO,
                hint="trust the whole step, not its parts; a larger batch per worker helps",
                point=profile.point.id,
            )


def agent_troubles(group: Launches, profile: Profile) -> Iterator[Finding]:
    """The agent's own cost and troubles."""
    cost, step = profile.overhead_s, profile.step_s
    if cost and step and cost.value > max(OVERHEAD_S, OVERHEAD_RATIO * step.value):
        yield Finding(
            "agent-overhead",
            "doubt",
            f"measuring itself took {duration_text(cost.value)} of each {duration_text(step.value)} step",
            value=cost.value,
            threshold=max(OVERHEAD_S, OVERHEAD_RATIO * step.value),
            hint="longer steps (a larger batch) have less of it; on a busy machine it holds what others took",
            point=group.point.id,
        )
    problems = {
        str(text)
        for r in group.results
        for w in r.workers
        if isinstance(listed := w.manifest.get("problems"), list)
        for text in listed
    }
    for problem in sorted(problems)[:3]:
        yield Finding(
            "measuring-problem",
            "doubt",
            f"{problem}",
            point=group.point.id,
        )
