"""A recipe: a classic multi-worker lab as a study that anybody can repeat, in a small and in the lab's own size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from paceline.records import Study

__all__ = ["PRESETS", "Preset", "Question", "Recipe", "Recorded"]

Preset = Literal["laptop", "lab"]
Question = Literal[
    "time", "turnaround", "loss", "accuracy", "plateau", "fastest", "rule", "utilisation", "batch", "steps",
    "project", "bytes", "backends", "grid", "memory", "exchange", "remedies",
]  # fmt: skip

PRESETS: tuple[Preset, ...] = ("laptop", "lab")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What others measured on machines that this one is not: a table, what it is, and the questions it answers too."""

    table: str  # its text
    what: str
    asks: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a lab asked, and the study that answers it."""

    name: str
    title: str
    asks: tuple[Question, ...]
    data: str
    note: str
    studies: Mapping[Preset, Study]
    project: tuple[int, ...] = ()  # worker counts to project to
    recorded: Recorded | None = None
