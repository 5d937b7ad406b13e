"""What to do, as a reader wants it: goals that lead to the same setting under the same condition are said once."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.records import Analysis

__all__ = ["WORDS", "Advice", "advice"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence with its condition, and the goals that it serves."""

    goals: str
    text: str
    lr_rule: str | None
    condition: str


WORDS = {
    "knee": "worth its workers",
    "pareto": "sensible choices",
    "energy": "least energy",
    "lr-rule": "learning rate",
    "next-measurement": "measure next",
}  # goals that do not speak for themselves


def advice(analysis: Analysis) -> tuple[Advice, ...]:
    """The Recommendations in their order, equal ones joined."""
    goals: dict[tuple[str, str | None, str], list[str]] = {}
    for found in analysis.recommendations:
        goals.setdefault((found.text, found.lr_rule, found.condition), []).append(found.goal)
    return tuple(
        Advice(", ".join(WORDS.get(name, name) for name in names), text, rule, condition)
        for (text, rule, condition), names in goals.items()
    )
