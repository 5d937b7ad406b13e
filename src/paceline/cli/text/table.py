"""What a table or a projected study says, as text for a terminal: verdict, points, projections, advice, findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from tabulate import tabulate

from paceline.cli.text.answer import finding_lines
from paceline.cli.text.memory import memory_text
from paceline.cli.text.terminal import fitted
from paceline.core.units import (
    TIME_OF,
    counts_text,
    duration_range_text,
    duration_text,
    gain_text,
    percent_text,
    range_text,
    rough_text,
)
from paceline.core.words import GOALS
from paceline.decide.sentence import verdict_text
from paceline.measure.doubling import doublings
from paceline.predict.observations import time_of
from paceline.records import Analysis, Fit, Profile, Projection, Recommendation, Refusal, TimeKind
from paceline.report.charts.series import unit_of
from paceline.report.commands import with_commands

__all__ = ["advice_text", "answers_text", "table_text"]

_MOST = 40
_WIDTH = 110
_WHY_WIDTH = 56
_UNKNOWN = "–"
_KINDS: tuple[TimeKind, ...] = ("step", "epoch", "job", "sample")


def table_text(analysis: Analysis) -> str:
    """The whole answer."""
    understood = analysis.source.get("understood")
    parts = ["Understood:"] if understood else []
    for column in understood if isinstance(understood, list) else ():
        parts += _wrapped(f"  {column}", indent=4)
    parts += [""] if understood else []
    named = analysis.source.get("time_kind", "step")
    kind: TimeKind = next((known for known in _KINDS if known == named), "step")
    parts += [*_wrapped(verdict_text(analysis.verdict)), "", _points(analysis.points, kind)]
    parts += answers_text(analysis)
    return "\n".join(parts)


def answers_text(analysis: Analysis) -> list[str]:
    """Everything after the points."""
    parts: list[str] = []
    if analysis.projections:
        shown = _projections(analysis.projections, unit_of(analysis))
        parts += ["", "Predicted, not measured (90% intervals):", shown]
    if analysis.refusals:
        parts += ["", *_refusals(analysis.refusals, unit_of(analysis))]
    if memory := memory_text(analysis, most=_MOST):
        parts += ["", *memory]
    if analysis.fit is not None:
        parts += ["", *_fit(analysis.fit)]
    if analysis.convergence is not None and analysis.convergence.critical_global_batch is not None:
        critical = range_text(analysis.convergence.critical_global_batch)
        parts += ["", f"Critical global batch: {critical} samples; beyond it more batch needs more epochs."]
    if analysis.recommendations:
        parts += ["", "Advice:", advice_text(analysis.recommendations)]
    if analysis.findings:
        parts.append("")
        parts += finding_lines(with_commands(analysis).findings, folder="STUDY", width=_WIDTH)
    return parts


def advice_text(recommendations: Sequence[Recommendation]) -> str:
    """One line per goal, then each condition once, with the goals it belongs to; nothing where nothing is advised."""
    if not recommendations:
        return ""
    lines: list[str] = []
    goals: dict[str, list[str]] = {}
    for recommendation in recommendations:
        lines += _wrapped(
            f"  {GOALS.get(recommendation.goal, recommendation.goal):<19}{recommendation.sentences}",
            indent=21,
        )
        goals.setdefault(recommendation.condition, []).append(
            GOALS.get(recommendation.goal, recommendation.goal)
        )
    lines.append("Conditions:")
    for condition, named in goals.items():
        lines += _wrapped(f"  {', '.join(named)}: {condition}", indent=4)
    return "\n".join(lines)


def _refusals(refusals: Sequence[Refusal], unit: str) -> Iterator[str]:
    """What was not projected, and what only as an order of magnitude; the same reason once."""
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refusals:
        wide = refusal.rule == "wide-interval"
        groups.setdefault((refusal.rule, "" if wide else refusal.reason), []).append(refusal)
    for (rule, reason), same in list(groups.items())[:_MOST]:
        counts = f"{counts_text(r.workers for r in same)} {unit}s"
        if rule == "wide-interval":
            text = f"unusable for {counts}: the interval is wider than 2x"
        else:
            text = f"no prediction for {counts}: {reason}"
        yield from _wrapped(f"{text} [{rule}]", indent=7)
        yield from _wrapped(f"       next: {same[-1].would_help}", indent=13)


def _points(points: Sequence[Profile], kind: TimeKind) -> str:
    rows = []
    for profile in points[:_MOST]:
        point, time = profile.point, time_of(profile, kind)
        rows.append(
            [
                point.id,
                str(point.workers),
                _UNKNOWN if point.global_batch is None else str(point.global_batch),
                _UNKNOWN if time is None else duration_text(time.value),
                rough_text(profile.throughput_per_s),
                gain_text(profile.speedup),
                percent_text(profile.efficiency_ratio),
                _per_doubling(profile, points),
                _UNKNOWN if time is None else f"{time.value * point.workers:.4g}",
                point.scaling,
                profile.state,
            ]
        )
    unit = points[0].unit if points else "worker"
    heads = ["setting", f"{unit}s", "global batch", f"time of one {TIME_OF[kind]}", "samples/s", "speed-up",
             "efficiency", "per doubling", f"{unit}-s", "scaling", "state"]  # fmt: skip
    more = f"\n… and {len(points) - _MOST} more (--json shows all)" if len(points) > _MOST else ""
    return _table(heads, rows) + more


def _per_doubling(profile: Profile, points: Sequence[Profile]) -> str:
    """What the last doubling of workers gained, in the same series."""
    series = [p for p in points if p.point.series == profile.point.series and p.speedup is not None]
    series.sort(key=lambda p: p.point.workers)
    gain = next((step.gain for step in doublings(series) if step.after is profile), None)
    return _UNKNOWN if gain is None else f"{gain.value:.2f}x"


def _projections(projections: Sequence[Projection], unit: str) -> str:
    rows = [
        [
            str(p.workers),
            str(p.nodes),
            _UNKNOWN if p.per_worker_batch is None else str(p.per_worker_batch),
            duration_range_text(p.time_s),
            gain_text(p.speedup),
            percent_text(p.efficiency_ratio),
            _UNKNOWN if p.time_to_accuracy_s is None else duration_range_text(p.time_to_accuracy_s),
            "\n".join(wrap(p.explanation, _WHY_WIDTH)),
        ]
        for p in projections[:_MOST]
    ]
    what = TIME_OF[projections[0].time_kind]
    heads = [f"{unit}s", "nodes", f"batch per {unit}", f"time of one {what}", "speed-up", "efficiency",
             "time to accuracy", "why"]  # fmt: skip
    more = f"\n… and {len(projections) - _MOST} more (--json shows all)" if len(projections) > _MOST else ""
    return _table(heads, rows) + more


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without the columns that say nothing."""
    empty = {"nodes": "1", "state": "ok"}
    kept = [
        i
        for i, head in enumerate(heads)
        if any(row[i] not in (_UNKNOWN, empty.get(head)) for row in rows) or not rows
    ]
    return tabulate(
        [[row[i] for i in kept] for row in rows],
        headers=[heads[i] for i in kept],
        tablefmt="simple",
        disable_numparse=True,
    )


def _fit(fit: Fit) -> Iterator[str]:
    yield from _wrapped(f"Fit: {fit.explanation}.", indent=2)
    known = {name: error for name, error in fit.held_out_error.items() if error is not None}
    if known:
        listed = ", ".join(
            f"{name} {percent_text(error)}" for name, error in sorted(known.items(), key=lambda e: e[1])
        )
        yield f"Error of a prediction of the largest count from the others: {listed}."


def _wrapped(text: str, *, indent: int = 0) -> list[str]:
    """Lines that any terminal shows whole."""
    return list(fitted(text, _WIDTH, indent=indent))
