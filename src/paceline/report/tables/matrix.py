"""Batch × workers as one table: a row per batch, a column per worker count, each cell its time and speed-up."""

from __future__ import annotations

from paceline.core.units import duration_text, gain_text, workers_text
from paceline.records import Analysis, Estimate, Profile
from paceline.report.document import Column, Table
from paceline.report.tables.cells import UNKNOWN

__all__ = ["matrix_table"]


def matrix_table(analysis: Analysis) -> Table | None:
    """Of weak scaling at several batches; None where there are not two of each, or where more than these differ."""
    found = [p for p in analysis.points if p.point.scaling == "weak" and p.point.per_worker_batch is not None]
    cells = {(p.point.per_worker_batch, p.point.workers): p for p in found}
    batches, counts = (sorted({key[i] or 0 for key in cells}) for i in (0, 1))
    filled = [batch for batch in batches if sum(key[0] == batch for key in cells) > 1]
    if len(filled) < 2 or len(cells) < len(found):
        return None
    what = "epoch" if any(p.epoch_s for p in found) else "training" if any(p.job_s for p in found) else "step"
    rows = tuple(
        (str(batch), *(_cell(cells.get((batch, count)), what) for count in counts)) for batch in batches
    )
    unit = found[0].unit
    columns = tuple(Column(name) for name in (f"batch per {unit}", *(workers_text(n, unit) for n in counts)))
    caption = f"Time of one {what} and speed-up, by batch per {unit} and {unit}s."
    return Table("matrix", caption, columns, rows)


def _cell(profile: Profile | None, what: str) -> str:
    if profile is None:
        return UNKNOWN
    time = {"epoch": profile.epoch_s, "training": profile.job_s, "step": profile.step_s}[what]
    if time is None:
        return profile.state if profile.state != "ok" else UNKNOWN
    speed = "" if profile.speedup is None else f", {gain_text(Estimate(profile.speedup.value), unit='x')}"
    return f"{duration_text(time.value)}{speed}"
