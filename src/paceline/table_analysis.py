"""A table measured anywhere -> the Analysis: points, verdict, findings and everything that `answers` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import log2

from paceline.advise import WORTH_PER_DOUBLING
from paceline.answers import Answers, Ask, Cluster, answers
from paceline.check_table import table_findings
from paceline.measured import data_set_size, profiles_of, series_key
from paceline.observe import Setting
from paceline.records import Analysis, Finding, Profile
from paceline.refuse import incomparable
from paceline.table import Table
from paceline.units import duration_text, percent_text
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
        verdict=verdict(profiles, findings, found),
        points=profiles,
        findings=findings,
        baseline=_baseline(profiles),
        source={**(source or {}), "understood": list(table.understood), "time_kind": kind},
        fit=found.fit,
        projections=found.projections,
        refusals=found.refusals,
        recommendations=found.recommendations,
        convergence=found.convergence,
        thresholds=thresholds(profiles),
    )


def settings_of(table: Table) -> tuple[tuple[Setting, tuple[tuple[str, str], ...]], ...]:
    """The settings that a table of points asks for, each with its series, in the order of the table."""
    found = [(Setting(row.workers, row.nodes, row.per_worker_batch), row.series) for row in table.rows]
    return tuple(dict.fromkeys(found))


def verdict(profiles: Sequence[Profile], findings: Sequence[Finding], found: Answers) -> str:
    """One sentence: how far more workers helped, under which scaling, and what stands against it."""
    curve = _longest(profiles)
    if not curve:
        return "This table gives no time of a training that ended: nothing can be said about scaling."
    base = curve[0]
    if len(curve) == 1:
        return f"{base.point.workers} worker(s) only: one count says nothing about scaling, measure another."
    best = _worthwhile(curve)
    top = curve[-1]
    shown = best if best is not base else top
    gain = shown.speedup.value if shown.speedup else 1.0
    start = (
        f"Use {best.point.workers} workers"
        if best is not base
        else f"Stay with {base.point.workers} worker(s)"
    )
    where = ", ".join(value for _, value in shown.point.varied)
    text = (
        f"{start}: {shown.point.workers} run {gain:.2f}x as fast as {base.point.workers}, "
        f"{percent_text(shown.efficiency_ratio)} efficient ({shown.point.scaling} scaling"
        f"{', ' + where if where else ''})"
    )
    if best is not top and best is not base:
        text += f"; beyond that a doubling gains less than {WORTH_PER_DOUBLING:g}x"
    text += "."
    voids = [f for f in findings if f.level == "void"]
    if voids:
        text += f" But {len(voids)} of the figures cannot be right: {voids[0].message}."
    elif found.projections:
        far = found.projections[-1]
        text += (
            f" {far.workers} workers would take {duration_text(far.time_s.value)} "
            f"({duration_text(far.time_s.low)} to {duration_text(far.time_s.high)}) per {_WHAT[far.time_kind]}."
        )
    return text


_WHAT = {"step": "step", "epoch": "epoch", "job": "training", "sample": "sample"}


def _longest(profiles: Sequence[Profile]) -> list[Profile]:
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        if profile.state == "ok" and profile.speedup is not None:
            groups.setdefault(series_key(profile.point), []).append(profile)
    longest = max(
        groups.values(), key=lambda g: (not incomparable(g), len({p.point.workers for p in g})), default=[]
    )
    return sorted(longest, key=lambda p: (p.point.workers, p.point.nodes))


def _worthwhile(curve: Sequence[Profile]) -> Profile:
    """The largest count at which every doubling so far gained at least 1.5x."""
    best = curve[0]
    for before, after in pairwise(curve):
        if before.speedup is None or after.speedup is None or after.point.workers == before.point.workers:
            continue
        doublings = log2(after.point.workers / before.point.workers)
        if (after.speedup.value / before.speedup.value) ** (1 / doublings) < WORTH_PER_DOUBLING:
            break
        best = after
    return best


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
