"""Constants that ship with Paceline (hardware, published data sets, what centres ask), each with source and date."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Literal

__all__ = ["shipped"]


def shipped(name: Literal["gpus", "links", "datasets", "centres"]) -> dict[str, dict[str, object]]:
    """One of the shipped files, as its rows by name."""
    return tomllib.loads(files("paceline.data").joinpath(f"{name}.toml").read_text("utf-8"))
