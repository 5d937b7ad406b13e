"""What a table says, as text for a terminal: verdict, points, projections, refusals, advice, findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2

from tabulate import tabulate

from paceline.measured import series_key
from paceline.records import Analysis, Estimate, Fit, Profile, Projection, Recommendation, Refusal
from paceline.units import duration_text, estimate_text, percent_text

__all__ = ["advice_text", "answers_text", "table_text"]

_MARKS = {"note": "note ", "doubt": "DOUBT", "void": "VOID "}
_MOST = 40


def table_text(analysis: Analysis, understood: Sequence[str]) -> str:
    """The whole answer."""
    parts = ["Understood: " + "; ".join(understood), ""] if understood else []
    parts += [analysis.verdict, "", _points(analysis.points)]
    parts += answers_text(analysis)
    return "\n".join(parts)


def answers_text(analysis: Analysis) -> list[str]:
    """Everything after the points."""
    parts: list[str] = []
    if analysis.projections:
        parts += ["", "Projected (90 % prediction intervals):", _projections(analysis.projections)]
    if analysis.fit is not None:
        parts += ["", *_fit(analysis.fit)]
    if analysis.refusals:
        parts += ["", *_refusals(analysis.refusals)]
    if analysis.convergence is not None and analysis.convergence.critical_global_batch is not None:
        critical = analysis.convergence.critical_global_batch
        parts += [
            "",
            f"Critical global batch: {_range(critical)} samples (beyond it more batch needs more epochs)",
        ]
    if analysis.recommendations:
        parts += ["", advice_text(analysis.recommendations)]
    if analysis.findings:
        parts += ["", *_findings(analysis)]
    return parts


def _refusals(refusals: Sequence[Refusal]) -> Iterator[str]:
    """What was not projected, and what only as an order of magnitude; the same reason once."""
    for refusal in refusals[:_MOST]:
        word = "wide" if refusal.rule == "wide-interval" else f"not projected: {refusal.workers} workers"
        yield f"{word}: {refusal.reason} [{refusal.rule}]"
        yield f"       next: {refusal.would_help}"


def advice_text(recommendations: Sequence[Recommendation]) -> str:
    """One line per goal, with the condition under which it holds."""
    return "\n".join(f"{r.goal}: {r.text} ({r.condition})" for r in recommendations)


def _points(points: Sequence[Profile]) -> str:
    rows = []
    for profile in points[:_MOST]:
        point = profile.point
        time = profile.epoch_s or profile.job_s or profile.step_s
        rows.append(
            [
                point.id,
                point.workers,
                point.global_batch if point.global_batch is not None else "–",
                duration_text(time.value) if time else "–",
                estimate_text(profile.throughput_per_s),
                "–" if profile.speedup is None else f"{profile.speedup.value:.2f}",
                percent_text(profile.efficiency_ratio),
                _per_doubling(profile, points),
                _device_seconds(profile),
                point.scaling,
                profile.state,
            ]
        )
    heads = ["point", "workers", "global batch", "time", "samples/s", "speed-up", "efficiency",
             "per doubling", "worker-s", "scaling", "state"]  # fmt: skip
    more = f"\n… and {len(points) - _MOST} more (--json shows all)" if len(points) > _MOST else ""
    return tabulate(rows, headers=heads, tablefmt="simple", disable_numparse=True) + more


def _per_doubling(profile: Profile, points: Sequence[Profile]) -> str:
    """What the last doubling of workers gained, against the next smaller count of the same series."""
    smaller = [
        p
        for p in points
        if series_key(p.point) == series_key(profile.point)
        and p.point.workers < profile.point.workers
        and p.speedup is not None
    ]
    before = max(smaller, key=lambda p: p.point.workers, default=None)
    if before is None or before.speedup is None or profile.speedup is None:
        return "–"
    doublings = log2(profile.point.workers / before.point.workers)
    return f"{(profile.speedup.value / before.speedup.value) ** (1 / doublings):.2f}x"


def _device_seconds(profile: Profile) -> str:
    time = profile.epoch_s or profile.job_s or profile.step_s
    return "–" if time is None else f"{time.value * profile.point.workers:.4g}"


def _projections(projections: Sequence[Projection]) -> str:
    rows = [
        [
            p.workers,
            p.nodes,
            p.per_worker_batch if p.per_worker_batch is not None else "–",
            f"{duration_text(p.time_s.value)} ({duration_text(p.time_s.low)} to {duration_text(p.time_s.high)})",
            "–" if p.speedup is None else _range(p.speedup),
            percent_text(p.efficiency_ratio),
            p.explanation,
        ]
        for p in projections[:_MOST]
    ]
    what = projections[0].time_kind
    heads = ["workers", "nodes", "per worker", f"time of one {what}", "speed-up", "efficiency", "why"]
    return tabulate(rows, headers=heads, tablefmt="simple", disable_numparse=True)


def _fit(fit: Fit) -> Iterator[str]:
    yield f"Fit: {fit.explanation}."
    known = {name: error for name, error in fit.held_out_error.items() if error is not None}
    if known:
        listed = ", ".join(
            f"{name} {percent_text(error)}" for name, error in sorted(known.items(), key=lambda e: e[1])
        )
        yield f"Error at the largest count when it is held out: {listed}."


def _findings(analysis: Analysis) -> Iterator[str]:
    for finding in analysis.findings[:_MOST]:
        yield f"{_MARKS[finding.level]}  {finding.message} [{finding.id}]"
        if finding.hint:
            yield f"       next: {finding.hint}"


def _range(quantity: Estimate) -> str:
    if quantity.low is None or quantity.high is None:
        return f"{quantity.value:.3g}"
    return f"{quantity.value:.3g} ({quantity.low:.3g}-{quantity.high:.3g})"
