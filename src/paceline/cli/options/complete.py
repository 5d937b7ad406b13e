"""What the Tab key offers after a verb. Where nothing is offered the shell completes names of files."""

from __future__ import annotations

from paceline.data import shipped
from paceline.launch.interpreter import workload_names
from paceline.store.recipe_file import recipe_names

__all__ = ["datasets", "recipes", "workloads"]


def recipes(incomplete: str) -> list[str]:
    """The recipes that begin so."""
    return [name for name in recipe_names() if name.startswith(incomplete)]


def datasets(incomplete: str) -> list[str]:
    """The published data that begin so."""
    return [name for name in shipped("datasets") if name.startswith(incomplete)]


def workloads(incomplete: str) -> list[str]:
    """The workloads that begin so; none before the first letter, for a script is as likely and the shell knows it."""
    return [name for name in workload_names() if incomplete and name.startswith(incomplete)]
