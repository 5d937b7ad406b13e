"""A table measured anywhere -> the Analysis: points, verdict, findings and everything that `answers` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.answers import Answers, Ask, Cluster, answers
from paceline.check_table import table_findings
from paceline.curve import series
from paceline.doubling import told_curve
from paceline.measured import data_set_size, profiles_of
from paceline.observe import Setting
from paceline.records import Analysis, Finding, Profile, TimeKind
from paceline.table import Table
from paceline.units import TIME_OF, duration_range_text
from paceline.verdict import scaling_text, with_outlook, workers_text
from paceline.verdict_thresholds import thresholds

__all__ = ["settings_of", "table_analysis"]


def table_analysis(
    table: Table,
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    source: Mapping[str, object] | None = None,
) -> Analysis:
    """Everything that a table says, and what follows from it."""
    profiles = profiles_of(table)
    ask = ask or Ask()
    exact = "step_s" in table.quantities or table.time_kind in ("epoch", "job")
    ask = replace(
        ask,
        samples=ask.samples if ask.samples is not None else data_set_size(table),
        absolute=exact,
        plateau_epochs=dict(ask.plateau_epochs) or _plateau_epochs(table),
    )
    kind = table.time_kind or "step"
    found = answers(profiles, kind, cluster=cluster, ask=ask)
    findings = (*table_findings(table, profiles), *found.findings)
    return Analysis(
        verdict=verdict(profiles, findings, found, kind),
        points=profiles,
        findings=findings,
        baseline=_baseline(profiles),
        source={**(source or {}), "understood": list(table.understood), "time_kind": kind},
        fit=found.fit,
        projections=found.projections,
        refusals=found.refusals,
        recommendations=found.recommendations,
        convergence=found.convergence,
        decision=found.decision,
        thresholds=thresholds(profiles),
    )


def settings_of(table: Table) -> tuple[tuple[Setting, tuple[tuple[str, str], ...]], ...]:
    """The settings that a table of points asks for, each with its series, in the order of the table."""
    found = [(Setting(row.workers, row.nodes, row.per_worker_batch), row.series) for row in table.rows]
    return tuple(dict.fromkeys(found))


def verdict(profiles: Sequence[Profile], findings: Sequence[Finding], found: Answers, kind: TimeKind) -> str:
    """One sentence: how far more workers helped, under which scaling, and what stands against it."""
    curve = _longest(profiles)
    if not curve:
        return "This table gives no time of a training that ended: nothing can be said about scaling."
    if len({profile.point.workers for profile in curve}) == 1:
        only = workers_text(curve[0].point.workers)
        return f"{only} only: one count says nothing about scaling, measure another."
    text = with_outlook(scaling_text(curve, which=_which(curve, profiles)), found.recommendations, profiles)
    voids = [f for f in findings if f.level == "void"]
    if voids:
        which = "One of the figures" if len(voids) == 1 else f"{len(voids)} of the figures"
        return f"{text} But {which[0].lower() + which[1:]} cannot be right: see the findings."
    if len({profile.point.varied for profile in profiles}) == 1:
        text += _outlook(curve[-1], found, kind)
    return text


def _which(curve: Sequence[Profile], profiles: Sequence[Profile]) -> str:
    """What sets the Curve of the sentence apart from the others of the table: batch, backend, varied columns."""
    point = curve[0].point
    values = [value for _, value in point.varied]
    if len({series(profile.point) for profile in profiles}) > 1:
        weak, strong = f"{point.per_worker_batch} per worker", f"global batch {point.global_batch}"
        batch = (weak if point.scaling == "weak" else strong) if point.global_batch else ""
        values = [batch, point.backend or "", *values]
    return "".join(f", {value}" for value in values if value)


def _outlook(top: Profile, found: Answers, kind: TimeKind) -> str:
    """The farthest projection at the batch of the Curve, where it is more than an order of magnitude."""
    wide = {refusal.workers for refusal in found.refusals}
    batch = top.point.per_worker_batch
    ahead = [
        p
        for p in found.projections
        if p.workers > top.point.workers and p.workers not in wide and p.per_worker_batch in (batch, None)
    ]
    if not ahead:
        return ""
    far = max(ahead, key=lambda p: p.workers)
    return f" {far.workers} workers would take {duration_range_text(far.time_s)} per {TIME_OF[kind]}."


def _longest(profiles: Sequence[Profile]) -> list[Profile]:
    return told_curve(
        [profile for profile in profiles if profile.state == "ok" and profile.speedup is not None]
    )


def _baseline(profiles: Sequence[Profile]) -> str | None:
    curve = _longest(profiles)
    return curve[0].point.id if curve else None


def _plateau_epochs(table: Table) -> dict[int, float]:
    """Epochs to a stable accuracy by global batch, where the table has that column; the mean of repeats."""
    found: dict[int, list[float]] = {}
    for row in table.rows:
        if row.plateau_epoch is not None and row.global_batch is not None:
            found.setdefault(row.global_batch, []).append(row.plateau_epoch)
    return {batch: sum(values) / len(values) for batch, values in found.items()}
