"""What a reader sees first: three numbers, and two charts side by side. Nothing is computed but shares of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.core.stats import scaled
from paceline.core.units import duration_range_text, estimate_text, is_unusable, percent_text, workers_text
from paceline.records import Analysis, Estimate, Profile
from paceline.report.charts.grid import grid_figures
from paceline.report.charts.scaling import scaling_figures
from paceline.report.charts.stated import stated_parts_figure
from paceline.report.charts.steps import split_figure
from paceline.report.document import Figure

__all__ = ["Tile", "lead_figures", "tiles"]

_MOST = 3
_MOST_BARS = 6  # beside a speed-up chart
_MOST_GRIDS = 2  # side by side


@dataclass(frozen=True, slots=True)
class Tile:
    """One number with its name, and its interval or condition."""

    value: str
    name: str
    note: str


def tiles(analysis: Analysis) -> tuple[Tile, ...]:
    """At most three numbers, of the setting that the verdict compares; of a lone count its own."""
    shown = _shown(analysis)
    return () if shown is None else tuple(_tiles(analysis, shown))[:_MOST]


def _shown(analysis: Analysis) -> Profile | None:
    """The setting that the verdict is about."""
    found = analysis.verdict
    own = [p for p in analysis.points if p.point.id in found.points and p.state == "ok"]
    return next((p for p in own if p.point.workers == found.compared), own[-1] if own else None)


def _tiles(analysis: Analysis, shown: Profile) -> Iterator[Tile]:
    found, count = analysis.verdict, workers_text(shown.point.workers, shown.unit)
    if found.gain is not None and found.baseline is not None and not is_unusable(found.gain):
        yield Tile(f"{found.gain.value:.2f}x", f"speed-up with {count}", _interval(found.gain, "x"))
        if found.efficiency_ratio is not None:
            efficient = found.efficiency_ratio
            yield Tile(f"{efficient.value:.0%}", "efficiency", _percent_interval(efficient))
    step, rate = shown.step_s, shown.throughput_per_s
    if step is not None and shown.exposed_s is not None and shown.point.workers > 1:
        share = scaled(shown.exposed_s, 1.0 / step.value)
        if share is not None:
            yield Tile(f"{share.value:.0%}", "of the step is comm wait", f"{count}, step {_time(step)}")
    if rate is not None:
        yield Tile(estimate_text(Estimate(rate.value)), f"samples/s with {count}", _interval(rate, ""))
    if step is not None:
        yield Tile(_time(step), f"per step with {count}", "")
    if step is not None and shown.input_s is not None:
        yield Tile(f"{shown.input_s.value / step.value:.0%}", "of the step is data wait", "")


def _time(quantity: Estimate) -> str:
    return duration_range_text(Estimate(quantity.value))


def _interval(quantity: Estimate, unit: str) -> str:
    if quantity.low is None or quantity.high is None or quantity.low == quantity.high:
        return "one run, no interval"
    low, high = (estimate_text(Estimate(end)) for end in (quantity.low, quantity.high))
    return f"90% interval {low}-{high}{unit}"


def _percent_interval(share: Estimate) -> str:
    if share.low is None or share.high is None:
        return "one run, no interval"
    return "90% interval " + percent_text(share).split("(")[-1].rstrip(")")


def lead_figures(analysis: Analysis) -> tuple[Figure, ...]:
    """Speed-up of the verdict's series, beside the bars of its step, else beside efficiency; of a grid its maps."""
    found = scaling_figures(analysis)
    wanted = f"speedup-{analysis.verdict.scaling}"
    speedup = next((f for f in found if f.id == wanted), found[0] if found else None)
    measured = [p.point.id for p in analysis.points if p.step_s is not None and p.compute_s is not None]
    told = [name for name in measured if name in analysis.verdict.points] or measured
    bars = split_figure(analysis, only=told[-_MOST_BARS:])
    stated = stated_parts_figure(analysis, only=analysis.verdict.points[-_MOST_BARS:])
    beside = (
        bars or stated or next((f for f in found if f.id == wanted.replace("speedup", "efficiency")), None)
    )
    if speedup is None and (grids := grid_figures(analysis)):
        return grids[:_MOST_GRIDS]  # a grid at one count: its heat maps say what bars cannot
    return tuple(figure for figure in (speedup, beside) if figure is not None)
