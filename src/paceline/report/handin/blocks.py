"""What a lab report consists of, before it is Markdown or LaTeX."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.report.document import Figure, Table

__all__ = ["Blank", "Block", "Formula", "Heading", "Sentence"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A section of the lab report."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """Something that is known."""

    text: str


@dataclass(frozen=True, slots=True)
class Formula:
    """One quantity with the student's numbers, as TeX: symbol = rule = numbers = result."""

    tex: str


@dataclass(frozen=True, slots=True)
class Blank:
    """A question to the student."""

    question: str


Block = Heading | Sentence | Formula | Blank | Table | Figure
