"""The recipes that ship with Paceline: what each lab asked, and a study.toml per preset."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable

from pydantic import BaseModel, ConfigDict

from paceline.analysis.recipe import Question, Recipe, Recorded
from paceline.core.errors import UsageError
from paceline.records import Study
from paceline.store.study_schema import StudyFile, study_of

__all__ = ["read_recipe", "recipe_names"]


class RecordedFile(BaseModel):
    """A recorded table that ships with the recipe, and which questions it answers too."""

    model_config = ConfigDict(extra="forbid")

    table: str
    what: str
    asks: list[Question]


class RecipeFile(BaseModel):
    """One recipe on disk; each preset is what a study.toml may hold."""

    model_config = ConfigDict(extra="forbid")

    title: str
    asks: list[Question]
    data: str
    note: str
    project: list[int] = []
    recorded: RecordedFile | None = None
    laptop: StudyFile
    lab: StudyFile


def recipe_names() -> tuple[str, ...]:
    """Every recipe, by name."""
    return tuple(
        sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml"))
    )


def read_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in recipe_names():
        alike = get_close_matches(name, recipe_names(), n=1)
        hint = f"paceline recipe run {alike[0]}" if alike else "paceline recipe list"
        raise UsageError(f"there is no recipe {name!r}", hint=hint)
    file = RecipeFile.model_validate(tomllib.loads(_folder().joinpath(f"{name}.toml").read_text("utf-8")))
    return Recipe(
        name=name,
        title=file.title,
        asks=tuple(file.asks),
        data=file.data,
        note=file.note,
        studies={"laptop": _study(name, file.laptop), "lab": _study(name, file.lab)},
        project=tuple(file.project),
        recorded=_recorded(file.recorded),
    )


def _recorded(file: RecordedFile | None) -> Recorded | None:
    if file is None:
        return None
    table = files("paceline.data").joinpath("labs", f"{file.table}.csv").read_text("utf-8")
    return Recorded(table, file.what, tuple(file.asks))


def _study(name: str, asked: StudyFile) -> Study:
    """The study under the recipe's name, so that whoever reads its folder later knows what was asked."""
    return replace(study_of(asked), name=name, recipe=name)


def _folder() -> Traversable:
    return files("paceline.data").joinpath("recipes")
