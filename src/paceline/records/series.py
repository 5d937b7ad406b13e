"""Points that are compared as worker counts of one line: what they share, and what each line is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.records.profile import Profile
from paceline.records.study import Point

__all__ = ["Series", "series_names"]


@dataclass(frozen=True, slots=True)
class Series:
    """Profiles that differ in the worker count alone, fewest workers first."""

    name: str  # what sets it apart from the others it was found with; empty where it is alone
    profiles: tuple[Profile, ...]  # at least one

    @property
    def key(self) -> tuple[object, ...]:
        """What its Points share."""
        return self.baseline.point.series

    @property
    def baseline(self) -> Profile:
        """What its speed-ups are relative to, where it has any."""
        return self.profiles[0]


def series_names(points: Sequence[Point]) -> dict[Point, str]:
    """Point -> the name of its line; only what differs between lines is said."""
    parts = {point: _parts(point) for point in points}
    places: dict[tuple[object, ...], set[int]] = {}
    for point in points:
        places.setdefault((point.workers, *parts[point].values()), set()).add(point.nodes)
    if any(len(nodes) > 1 for nodes in places.values()):  # one count on several numbers of nodes
        for point in points:
            parts[point]["nodes"] = f"{point.nodes} node{'' if point.nodes == 1 else 's'}"
    keys = {key for own in parts.values() for key in own}
    differing = {key for key in keys if len({own.get(key) for own in parts.values()}) > 1}
    names = {}
    for point in points:
        own = [text for key, text in parts[point].items() if key in differing]
        names[point] = ", ".join(own) or f"{point.scaling} scaling"
    return names


def _parts(point: Point) -> dict[str, str]:
    """Everything but the worker count that sets a point apart, in words."""
    parts = {}
    batch = point.per_worker_batch if point.scaling == "weak" else point.global_batch
    if batch is None:
        parts["scaling"] = f"{point.scaling} scaling"
    else:
        parts["batch"] = f"{batch} per worker" if point.scaling == "weak" else f"{batch} in all"
    if point.backend:
        parts["backend"] = point.backend
    if point.variant != "as_is":
        parts["variant"] = point.variant
    parts |= {flag: f"{flag.lstrip('-')} {value}" for flag, value in point.varied}
    return parts
