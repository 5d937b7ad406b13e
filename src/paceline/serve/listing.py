"""One page of the list of studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.serve.folders import Found
from paceline.serve.standing import Watches

__all__ = ["Listing", "Row", "listing"]

PER_PAGE = 30


@dataclass(frozen=True, slots=True)
class Row:
    """One study in the list."""

    name: str
    standing: str
    running: bool
    failed: bool
    now: str | None  # what it is doing, while it runs
    complete: int
    planned: int | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the list, which study is shown beside it, and how many there are."""

    rows: tuple[Row, ...]
    chosen: str
    page: int
    pages: int
    studies: int


def listing(studies: Sequence[Found], watches: Watches, *, chosen: str, page: int) -> Listing:
    """The page asked for, or the nearest one that there is. Only the studies on it are looked into."""
    pages = max(1, -(-len(studies) // PER_PAGE))
    page = min(max(1, page), pages)
    rows = []
    for study in studies[(page - 1) * PER_PAGE : page * PER_PAGE]:
        standing = watches.standing(study)
        rows.append(
            Row(
                study.name,
                standing.text,
                standing.running,
                standing.all_failed,
                standing.now,
                standing.complete,
                standing.planned,
            )
        )
    return Listing(tuple(rows), chosen, page, pages, len(studies))
