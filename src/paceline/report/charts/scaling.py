"""Speed-up and efficiency against workers, as Vega-Lite specifications: plain data, nothing is drawn here.

refused     a hatched region beyond the largest count that was measured or projected
ideal       a dotted line: speed-up = workers / workers of the Baseline, efficiency 100%
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt

from paceline.core.units import counts_text, estimate_text, is_wide, percent_text, workers_text
from paceline.records import Analysis, Profile, Scaling
from paceline.report.charts.dots import Dot, continued, cut_off, diamonds, dots_chart, first_lines, line_names
from paceline.report.charts.fit_layers import fit_layers
from paceline.report.charts.series import lines, projected_lines, scalings, told_line, unit_of
from paceline.report.charts.theme import GRID, INK, MUTED, whole, worker_axis
from paceline.report.document import Figure, Spec

__all__ = ["scaling_figures"]

_WIDTH, _HEIGHT = 430, 300
_HATCHES = 22
_FITTED = " Thin grey line: our fit."
_SLANT = 0.35  # width of a hatch over the width of the chart


@dataclass(frozen=True, slots=True)
class _Frame:
    """The rectangle of a chart in its own units. Workers double along x; y doubles too, or is linear."""

    counts: tuple[int, ...]
    low: float
    high: float
    doubling: bool

    def at(self, u: float, v: float) -> tuple[float, float]:
        """Workers and value at shares of the width and height."""
        left, right = min(self.counts) / 1.12, max(self.counts) * 1.12
        y = self.low * (self.high / self.low) ** v if self.doubling else self.low + (self.high - self.low) * v
        return left * (right / left) ** u, y


def scaling_figures(analysis: Analysis) -> tuple[Figure, ...]:
    """Speed-up and efficiency, weak and strong scaling apart."""
    figures = (
        f for mode in scalings(analysis) for f in (_speedup(analysis, mode), _efficiency(analysis, mode))
    )
    return tuple(figure for figure in figures if figure is not None)


def _speedup(analysis: Analysis, mode: Scaling) -> Figure:
    measured, projected, left = _dots(analysis, mode, "speedup")
    bases = _bases(lines(analysis, mode))
    counts = _counts(analysis, measured + projected, bases)
    values = [dot.value.value for dot in measured + projected]
    high = max([*values, max(dot.workers for dot in measured + projected) / bases[0]]) * 1.2
    lowest = min([1.0, *values])
    ends = [dot.value.low for dot in measured if dot.value.low is not None and dot.value.low > lowest / 2]
    frame = _Frame(counts, min([lowest, *ends]) / 1.25, high, doubling=True)
    most = max(dot.workers for dot in measured)
    title = f"Speed-up, {mode} scaling"
    fits = fit_layers(analysis, list(lines(analysis, mode).values()), "speedup")
    layers = [
        *_refused(frame, analysis, measured + projected),
        *(
            layer
            for base in bases
            for layer in _ideal([(base, 1.0), (max(counts), max(counts) / base)], label_at=most / base)
        ),
        *fits,
        *continued(measured, projected),
        dots_chart(measured, label=lambda value: f"{value:.2f}×", text=estimate_text, dy=13),
        *diamonds(projected, line_names(measured), text=estimate_text, rising=True),
    ]
    axis: Spec = {
        "title": "speed-up",
        "scale": {"type": "log", "base": 2, "domain": [frame.low, frame.high], "nice": False},
        "axis": {"format": "~g", "tickCount": 5},
    }
    how = f"{_explained(measured, projected, analysis)}{_FITTED if fits else ''}"
    return Figure(
        f"speedup-{mode}",
        title,
        f"Speed-up against {unit_of(analysis)}s, both doubling, relative to {_bases_text(bases, unit_of(analysis))}.",
        _chart(layers, frame, axis, title, unit_of(analysis)),
        how=how + cut_off(measured, frame.low, frame.high) + left,
    )


def _efficiency(analysis: Analysis, mode: Scaling) -> Figure | None:
    measured, projected, left = _dots(analysis, mode, "efficiency_ratio")
    if not measured:  # a speed-up may be known where no efficiency is
        return None
    counts = _counts(analysis, measured + projected, _bases(lines(analysis, mode)))
    frame = _Frame(
        counts, 0.0, max([1.0, *(dot.value.value for dot in measured + projected)]) * 1.15, doubling=False
    )
    title = f"Efficiency, {mode} scaling"
    fits = fit_layers(analysis, list(lines(analysis, mode).values()), "efficiency_ratio")
    layers = [
        *_refused(frame, analysis, measured + projected),
        *_ideal([(min(counts), 1.0), (max(counts), 1.0)], label_at=None),
        *fits,
        *continued(measured, projected),
        dots_chart(measured, label=percent_text, text=percent_text, dy=-11),
        *diamonds(projected, line_names(measured), text=percent_text, rising=False),
    ]
    axis: Spec = {
        "title": "efficiency",
        "scale": {"domain": [frame.low, frame.high], "nice": False},
        "axis": {"format": ".0%", "tickCount": 5},
    }
    how = f"{_explained(measured, projected, analysis)}{_FITTED if fits else ''}"
    return Figure(
        f"efficiency-{mode}",
        title,
        f"Efficiency (speed-up per {unit_of(analysis)}, percent) against {unit_of(analysis)}s.",
        _chart(layers, frame, axis, title, unit_of(analysis)),
        how=how + cut_off(measured, frame.low, frame.high) + left,
    )


def _ideal(ends: Sequence[tuple[int, float]], *, label_at: float | None) -> list[Spec]:
    """A dotted line and its name: beside the line at a share of its first count, or above its beginning."""
    rows = [{"workers": workers, "value": value} for workers, value in ends]
    first, value = ends[0]
    if label_at is None:
        place, mark = {"workers": first, "value": value}, {"align": "left", "dx": 12, "dy": -12}
    else:
        half = sqrt(label_at)
        place, mark = (
            {"workers": first * half, "value": value * half},
            {"align": "right", "dx": -12, "dy": -4},
        )
    return [
        {
            "data": {"values": rows},
            "mark": {
                "type": "line",
                "color": MUTED,
                "strokeDash": [1, 4],
                "strokeCap": "round",
                "strokeWidth": 2,
                "clip": True,
            },
        },
        {
            "data": {"values": [place]},
            "mark": {"type": "text", "fontStyle": "italic", **mark},
            "encoding": {"text": {"value": "ideal"}},
        },
    ]


def _refused(frame: _Frame, analysis: Analysis, shown: Sequence[Dot]) -> list[Spec]:
    """The hatched region: from halfway between the last shown and the first refused count to the right edge."""
    last = max(dot.workers for dot in shown)
    beyond = _beyond(analysis, shown)
    if not beyond:
        return []
    left, right = frame.at(0, 0)[0], frame.at(1, 0)[0]
    edge = log2(sqrt(last * min(beyond)) / left) / log2(right / left)
    hatches = []
    for k in range(_HATCHES):
        start = edge - _SLANT + k * (1 - edge + _SLANT) / _HATCHES
        bottom, top = max(0.0, (edge - start) / _SLANT), min(1.0, (1 - start) / _SLANT)
        (x, y), (x2, y2) = frame.at(start + _SLANT * bottom, bottom), frame.at(start + _SLANT * top, top)
        hatches.append({"workers": x, "value": y, "workers2": x2, "value2": y2})
    right, height = frame.at(1, 0.06)
    return [
        {
            "data": {"values": hatches},
            "mark": {"type": "rule", "color": GRID, "strokeWidth": 1.5},
            "encoding": {"x2": {"field": "workers2"}, "y2": {"field": "value2"}},
        },
        {
            "data": {"values": [{"workers": right, "value": height}]},
            "mark": {"type": "text", "fontStyle": "italic", "color": INK, "align": "right", "dx": -2},
            "encoding": {"text": {"value": "no prediction"}},
        },
    ]


def _chart(layers: Sequence[Spec], frame: _Frame, axis: Spec, title: str, unit: str) -> Spec:
    y: Spec = {"field": "value", "type": "quantitative", **axis}
    encoding: Spec = {"x": worker_axis(frame.counts, unit), "y": y}
    spec: Spec = {"width": _WIDTH, "height": _HEIGHT, "encoding": encoding, "layer": list(layers)}
    return whole(spec, description=title)


def _dots(analysis: Analysis, mode: Scaling, quantity: str) -> tuple[list[Dot], list[Dot], str]:
    """Measured and projected values of one quantity, and a sentence where lines had to be left out."""
    measured = [
        Dot(name, profile.point.workers, value)
        for name, own in lines(analysis, mode).items()
        for profile in own
        if (value := getattr(profile, quantity)) is not None and value.value > 0
    ]
    projected = [
        Dot(name, projection.workers, value, vague=is_wide(projection.time_s))
        for name, own in projected_lines(analysis, mode).items()
        for projection in own
        if (value := getattr(projection, quantity)) is not None and value.value > 0
    ]
    shown, left = first_lines(measured, keep=told_line(analysis, mode))
    kept = {"", *line_names(shown)}
    return shown, [dot for dot in projected if dot.line in kept], left


def _bases(found: Mapping[str, Sequence[Profile]]) -> list[int]:
    """The worker counts that speed-up is relative to, one per line, each named once."""
    return sorted({_base(own) for own in found.values()})


def _base(own: Sequence[Profile]) -> int:
    """The Baseline of one line, from the definition: efficiency = speed-up / (workers / base)."""
    for profile in own:
        if profile.speedup and profile.efficiency_ratio:
            base = profile.point.workers * profile.efficiency_ratio.value / profile.speedup.value
            if 1 <= base <= profile.point.workers:
                return round(base)
    return min(profile.point.workers for profile in own)


def _bases_text(bases: Sequence[int], unit: str) -> str:
    if len(bases) > 1:
        return f"{' or '.join(str(base) for base in bases)} {unit}s, each line to its own baseline"
    return workers_text(bases[0], unit)


def _counts(analysis: Analysis, shown: Sequence[Dot], bases: Sequence[int]) -> tuple[int, ...]:
    """Every worker count that the chart must have room for."""
    return tuple(sorted({*bases, *(dot.workers for dot in shown), *_beyond(analysis, shown)}))


def _beyond(analysis: Analysis, shown: Sequence[Dot]) -> list[int]:
    """Refused counts beyond everything that is shown."""
    last = max(dot.workers for dot in shown)
    return [refusal.workers for refusal in analysis.refusals if refusal.workers > last]


def _explained(measured: Sequence[Dot], projected: Sequence[Dot], analysis: Analysis) -> str:
    intervals = any(dot.value.low is not None for dot in measured)
    text = f"Circles: measured{', with 90% intervals over runs' if intervals else ''}. Dotted: ideal."
    if projected:
        text += " Diamonds, dashed: predicted, with 90% intervals."
    if vague := sorted({dot.workers for dot in projected if dot.vague}):
        text += f" At {counts_text(vague)} workers the prediction is a rough guess."
    hatched = bool(_beyond(analysis, [*measured, *projected]))
    return text + (" Hatched: no prediction." if hatched else "")
