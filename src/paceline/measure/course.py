"""The course of one Trial: what each worker used from sample to sample, for a chart against time.

    cores in use between two samples = rise of the CPU seconds / rise of the clock

Of the last complete launch at the largest count. Long courses are thinned evenly; of many workers the first are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from paceline.records import Course, Telemetry, TrialResult

__all__ = ["courses"]

_MOST_SAMPLES = 120
_MOST_DRAWN_WORKERS = 16
_FEWEST = 3


def courses(results: Sequence[TrialResult]) -> tuple[Course, ...]:
    """One Course per worker; empty where no launch was sampled often enough."""
    sampled = [result for result in results if result.state == "ok" and result.telemetry]
    if not sampled:
        return ()
    most = max(result.trial.point.workers for result in sampled)
    last = [result for result in sampled if result.trial.point.workers == most][-1]
    by_rank: dict[int, list[Telemetry]] = {}
    for sample in last.telemetry:
        by_rank.setdefault(sample.rank, []).append(sample)
    found = [_course(last, rank, by_rank[rank]) for rank in sorted(by_rank)[:_MOST_DRAWN_WORKERS]]
    return tuple(course for course in found if course is not None)


def _course(result: TrialResult, rank: int, samples: Sequence[Telemetry]) -> Course | None:
    step = max(1, -(-len(samples) // _MOST_SAMPLES))
    kept = list(samples[::step])
    pairs = [(a, b) for a, b in pairwise(kept) if b.t_s > a.t_s]
    if len(pairs) + 1 < _FEWEST:
        return None
    after = [b for _, b in pairs]
    return Course(
        point=result.trial.point.id,
        trial=result.trial.id,
        worker=rank,
        t_s=tuple(b.t_s - kept[0].t_s for b in after),
        cores=tuple(max(0.0, b.cpu_s - a.cpu_s) / (b.t_s - a.t_s) for a, b in pairs),
        memory_bytes=tuple(b.rss_bytes for b in after),
        gpu_ratio=tuple(b.gpu_ratio for b in after),
        gpu_memory_bytes=tuple(b.gpu_memory_bytes for b in after),
    )
