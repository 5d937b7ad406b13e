"""The one noun that every other record rests on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, its 90% interval (None where one observation cannot give one), and the observations behind it."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1
