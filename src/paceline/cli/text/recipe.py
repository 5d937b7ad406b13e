"""How the answers of a recipe are printed."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.cli.text.terminal import fitted
from paceline.records import Analysis

__all__ = ["answer_lines"]


def answer_lines(analysis: Analysis, *, width: int | None) -> Iterator[str]:
    """Questions and answers, a line of an answer on a line of its own where the width allows."""
    yield "What was asked, and what this study says:"
    for answer in analysis.answers:
        yield f"  {answer.question}"
        for line in answer.lines:
            yield from fitted(f"    {line}", width, indent=6)
