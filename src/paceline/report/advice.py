"""What to do, as a reader wants it: goals that lead to the same setting under the same condition are said once."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.core.units import range_text
from paceline.core.words import GOALS
from paceline.records import Analysis, Recommendation

__all__ = ["Advice", "advice"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence with its condition, and the goals that it serves."""

    goals: str
    text: str
    why: str  # more sentences, or none
    lr_rule: str | None
    condition: str
    gain: str = ""  # with its interval, where the sentence gives a ratio that was measured without one
    series: str = ""  # whose advice it is, where a study has several
    standing: str = ""  # `projected`, or `doubtful` where it may as well gain nothing

    @property
    def sentences(self) -> str:
        """All of it, without the last full stop."""
        said = f"{self.series}: {self.text}" if self.series else self.text
        return f"{said}. {self.why}" if self.why else said


_OTHER_GAIN = ("energy", "lr-rule", "time-to-accuracy", "next-measurement", "pareto")  # theirs is no speed


def advice(analysis: Analysis) -> tuple[Advice, ...]:
    """The Recommendations in their order, equal ones joined."""
    found: dict[tuple[str, str, str | None, str], list[Recommendation]] = {}
    for item in analysis.recommendations:
        found.setdefault((item.series, item.text, item.lr_rule, item.condition), []).append(item)
    return tuple(
        Advice(
            ", ".join(GOALS.get(item.goal, item.goal) for item in items),
            items[0].text,
            max((item.why for item in items), key=len),
            rule,
            condition,
            _gain(items[0]),
            series,
            _standing(items[0]),
        )
        for (series, _, rule, condition), items in found.items()
    )


def _gain(item: Recommendation) -> str:
    """The interval that a measured ratio stands in: the sentence gives the ratio alone."""
    if not _has_interval(item) or item.goal in _OTHER_GAIN or not item.measured:
        return ""
    return f"With its 90% interval: {range_text(item.gain, unit='x')} the speed." if item.gain else ""


def _standing(item: Recommendation) -> str:
    gain = item.gain
    if gain is not None and _has_interval(item) and item.goal not in _OTHER_GAIN and (gain.low or 0) <= 1:
        return "doubtful"
    return "projected" if not item.measured else ""


def _has_interval(item: Recommendation) -> bool:
    return item.gain is not None and item.gain.low is not None and item.gain.low != item.gain.high
