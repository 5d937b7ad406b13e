"""Profiles -> what memory the settings would take that were not measured, or that ran out of it; largest batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.core.units import bytes_text
from paceline.decide.largest_batch import Tried, largest, safe_batch, smallest_failed
from paceline.measure.memory import fullest
from paceline.measure.profiles import curve, launches
from paceline.measure.split import split
from paceline.measure.strategy import strategies
from paceline.plan.trials import points_of
from paceline.predict.memory import Known, forecast, known_of, others
from paceline.records import LargestBatch, MemoryForecast, Point, Profile, Study, TrialResult

__all__ = ["known_memory", "largest_batches", "memory_outlook", "tried_at", "unfit"]

_MOST = 24
_SURELY = (
    1.1  # of the limit: what is not run is never seen to have fitted, and peaks were predicted up to 8% off
)
_OFFERED = ("ddp", "zero1", "fsdp2")
_NAMES = {"fsdp": "fsdp2"}  # as a flag says it, and as it is found


def known_memory(profiles: Sequence[Profile]) -> dict[tuple[tuple[str, str], ...], list[Known]]:
    """What was measured, by the flags that it was measured with."""
    found: dict[tuple[tuple[str, str], ...], list[Known]] = {}
    for known in map(known_of, profiles):
        if known is not None:
            found.setdefault(known.varied, []).append(known)
    return found


def memory_outlook(
    profiles: Sequence[Profile], *, workers: Sequence[int], limit_bytes: int | None
) -> tuple[MemoryForecast, ...]:
    """At the counts that were measured and at these: every strategy at every batch that was measured, but for what was
    measured itself. `limit_bytes`: where none is given it is the device's own."""
    found: list[MemoryForecast] = []
    for varied, known in known_memory(profiles).items():
        own = limit_bytes or min((k.use.device_bytes for k in known if k.use.device_bytes), default=None)
        here = [p for p in profiles if others(p.point.varied) == varied]
        counts = sorted({*workers, *(p.point.workers for p in here)})
        done = {(k.workers, k.batch, k.strategy) for k in known}
        for count, batch, strategy in _settings(counts, here):
            if (count, batch, strategy) not in done:
                found.append(forecast(known, workers=count, batch=batch, strategy=strategy, limit_bytes=own))
    return tuple(found[:_MOST])


def _settings(counts: Sequence[int], here: Sequence[Profile]) -> Iterator[tuple[int, int, str]]:
    batches = sorted({p.point.per_worker_batch for p in here if p.point.per_worker_batch is not None})
    for count in counts:
        for batch in batches:
            for strategy in _OFFERED if count > 1 else ("none",):
                yield count, batch, strategy


def unfit(study: Study, point: Point, results: Sequence[TrialResult]) -> str | None:
    """Why this setting, not run yet, surely does not fit; None where it may, or where nobody knows."""
    if (
        study.try_anyway
        or study.find_batch
        or point.per_worker_batch is None
        or not any(r.state == "ok" for r in results)
    ):
        return None
    if any(result.trial.point.launched_as == point.launched_as for result in results):
        return None
    uses = [worker.memory for result in results for worker in result.workers if worker.memory is not None]
    if study.memory_limit_bytes is None and not any(use.device_bytes for use in uses):
        return None
    profiles = curve(launches(points_of(study), results, warmup=study.warmup, steps=study.steps))
    known = known_memory(profiles).get(others(point.varied), [])
    limit = study.memory_limit_bytes or next((k.use.device_bytes for k in known if k.use.device_bytes), None)
    strategy = _asked_strategy(point, known)
    if not known or limit is None or strategy is None:
        return None
    found = forecast(
        known, workers=point.workers, batch=point.per_worker_batch, strategy=strategy, limit_bytes=limit
    )
    size = found.held_bytes or found.tensors_bytes
    if size.low is None or size.low <= _SURELY * limit:
        return None
    return f"at least {bytes_text(size.low)} needed, {bytes_text(limit)} there (predicted from {found.measured[0]})"


def tried_at(study: Study, setting: Point, results: Sequence[TrialResult]) -> list[Tried]:
    """The runs at this setting, whatever their batch."""
    found = []
    for result in results:
        point = result.trial.point
        same = (point.workers, point.nodes, point.backend, point.varied) == (
            setting.workers, setting.nodes, setting.backend, setting.varied,
        )  # fmt: skip
        if not same or point.per_worker_batch is None:
            continue
        part = split(result, warmup=study.warmup, steps=study.steps) if result.state == "ok" else None
        rate = None
        if part is not None and part.samples_per_step is not None:
            rate = part.samples_per_step / part.step_s
        named = " + ".join(strategies(result.workers)) if result.workers else ""
        strategy = "none" if point.workers == 1 else named
        use = fullest(result.workers) if result.workers else None
        found.append(
            Tried(point.per_worker_batch, result.state, result.reason, use, point.workers, strategy, rate)
        )
    return found


def largest_batches(study: Study, results: Sequence[TrialResult]) -> tuple[LargestBatch, ...]:
    """What the search found at every setting, so far."""
    found = []
    settings = {
        (p.workers, p.nodes, p.backend, p.varied): p for p in points_of(study)
    }  # one for every batch is enough
    for setting in settings.values() if study.find_batch else ():
        tried = tried_at(study, setting, results)
        best, failed = largest(tried), smallest_failed(tried)
        if tried:
            found.append(
                LargestBatch(
                    workers=setting.workers,
                    varied=setting.varied,
                    batch=None if best is None else best.batch,
                    too_large=None if failed is None else failed.batch,
                    why=None if failed is None else f"{failed.state}: {failed.reason}",
                    safe_batch=None if best is None else safe_batch(best.batch),
                    runs=len(tried),
                    samples_per_s=None if best is None else best.samples_per_s,
                )
            )
    return tuple(found)


def _asked_strategy(point: Point, known: Sequence[Known]) -> str | None:
    """The strategy that a point is to have: as its flag says, or as all settings like it had."""
    if point.workers == 1:
        return "none"
    for flag, value in point.varied:
        if flag.lstrip("-") == "strategy":
            return _NAMES.get(value, value) if _NAMES.get(value, value) in (*_OFFERED, "hsdp") else None
    seen = {k.strategy for k in known if k.workers > 1}
    return seen.pop() if len(seen) == 1 else None
