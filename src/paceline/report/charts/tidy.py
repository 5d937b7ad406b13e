"""Every number of an analysis as one tidy CSV: one row per point and quantity, raw values in base units.

study                study's name, to tell rows of several studies apart
kind                 measured | projected | refused | option (may be chosen) | trained (to accuracy) | probed | device
point                id of the Point; empty for projections and probes
workers nodes per_worker_batch global_batch scaling backend
varied               flags of a Point; of a probe link=between op=all_reduce size_bytes=1024; of a device worker, name
state                ok | oom | crashed | hung | timeout | diverged | cancelled; empty for projections
quantity             name as in analysis.json, its unit at the end: _s seconds, _bytes, _per_s, _ratio 0..1
value low high       the number and its 90% interval; empty where unknown
observations         launches (measured), fitted points (projected) or passes (probed) behind it
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import fields

from paceline.records import Analysis, Estimate
from paceline.report.escape import csv_cell

__all__ = ["COLUMNS", "tidy_csv"]

COLUMNS = (
    "study", "kind", "point", "workers", "nodes", "per_worker_batch", "global_batch", "scaling", "backend",
    "varied", "state", "quantity", "value", "low", "high", "observations",
)  # fmt: skip


def tidy_csv(studies: Sequence[tuple[str, Analysis]]) -> str:
    """All studies in one table."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, analysis in studies:
        for row in _rows(analysis):
            writer.writerow([_cell(value) for value in (name, *row)])
    return file.getvalue()


def _rows(analysis: Analysis) -> Iterator[tuple[object, ...]]:
    for profile in analysis.points:
        point = profile.point
        varied = " ".join(f"{key}={value}" for key, value in point.varied)
        head: tuple[object, ...] = (
            "measured", point.id, point.workers, point.nodes, point.per_worker_batch, point.global_batch,
            point.scaling, point.backend, varied, profile.state,
        )  # fmt: skip
        known = list(_estimates(profile))
        yield from ((*head, *_values(name, value)) for name, value in known)
        if not known:
            yield (*head, None, None, None, None, None)
    for projection in analysis.projections:
        head = (
            "projected", None, projection.workers, projection.nodes, projection.per_worker_batch, None, None, None,
            None, None,
        )  # fmt: skip
        yield from ((*head, *_values(name, value)) for name, value in _estimates(projection))
    for option in () if analysis.decision is None else analysis.decision.options:
        head = ("option", None, option.workers, option.nodes, option.per_worker_batch, *([None] * 5))
        yield from ((*head, *_values(name, value)) for name, value in _estimates(option))
    for one in () if analysis.convergence is None else analysis.convergence.comparisons:
        head = (
            "trained", one.point, one.workers, None, one.per_worker_batch, one.global_batch, None, None, one.label,
            None,
        )  # fmt: skip
        yield from ((*head, *_values(name, value)) for name, value in _estimates(one))
    yield from _probed(analysis)
    for refusal in analysis.refusals:
        yield ("refused", None, refusal.workers, *([None] * 12))


def _probed(analysis: Analysis) -> Iterator[tuple[object, ...]]:
    """Links, every size that was probed, and devices; what is promised stands beside as spec_…"""
    for link in analysis.links:
        head: tuple[object, ...] = ("probed", None, link.workers, link.nodes, None, None, None, link.backend)
        of_link = (*head, f"link={link.link}", None)
        yield from ((*of_link, *_values(name, value)) for name, value in _estimates(link))
        if link.spec_bytes_per_s is not None:
            yield (*of_link, *_values("spec_bytes_per_s", Estimate(link.spec_bytes_per_s, n=0)))
        for row in link.rows:
            where = f"link={link.link} op={row.op} size_bytes={row.size_bytes}"
            head = ("probed", None, row.workers, row.nodes, None, None, None, link.backend, where, None)
            yield from ((*head, *_values(name, value)) for name, value in _estimates(row))
    for device in analysis.devices:
        head = ("device", *([None] * 7), f"worker={device.worker} name={device.name}", None)
        for rate in device.rates:
            yield (*head, *_values(f"{rate.quantity}_per_s", rate.per_s))
            if rate.spec_per_s is not None:
                yield (*head, *_values(f"spec_{rate.quantity}_per_s", Estimate(rate.spec_per_s, n=0)))


def _estimates(record: object) -> Iterator[tuple[str, Estimate]]:
    for field in fields(record):  # type: ignore[arg-type]  # a Profile or a Projection
        value = getattr(record, field.name)
        if isinstance(value, Estimate):
            yield field.name, value


def _values(name: str, value: Estimate) -> tuple[object, ...]:
    return (name, value.value, value.low, value.high, value.n)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return csv_cell(value) if isinstance(value, str) else repr(value)
