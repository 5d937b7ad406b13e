"""An Analysis as tables: every number of the report, as text to the precision of its interval. Nothing is computed.

A table that would be empty is None. Measured, projected and refused counts stand in one table and say which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from paceline.records import Analysis, Estimate, Profile, Projection
from paceline.report.document import Column, Table
from paceline.report.series import series_names
from paceline.report.step_charts import time_unit
from paceline.units import bytes_text, duration_text, estimate_text, percent_text, rate_text

__all__ = [
    "bucket_table",
    "convergence_table",
    "exchange_table",
    "fit_table",
    "memory_table",
    "overhead_table",
    "projection_table",
    "recommendation_table",
    "refusal_table",
    "scaling_table",
    "source_table",
    "speedup_cells",
    "split_table",
]

UNKNOWN = "–"
_SPLIT = ("step_s", "compute_s", "input_s", "optimizer_s", "straggle_s", "wire_s", "hidden_s")
_INTERVALS = "± and brackets: 90% intervals over launches."


def scaling_table(analysis: Analysis) -> Table | None:
    """Every count: measured, failed, projected, refused."""
    if not analysis.points:
        return None
    kind = _time_kind(analysis.points)
    times = [time for p in analysis.points if (time := _time(p, kind)) is not None]
    factor, unit = time_unit([time.value for time in times])
    names = series_names([p.point for p in analysis.points])
    several = len(set(names.values())) > 1
    rows = [_measured_row(p, _time(p, kind), factor, names[p.point.id], several) for p in analysis.points]
    rows += [
        _projected_row(p, factor, several) for p in analysis.projections if p.time_kind in (kind, "sample")
    ]
    rows += [_refused_row(refusal.workers, several) for refusal in analysis.refusals]
    columns = (
        *((Column("line", number=False),) if several else ()),
        Column("workers"),
        Column("nodes"),
        Column("batch per worker"),
        Column("global batch"),
        Column(f"{kind} ({unit})"),
        Column("samples/s"),
        Column("speed-up"),
        Column("efficiency"),
        Column("launches"),
        Column("state", number=False),
    )
    base = f" Speed-up is relative to {analysis.baseline}." if analysis.baseline else ""
    return Table("scaling", f"Scaling by worker count.{base} {_INTERVALS}", columns, tuple(rows))


def split_table(analysis: Analysis) -> Table | None:
    """The parts of a step at every point that has them."""
    split = [p for p in analysis.points if p.compute_s is not None]
    factor, unit = time_unit([p.step_s.value for p in split if p.step_s])
    columns = tuple(Column(f"{name.removesuffix('_s')} ({unit})") for name in _SPLIT)
    caption = (
        "Parts of one step: step = compute + straggle + wire; input and optimizer are parts of compute; hidden runs "
        f"under compute. {_INTERVALS}"
    )
    return _by_point(
        "split",
        caption,
        split,
        columns,
        lambda p: [estimate_text(getattr(p, n), factor=factor) for n in _SPLIT],
    )


def exchange_table(analysis: Analysis) -> Table | None:
    """What is sent per step, and how fast."""
    sent = [p for p in analysis.points if p.exchanged_bytes_per_step and p.exchanged_bytes_per_step.value > 0]
    columns = (Column("exchanged per step"), Column("bus bandwidth"))
    return _by_point(
        "exchange",
        f"Gradient exchange per worker and step. {_INTERVALS}",
        sent,
        columns,
        lambda p: [
            _scaled(p.exchanged_bytes_per_step, bytes_text),
            _scaled(p.bus_bytes_per_s, rate_text),
        ],
    )


def memory_table(analysis: Analysis) -> Table | None:
    """Peak memory of the fullest worker; a point that ran out of memory says so."""
    known = [p for p in analysis.points if p.peak_memory_bytes is not None or p.state == "oom"]
    if not any(p.peak_memory_bytes for p in known):
        return None
    columns = (Column("peak memory"), Column("state", number=False))
    return _by_point(
        "memory",
        f"Peak memory of the fullest worker. {_INTERVALS}",
        known,
        columns,
        lambda p: [_scaled(p.peak_memory_bytes, bytes_text), p.state],
    )


def bucket_table(analysis: Analysis) -> Table | None:
    """The gradient buckets of one step at the largest count where they were seen."""
    seen = [p for p in analysis.points if p.buckets]
    if not seen:
        return None
    profile = max(seen, key=lambda p: p.point.workers)
    rows = tuple(
        (str(i + 1), bytes_text(bucket.size_bytes), duration_text(bucket.ready_s))
        for i, bucket in enumerate(profile.buckets)
    )
    end = duration_text(profile.backward_end_s)
    caption = f"Gradient buckets at {profile.point.id}, in the order of sending. The backward pass ends after {end}."
    return Table("buckets", caption, (Column("bucket"), Column("size"), Column("ready after")), rows)


def overhead_table(analysis: Analysis) -> Table | None:
    """What measuring itself cost."""
    known = [p for p in analysis.points if p.overhead_s is not None]
    columns = (Column("agent per step"), Column("step"))
    return _by_point(
        "overhead",
        "Cost of measuring: the agent's own time in a step of the worker where it was largest.",
        known,
        columns,
        lambda p: [_scaled(p.overhead_s, duration_text), _scaled(p.step_s, duration_text)],
    )


def projection_table(analysis: Analysis) -> Table | None:
    """What was not measured but follows, with what binds there."""
    if not analysis.projections:
        return None
    rows = tuple(
        (
            str(p.workers),
            str(p.nodes),
            _count(p.per_worker_batch),
            _scaled(p.time_s, duration_text) + f" per {p.time_kind}",
            estimate_text(p.throughput_per_s),
            estimate_text(p.speedup),
            percent_text(p.efficiency_ratio),
            _scaled(p.time_to_accuracy_s, duration_text),
            p.explanation,
        )
        for p in analysis.projections
    )
    names = (
        "workers",
        "nodes",
        "batch per worker",
        "time",
        "samples/s",
        "speed-up",
        "efficiency",
        "time to accuracy",
    )
    columns = (*(Column(name) for name in names), Column("what binds", number=False))
    return Table(
        "projections", "Projected, not measured. ± and brackets: 90% prediction intervals.", columns, rows
    )


def refusal_table(analysis: Analysis) -> Table | None:
    """What will not be projected, and what would change that."""
    if not analysis.refusals:
        return None
    rows = tuple((str(r.workers), r.reason, r.would_help, r.rule) for r in analysis.refusals)
    names = ("why not", "what would help", "rule")
    columns = (Column("workers"), *(Column(name, number=False) for name in names))
    return Table("refusals", "Counts that these measurements cannot speak about.", columns, rows)


def recommendation_table(analysis: Analysis) -> Table | None:
    """Each goal with its setting, gain, cost and condition."""
    if not analysis.recommendations:
        return None
    rows = tuple(
        (
            r.goal,
            _count(r.workers),
            _count(r.per_worker_batch),
            r.lr_rule or UNKNOWN,
            estimate_text(r.gain),
            estimate_text(r.cost),
            r.condition,
        )
        for r in analysis.recommendations
    )
    numbers = {"workers", "batch per worker", "gain", "cost"}
    names = ("goal", "workers", "batch per worker", "learning-rate rule", "gain", "cost", "condition")
    columns = tuple(Column(name, number=name in numbers) for name in names)
    return Table("recommendations", "What to do, by goal.", columns, rows)


def fit_table(analysis: Analysis) -> Table | None:
    """The parameters of the cost model, and which of them the data do not determine."""
    fit = analysis.fit
    if fit is None or not fit.parameters:
        return None
    rows = tuple(
        (name, _parameter(name, value), "no" if name in fit.unidentified else "yes")
        for name, value in fit.parameters.items()
    )
    columns = (
        Column("parameter", number=False),
        Column("value"),
        Column("determined by the data", number=False),
    )
    return Table("fit", "Parameters of the cost model, with 90% intervals.", columns, rows)


def convergence_table(analysis: Analysis) -> Table | None:
    """Plateau, noise scale and critical batch."""
    found = analysis.convergence
    if found is None:
        return None
    plateau = estimate_text(found.plateau_epoch) + (" (still rising)" if found.censored else "")
    rows = (
        ("plateau epoch", plateau),
        ("gradient noise scale (samples)", estimate_text(found.noise_scale)),
        ("critical global batch (samples)", estimate_text(found.critical_global_batch)),
    )
    known = tuple(row for row in rows if not row[1].startswith(UNKNOWN))
    columns = (Column("quantity", number=False), Column("value"))
    return Table("convergence", "What the accuracy curves say.", columns, known) if known else None


def source_table(analysis: Analysis) -> Table | None:
    """Where the numbers come from."""
    rows = tuple((key.replace("_", " "), _plain(value)) for key, value in _flat(analysis.source) if value)
    columns = (Column("what", number=False), Column("value", number=False))
    return Table("source", "Where these numbers come from.", columns, rows) if rows else None


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
    head = (*((Column("line", number=False),) if several else ()), Column("workers"))
    rows = tuple(
        (*((names[p.point.id],) if several else ()), str(p.point.workers), *cells(p)) for p in profiles
    )
    return Table(name, caption, (*head, *columns), rows)


def _measured_row(
    profile: Profile, time: Estimate | None, factor: float, name: str, several: bool
) -> tuple[str, ...]:
    point = profile.point
    return (
        *((name,) if several else ()),
        str(point.workers),
        str(point.nodes),
        _count(point.per_worker_batch),
        _count(point.global_batch),
        estimate_text(time, factor=factor),
        estimate_text(profile.throughput_per_s),
        *speedup_cells(profile),
        str(profile.trials),
        "measured" if profile.state == "ok" else profile.state,
    )


def speedup_cells(profile: Profile) -> tuple[str, str]:
    """Speed-up and efficiency; of the Baseline they are one by definition, not by measurement."""
    if profile.speedup is not None and profile.speedup.low == profile.speedup.high == 1.0:
        return "1", "100%"
    return estimate_text(profile.speedup), percent_text(profile.efficiency_ratio)


def _projected_row(projection: Projection, factor: float, several: bool) -> tuple[str, ...]:
    batch = projection.per_worker_batch
    return (
        *((UNKNOWN,) if several else ()),
        str(projection.workers),
        str(projection.nodes),
        _count(batch),
        UNKNOWN,
        estimate_text(projection.time_s, factor=factor) if projection.time_kind != "sample" else UNKNOWN,
        estimate_text(projection.throughput_per_s),
        estimate_text(projection.speedup),
        percent_text(projection.efficiency_ratio),
        UNKNOWN,
        "projected",
    )


def _refused_row(workers: int, several: bool) -> tuple[str, ...]:
    return (*((UNKNOWN,) if several else ()), str(workers), *([UNKNOWN] * 8), "refused")


def _time_kind(points: Sequence[Profile]) -> str:
    """The kind of time that most points have."""
    counts = {kind: sum(_time(p, kind) is not None for p in points) for kind in ("step", "epoch", "job")}
    return max(counts, key=lambda kind: counts[kind])


def _time(profile: Profile, kind: str) -> Estimate | None:
    return {"step": profile.step_s, "epoch": profile.epoch_s, "job": profile.job_s}[kind]


def _scaled(quantity: Estimate | None, text: Callable[[float | None], str]) -> str:
    """A quantity with units in the number itself: 1.20 GB/s (1.10 GB/s to 1.31 GB/s)."""
    if quantity is None:
        return UNKNOWN
    if quantity.low is None or quantity.high is None or quantity.low == quantity.high:
        return text(quantity.value)
    value, low, high = text(quantity.value), text(quantity.low), text(quantity.high)
    return value if low == value == high else f"{value} ({low} to {high})"


def _parameter(name: str, value: Estimate) -> str:
    if name.endswith("_bytes_per_s"):
        return _scaled(value, rate_text)
    if name.endswith("_s"):
        return _scaled(value, duration_text)
    return estimate_text(value)


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _flat(source: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in source.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key} ")
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _plain(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(item) for item in value)
    return str(value)
