"""The points of an Analysis as tables: every number as text to the precision of its interval. Nothing is computed.

A table that would be empty is None. Measured, projected and refused counts stand in one table and say which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from paceline.core.units import (
    bytes_text,
    duration_text,
    estimate_text,
    gain_text,
    is_wide,
    percent_text,
    rate_text,
    rough_text,
)
from paceline.core.words import PARTS
from paceline.records import Analysis, Estimate, Profile, Projection, series_names
from paceline.report.charts.series import unit_of
from paceline.report.charts.steps import time_unit
from paceline.report.document import Column, Table
from paceline.report.tables.cells import (
    UNKNOWN,
    count_text,
    quantity_text,
    speedup_cells,
    table_of,
    without_dull,
)

__all__ = ["bucket_table", "exchange_table", "overhead_table", "scaling_table", "split_table"]
__all__ += ["utilisation_table"]

_USED = ("cores", "GPU", "GPU clock", "throttled", "power (W)")
_SPLIT = ("step_s", "compute_s", "input_s", "optimizer_s", "straggle_s", "bubble_s", "wire_s", "hidden_s")


def scaling_table(analysis: Analysis) -> Table | None:
    """Every count: measured, failed, projected, refused. A column in which nothing is known is left out."""
    if not analysis.points:
        return None
    kind = _time_kind(analysis)
    times = [time for p in analysis.points if (time := _time(p, kind)) is not None]
    factor, scale = time_unit([time.value for time in times])
    names = series_names([p.point for p in analysis.points])
    order = list(dict.fromkeys(names.values()))
    points = sorted(analysis.points, key=lambda p: (order.index(names[p.point]), p.point.workers))
    rows = [_measured_row(p, _time(p, kind), factor, names[p.point]) for p in points]
    lines = {p.point.id: names[p.point] for p in analysis.points}
    ahead = [p for p in analysis.projections if p.time_kind in (kind, "sample")]
    rows += [_projected_row(p, factor, lines.get(p.baseline or "", UNKNOWN)) for p in ahead]
    tried = {p.point.workers for p in analysis.points}  # how those ended is said already
    refused = dict.fromkeys(
        r.workers for r in analysis.refusals if r.rule != "wide-interval" and r.workers not in tried
    )
    rows += [(UNKNOWN, str(workers), *([UNKNOWN] * 11), "no prediction") for workers in refused]
    unit = unit_of(analysis)
    heads: tuple[str, ...] = (
        "line",
        f"{unit}s",
        "nodes",
        f"batch per {unit}",
        "global batch",
        f"{kind} ({scale})",
    )
    heads += ("samples/s", "tokens/s", "speed-up", "efficiency", "strategy", "replicas", "runs", "state")
    columns = tuple(Column(head, number=head not in ("line", "strategy", "state")) for head in heads)
    base = _relative_to(analysis)
    kinds = ("measured",) * len(points) + ("predicted",) * len(ahead) + ("no-prediction",) * len(refused)
    table = replace(table_of("scaling", f"Scaling by {unit} count.{base}", columns, rows), kinds=kinds)
    table = without_dull(table)
    return (
        table
        if len(order) > 1
        else replace(table, columns=table.columns[1:], rows=tuple(row[1:] for row in table.rows))
    )


def split_table(analysis: Analysis) -> Table | None:
    """The parts of a step at every point that has them."""
    split = [p for p in analysis.points if p.compute_s is not None]
    factor, unit = time_unit([p.step_s.value for p in split if p.step_s])
    idle = any(p.bubble_s is not None and p.bubble_s.value > 0 for p in split)
    parts = [name for name in _SPLIT if idle or name != "bubble_s"]
    columns = tuple(Column(f"{PARTS[name.removesuffix('_s')]} ({unit})") for name in parts)
    caption = (
        "Parts of one step: step = compute + waiting for the slowest + network, those of the run with the median "
        "step. Data wait and optimizer are parts of compute. Hidden communication runs under compute."
    )
    return _by_point(
        "split",
        caption,
        split,
        columns,
        lambda p: [estimate_text(getattr(p, n), factor=factor) for n in parts],
    )


def exchange_table(analysis: Analysis) -> Table | None:
    """What is sent per step, and how fast."""
    sent = [p for p in analysis.points if p.exchanged_bytes_per_step and p.exchanged_bytes_per_step.value > 0]
    columns = (Column("sent per step"), Column("bus bandwidth"))
    return _by_point(
        "exchange",
        "Communication per worker and step.",
        sent,
        columns,
        lambda p: [
            quantity_text(p.exchanged_bytes_per_step, bytes_text),
            quantity_text(p.bus_bytes_per_s, rate_text),
        ],
    )


def utilisation_table(analysis: Analysis) -> Table | None:
    """What workers used while steps were measured. A column in which nothing is known is left out."""
    names = ("mfu_ratio", "cpu_ratio", "gpu_ratio", "gpu_clock_ratio", "throttled_ratio")
    known = [
        p
        for p in analysis.points
        if any(getattr(p, name) for name in (*names, "flops_per_step", "power_watts"))
    ]
    columns = tuple(Column(head) for head in ("GFLOP per step", "MFU", *_USED))
    table = _by_point(
        "utilisation",
        "Work of a step, MFU: its share of the devices' dense peak, and what was in use while steps were measured.",
        known,
        columns,
        lambda p: [
            estimate_text(p.flops_per_step, factor=1e-9),
            *(percent_text(getattr(p, name)) for name in names),
            estimate_text(p.power_watts),
        ],
    )
    return None if table is None else without_dull(table)


def bucket_table(analysis: Analysis) -> Table | None:
    """The gradient buckets of one step at the largest count where they were seen."""
    seen = [p for p in analysis.points if p.buckets]
    if not seen:
        return None
    profile = max(seen, key=lambda p: p.point.workers)
    rows: tuple[tuple[str, ...], ...] = tuple(
        (str(i + 1), bytes_text(bucket.size_bytes), duration_text(bucket.ready_s))
        for i, bucket in enumerate(profile.buckets)
    )
    columns = [Column("bucket"), Column("size"), Column("ready after")]
    if profile.timeline:
        rows = tuple(
            (*row, duration_text(sent.sent_s), duration_text(sent.done_s), "yes" if sent.binds else "no")
            for row, sent in zip(rows, profile.timeline, strict=False)
        )
        columns += [Column("sent after"), Column("done after"), Column("limits", number=False)]
    end = duration_text(profile.backward_end_s)
    caption = f"Gradient buckets at {profile.point.id}, in the order of sending. The backward pass ends after {end}."
    return Table("buckets", caption, tuple(columns), rows)


def overhead_table(analysis: Analysis) -> Table | None:
    """What measuring itself cost."""
    known = [p for p in analysis.points if p.overhead_s is not None]
    columns = (Column("agent per step"), Column("step"))
    return _by_point(
        "overhead",
        "Cost of measuring: the agent's own time in a step of the worker where it was largest.",
        known,
        columns,
        lambda p: [quantity_text(p.overhead_s, duration_text), quantity_text(p.step_s, duration_text)],
    )


def _by_point(
    name: str,
    caption: str,
    profiles: Sequence[Profile],
    columns: Sequence[Column],
    cells: Callable[[Profile], list[str]],
) -> Table | None:
    """One row per point, which begins with what sets the point apart."""
    if not profiles:
        return None
    names = series_names([p.point for p in profiles])
    several = len(set(names.values())) > 1
    head = (*((Column("line", number=False),) if several else ()), Column(f"{profiles[0].unit}s"))
    rows = tuple((*((names[p.point],) if several else ()), str(p.point.workers), *cells(p)) for p in profiles)
    return table_of(name, caption, (*head, *columns), rows)


def _relative_to(analysis: Analysis) -> str:
    """Which Point a speed-up of 1 is: one for the table, or one for every line."""
    bases = [p for p in analysis.points if p.speedup and p.speedup.low == p.speedup.high == 1.0]
    if len(bases) > 1:
        return " Speed-up is relative to the baseline of each line, where it is 1."
    return f" Speed-up is relative to {analysis.baseline}." if analysis.baseline else ""


def _measured_row(profile: Profile, time: Estimate | None, factor: float, name: str) -> tuple[str, ...]:
    point = profile.point
    return (
        name,
        str(point.workers),
        str(point.nodes),
        count_text(point.per_worker_batch),
        count_text(point.global_batch),
        rough_text(time, factor=factor),
        rough_text(profile.throughput_per_s),
        rough_text(profile.tokens_per_s),
        *speedup_cells(profile),
        profile.strategy or UNKNOWN,
        UNKNOWN if profile.replicas == point.workers else count_text(profile.replicas),
        str(profile.trials),
        "measured" if profile.state == "ok" else profile.state,
    )


def _projected_row(projection: Projection, factor: float, name: str) -> tuple[str, ...]:
    batch = projection.per_worker_batch
    return (
        name,
        str(projection.workers),
        str(projection.nodes),
        count_text(batch),
        UNKNOWN,
        estimate_text(projection.time_s, factor=factor) if projection.time_kind != "sample" else UNKNOWN,
        estimate_text(projection.throughput_per_s),
        UNKNOWN,
        gain_text(projection.speedup),
        percent_text(projection.efficiency_ratio),
        *([UNKNOWN] * 3),
        "predicted, a rough guess" if is_wide(projection.time_s) else "predicted",
    )


def _time_kind(analysis: Analysis) -> str:
    """The kind of time that is projected, or else the one that most points have."""
    for projection in analysis.projections:
        if projection.time_kind != "sample":
            return projection.time_kind
    counts = {
        kind: sum(_time(p, kind) is not None for p in analysis.points) for kind in ("step", "epoch", "job")
    }
    return max(counts, key=lambda kind: counts[kind])


def _time(profile: Profile, kind: str) -> Estimate | None:
    return {"step": profile.step_s, "epoch": profile.epoch_s, "job": profile.job_s}[kind]
