"""What a study of a recipe answers to its questions, and how that is printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from textwrap import wrap

from paceline.recipe import Recipe
from paceline.recipe_learnt import learnt
from paceline.records import Analysis, Study
from paceline.store.recipe_file import read_recipe, recipe_names

__all__ = ["answer_lines", "recipe_of", "with_answers"]

_WIDTH = 116


def recipe_of(study: Study) -> Recipe | None:
    """The recipe that this study belongs to; None of a study of its own, or of a recipe that does not ship any more."""
    return read_recipe(study.recipe) if study.recipe in recipe_names() else None


def with_answers(analysis: Analysis, study: Study, chosen: Recipe) -> Analysis:
    """The Analysis with every question of the recipe answered from it."""
    return replace(analysis, answers=learnt(chosen, analysis, study))


def answer_lines(analysis: Analysis) -> Iterator[str]:
    """Questions and answers, wrapped for a terminal."""
    yield "What was asked, and what this study says:"
    for answer in analysis.answers:
        yield f"  {answer.question}"
        for line in answer.lines:
            yield from wrap(line, _WIDTH, initial_indent="    ", subsequent_indent="      ")
