"""The recipes that ship with Paceline: what each lab asked, and a study.toml per preset."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable

from pydantic import BaseModel, ConfigDict

from paceline.errors import UsageError
from paceline.recipe import Question, Recipe
from paceline.store.study_schema import StudyFile, study_of

__all__ = ["read_recipe", "recipe_names"]


class RecipeFile(BaseModel):
    """One recipe on disk; each preset is what a study.toml may hold."""

    model_config = ConfigDict(extra="forbid")

    title: str
    asks: list[Question]
    data: str
    note: str
    project: list[int] = []
    samples: int | None = None
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
        raise UsageError(f"there is no recipe {name!r}", hint="paceline recipe list")
    file = RecipeFile.model_validate(tomllib.loads(_folder().joinpath(f"{name}.toml").read_text("utf-8")))
    return Recipe(
        name=name,
        title=file.title,
        asks=tuple(file.asks),
        data=file.data,
        note=file.note,
        studies={"laptop": study_of(file.laptop), "lab": study_of(file.lab)},
        project=tuple(file.project),
        samples=file.samples,
    )


def _folder() -> Traversable:
    return files("paceline.data").joinpath("recipes")
