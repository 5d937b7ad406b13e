"""Profiles -> what memory the settings would take that were not measured, or that ran out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.predict.memory import Known, forecast, known_of, others
from paceline.records import MemoryForecast, Profile

__all__ = ["known_memory", "memory_outlook"]

_MOST = 24
_OFFERED = ("ddp", "zero1", "fsdp2")


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
