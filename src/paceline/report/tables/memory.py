"""Memory as tables: what every worker's tensors are, what the process or device held beyond them, and what fits."""

from __future__ import annotations

from paceline.core.units import bytes_text
from paceline.records import Analysis, Estimate, MemoryForecast, MemoryUse, Profile, series_names
from paceline.report.document import Column, Table
from paceline.report.tables.cells import UNKNOWN, quantity_text, table_of, without_dull

__all__ = ["forecast_table", "memory_table"]

_FITS = {"yes": "yes", "no": "no", "unsure": "perhaps", None: UNKNOWN}
_PARTS = (
    ("parameters", "parameters_bytes"),
    ("gradients", "gradients_bytes"),
    ("optimizer", "optimizer_bytes"),
    ("buffers", "buffers_bytes"),
    ("buckets", "buckets_bytes"),
    ("gathered weights", "gathered_bytes"),
    ("activations", "activations_bytes"),
    ("tensors at most", "peak_bytes"),
)


def memory_table(analysis: Analysis) -> Table | None:
    """The fullest worker of every point; a point that ran out of memory says so."""
    known = [p for p in analysis.points if p.peak_memory_bytes is not None or p.memory or p.state == "oom"]
    if not any(p.peak_memory_bytes or p.memory for p in known):
        return None
    names = series_names([p.point for p in known])
    heads = ("line", "workers", "batch per worker", "strategy", *(head for head, _ in _PARTS))
    columns = tuple(Column(head, number=head not in ("line", "strategy")) for head in heads)
    columns += (Column("beyond tensors"), Column("peak memory"), Column("state", number=False))
    caption = (
        "Memory of the fullest worker. Activations: when backward begins. Beyond tensors: workspaces, the allocator, "
        "on CPU also the data and the interpreter since torch was imported. Peak memory: of the device or the process."
    )
    rows = [_row(profile, names[profile.point]) for profile in known]
    return without_dull(table_of("memory", caption, columns, rows))


def forecast_table(analysis: Analysis) -> Table | None:
    """Settings that were not measured, and whether they fit."""
    if not analysis.memory:
        return None
    limits = {forecast.limit_bytes for forecast in analysis.memory}
    size = limits.pop() if len(limits) == 1 else None
    heads = ("setting", "workers", "batch per worker", "strategy", "tensors", "memory of a worker")
    columns = tuple(Column(head, number=head not in ("setting", "strategy")) for head in heads)
    columns += (Column("fits?" if size is None else f"fits in {bytes_text(size)}?", number=False),)
    caption = "Memory of a worker, predicted, not measured. Brackets: what it may be."
    return without_dull(
        Table("memory-forecast", caption, columns, tuple(_forecast_row(f) for f in analysis.memory))
    )


def _row(profile: Profile, name: str) -> tuple[str, ...]:
    use, batch = profile.memory, profile.point.per_worker_batch
    return (
        name,
        str(profile.point.workers),
        UNKNOWN if batch is None else str(batch),
        profile.strategy or UNKNOWN,
        *(_part(use, field) for _, field in _PARTS),
        UNKNOWN
        if use is None or use.held_bytes is None
        else bytes_text(max(0, use.held_bytes - use.peak_bytes)),
        quantity_text(profile.peak_memory_bytes, bytes_text),
        profile.state,
    )


def _part(use: MemoryUse | None, field: str) -> str:
    value = None if use is None else getattr(use, field)
    return UNKNOWN if value is None or (value == 0 and field in _SELDOM) else bytes_text(value)


_SELDOM = ("buffers_bytes", "buckets_bytes", "gathered_bytes")


def _forecast_row(forecast: MemoryForecast) -> tuple[str, ...]:
    flags = ", ".join(f"{flag.lstrip('-')} {value}" for flag, value in forecast.varied)
    return (
        flags or UNKNOWN,
        str(forecast.workers),
        str(forecast.per_worker_batch),
        UNKNOWN if forecast.workers == 1 else forecast.strategy,
        _size(forecast.tensors_bytes),
        UNKNOWN if forecast.held_bytes is None else _size(forecast.held_bytes),
        _FITS[forecast.fits],
    )


def _size(size: Estimate) -> str:
    return quantity_text(size, bytes_text)
