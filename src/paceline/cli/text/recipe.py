"""What a study of a recipe answers to its questions, and how that is printed."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.analysis.recipe import Recipe
from paceline.cli.text.terminal import fitted
from paceline.records import Analysis, Study
from paceline.store.recipe_file import read_recipe, recipe_names

__all__ = ["answer_lines", "recipe_of"]


def recipe_of(study: Study) -> Recipe | None:
    """The recipe that this study belongs to; None of a study of its own, or of a recipe that does not ship any more."""
    return read_recipe(study.recipe) if study.recipe in recipe_names() else None


def answer_lines(analysis: Analysis, *, width: int | None) -> Iterator[str]:
    """Questions and answers, a line of an answer on a line of its own where the width allows."""
    yield "What was asked, and what this study says:"
    for answer in analysis.answers:
        yield f"  {answer.question}"
        for line in answer.lines:
            yield from fitted(f"    {line}", width, indent=6)
