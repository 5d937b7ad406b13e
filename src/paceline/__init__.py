"""Paceline: how many workers should I train on, and what holds me back?

    import paceline

    found = paceline.study("train.py", "--batch-size", 32, workers=[1, 2, 4])
    found.verdict, found.to_dataframe(), found.figure("speedup")

The desk. It plans, launches, reads, computes and reports; it never imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.api import Picture, Result, advise, analyze, load, project, study

__all__ = ["Picture", "Result", "__version__", "advise", "analyze", "load", "project", "study"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """The verbs when they are used: `import paceline` costs nothing, and the command line needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from paceline import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
