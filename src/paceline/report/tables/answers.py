"""The answers of an Analysis as tables: what to do, what is projected or refused, the fit, and where it all comes from.

A table that would be empty is None. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.core.units import duration_text, estimate_text, gain_text, percent_text, rate_text
from paceline.core.words import GOALS, parameter_text
from paceline.records import Analysis, Decision, Estimate, Fit, Option, series_names
from paceline.report.charts.steps import time_unit
from paceline.report.document import Column, Table
from paceline.report.handin.performance import device_hours
from paceline.report.tables.cells import UNKNOWN, count_text, quantity_text, without_dull

__all__ = [
    "asked_table",
    "convergence_table",
    "fit_table",
    "projection_table",
    "recommendation_table",
    "refusal_table",
    "resource_table",
    "source_table",
]

_SOURCE = {"trials": "runs", "understood": "columns understood"}
_SHORT_S = 360.0  # work that takes all workers together less is counted in seconds


def asked_table(analysis: Analysis) -> Table | None:
    """The questions of a recipe, each beside the first line of its answer."""
    rows = tuple(
        (answer.question if first else "", line)
        for answer in analysis.answers
        for first, line in zip((True, *(False for _ in answer.lines)), answer.lines, strict=False)
    )
    columns = (Column("question", number=False), Column("answer", number=False))
    caption = "What the recipe asks, answered from this study alone."
    return Table("asked", caption, columns, rows) if rows else None


def recommendation_table(analysis: Analysis) -> Table | None:
    """Each goal with its setting, gain, cost and condition."""
    if not analysis.recommendations:
        return None
    rows = tuple(
        (
            GOALS.get(r.goal, r.goal),
            count_text(r.workers),
            count_text(r.per_worker_batch),
            r.lr_rule or UNKNOWN,
            estimate_text(r.gain),
            UNKNOWN
            if r.goal == "energy"
            else estimate_text(r.cost),  # its text says how much, in its own unit
            r.condition,
        )
        for r in analysis.recommendations
    )
    cost = f"cost{_cost_unit(analysis)}"
    numbers = {"workers", "batch per worker", "gain", cost}
    names = ("goal", "workers", "batch per worker", "learning-rate rule", "gain", cost, "condition")
    columns = tuple(Column(name, number=name in numbers) for name in names)
    return Table("recommendations", "What to do, by goal.", columns, rows)


def _cost_unit(analysis: Analysis) -> str:
    """What the costs of recommendations are counted in: without a price, seconds of workers."""
    if analysis.decision is None:
        return ""
    unit = analysis.decision.cost_unit
    return " (worker-s)" if unit == "worker-hours" else f" ({unit})"


def resource_table(analysis: Analysis) -> Table | None:
    """What the same work takes at every setting that may be chosen: time, hours of devices and nodes, cost."""
    decision = analysis.decision
    if decision is None or not decision.options:
        return None
    factor, unit = time_unit([option.time_s.value for option in decision.options])
    if max(option.time_s.value for option in decision.options) > 7200.0:
        factor, unit = 1 / 3600, "h"
    hours, per_hour, nodes = device_hours(analysis), 1 / 3600, "node-h"
    if max(option.worker_s.value for option in decision.options) < _SHORT_S:
        hours, per_hour, nodes = hours.removesuffix("h") + "s", 1.0, "node-s"
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            str(option.workers),
            str(option.nodes),
            estimate_text(option.time_s, factor=factor),
            estimate_text(option.worker_s, factor=per_hour),
            estimate_text(option.node_s, factor=per_hour),
            estimate_text(option.cost),
            UNKNOWN if option.marginal_cost is None else f"{option.marginal_cost:.2g}",
            _marks(option, decision),
        )
        for option in decision.options
    )
    heads = (
        "workers",
        "nodes",
        f"time ({unit})",
        hours,
        nodes,
        f"cost ({decision.cost_unit})",
        "price of an hour saved",
    )
    columns = (*(Column(head) for head in heads), Column("basis", number=False))
    caption = f"What {decision.work} takes."
    if decision.cost_unit == "worker-hours":  # then it is the column of worker hours again
        columns = columns[:5] + columns[6:]
        rows = tuple(row[:5] + row[6:] for row in rows)
        price = "2.5/gpu-h" if hours.startswith("GPU") else "0.04/worker-h"
        caption += f" Costs in {hours}: no price was given (--price {price})."
    return Table("resources", caption, columns, rows)


def _marks(option: Option, decision: Decision) -> str:
    words = ["measured" if option.measured else "predicted"]
    if option.workers == decision.chosen:
        words.append("recommended")
    if not option.pareto:
        words.append("another is faster and cheaper")
    if option.meets_deadline is False:
        words.append("after the deadline")
    if option.within_budget is False:
        words.append("over the budget")
    return ", ".join(words)


def projection_table(analysis: Analysis) -> Table | None:
    """What was not measured but follows, with what binds there. A column in which nothing is known is left out."""
    if not analysis.projections:
        return None
    kind = analysis.projections[0].time_kind
    factor, unit = time_unit([p.time_s.value for p in analysis.projections])
    names = series_names([p.point for p in analysis.points])
    lines = {p.point.id: names[p.point] for p in analysis.points}
    own = [lines.get(p.baseline or "", UNKNOWN) for p in analysis.projections]
    several = len(set(own)) > 1
    rows = [
        (
            *((line,) if several else ()),
            str(p.workers),
            str(p.nodes),
            count_text(p.per_worker_batch),
            estimate_text(p.time_s, factor=factor),
            estimate_text(p.throughput_per_s),
            gain_text(p.speedup),
            percent_text(p.efficiency_ratio),
            quantity_text(p.time_to_accuracy_s, duration_text),
            p.explanation,
        )
        for p, line in zip(analysis.projections, own, strict=True)
    ]
    numbers = (
        "workers",
        "nodes",
        "batch per worker",
        f"{kind} ({unit})",
        "samples/s",
        "speed-up",
        "efficiency",
    )
    heads = (*(("line",) if several else ()), *numbers, "time to accuracy", "what limits it")
    columns = tuple(Column(head, number=head not in ("line", "what limits it")) for head in heads)
    caption = "Predicted, not measured. ± and brackets: 90% prediction intervals."
    return without_dull(Table("projections", caption, columns, tuple(rows)))


def refusal_table(analysis: Analysis) -> Table | None:
    """What will not be projected, and what would change that."""
    if not analysis.refusals:
        return None
    rows = tuple((str(r.workers), r.reason, r.would_help, r.rule) for r in analysis.refusals)
    names = ("why not", "what would help", "rule")
    columns = (Column("workers"), *(Column(name, number=False) for name in names))
    return Table("refusals", "Worker counts without a prediction.", columns, rows)


def fit_table(fit: Fit | None) -> Table | None:
    """The parameters of the cost model, and which of them the data do not determine."""
    if fit is None or not fit.parameters:
        return None
    rows = tuple(
        (parameter_text(name), _parameter(name, value), "no" if name in fit.unidentified else "yes")
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
    rows = tuple(
        (_SOURCE.get(key) or _words(key), _plain(value)) for key, value in _flat(analysis.source) if value
    )
    columns = (Column("what", number=False), Column("value", number=False))
    return Table("source", "Where these numbers come from.", columns, rows) if rows else None


def _parameter(name: str, value: Estimate) -> str:
    if name.endswith("_bytes_per_s"):
        return quantity_text(value, rate_text)
    if name.endswith("_s"):
        return quantity_text(value, duration_text)
    return estimate_text(value)


def _words(key: str) -> str:
    """`samples_in_data_set` as words; a name of the environment as it is."""
    return " ".join(word if word.isupper() else word.replace("_", " ") for word in key.split(" "))


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
