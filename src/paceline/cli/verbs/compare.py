"""`paceline compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from tabulate import tabulate

from paceline.analysis.compare import Difference, differences
from paceline.analysis.condition import condition, violations
from paceline.cli.text.plan import print_json
from paceline.core.errors import NothingMeasured, ThresholdFailed
from paceline.core.units import estimate_text, percent_text
from paceline.records import Analysis
from paceline.source.anything import analysis_at

__all__ = ["check_thresholds", "compare"]

_NAMES = {
    "step_s": ("step ms", 1e3),
    "throughput_per_s": ("samples/s", 1.0),
    "efficiency_ratio": ("efficiency", 1.0),
    "exposed_s": ("comm wait ms", 1e3),
}


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A study folder, or an analysis.json.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other one.")],
    fail_if: Annotated[
        list[str] | None, typer.Option(help="Exit 3 if this holds for B: 'efficiency@4<0.7'.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
) -> None:
    """Compare two studies setting by setting. "No difference shown" is an answer."""
    before, after = analysis_at(a), analysis_at(b)
    found = differences(before, after)
    if not found:
        raise NothingMeasured(
            f"{a} and {b} have no measured setting in common",
            hint="study the same worker counts, batches and flags in both",
        )
    if json:
        print_json([{**asdict(difference), "shown": difference.shown} for difference in found])
    else:
        print(_text(found))
    check_thresholds(after, fail_if or [])


def check_thresholds(analysis: Analysis, texts: Sequence[str]) -> None:
    """ThresholdFailed when one of the conditions holds."""
    for asked in [condition(text) for text in texts]:
        found = violations(asked, analysis)
        if found:
            where, seen = found[0]
            value = percent_text(seen) if asked.field.endswith("_ratio") else estimate_text(seen)
            low, high = seen.low, seen.high
            across = low is not None and high is not None and low < asked.limit < high
            doubt = "; its interval reaches across the limit: add --repeats" if across else ""
            more = f", and at {len(found) - 1} more" if len(found) > 1 else ""
            raise ThresholdFailed(
                f"{asked.text} holds: measured {value} at {where.point.id}{more}{doubt}",
                hint="paceline show STUDY",
            )


def _text(found: Sequence[Difference]) -> str:
    steps = [difference for difference in found if difference.quantity == "step_s"]
    shown = [difference for difference in steps if difference.shown]
    if shown:
        most = max(shown, key=lambda d: abs((d.ratio.value if d.ratio else 1.0) - 1.0))
        word = "longer" if most.ratio and most.ratio.value > 1 else "shorter"
        change = abs((most.ratio.value if most.ratio else 1.0) - 1.0)
        verdict = (
            f"B differs at {len(shown)} of {len(steps)} settings; "
            f"at {most.point} its step is {change:.0%} {word}."
        )
    elif any(difference.shown is None for difference in steps):
        verdict = "No difference shown: a setting with one run has no interval; add --repeats."
    else:
        verdict = f"No difference shown at {len(steps)} settings."
    rows = [
        [
            difference.point,
            _NAMES[difference.quantity][0],
            estimate_text(difference.a, factor=_NAMES[difference.quantity][1]),
            estimate_text(difference.b, factor=_NAMES[difference.quantity][1]),
            estimate_text(difference.ratio),
            {True: "yes", False: "not shown", None: "too few runs"}[difference.shown],
        ]
        for difference in found
    ]
    table = tabulate(
        rows, headers=("setting", "quantity", "A", "B", "B / A", "difference"), disable_numparse=True
    )
    return f"{verdict}\n\n{table}"
