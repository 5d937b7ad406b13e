"""Points that are compared as worker counts of one line, each line with a name that says what sets it apart."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core.units import workers_text
from paceline.records import Analysis, Profile, Projection, Scaling, series_names

__all__ = ["lines", "projected_lines", "scalings", "short_name", "told_line", "unit_of"]


def short_name(profile: Profile, name: str, *, alone: bool) -> str:
    """One setting in a few words: `2 workers`, and its line's name where there are several lines."""
    count = workers_text(profile.point.workers, profile.unit)
    return count if alone else f"{count}, {name}"


def unit_of(analysis: Analysis) -> str:
    """What a worker is called: GPU where every one of them is."""
    return "GPU" if analysis.points and all(p.unit == "GPU" for p in analysis.points) else "worker"


def scalings(analysis: Analysis) -> tuple[Scaling, ...]:
    """The scaling modes under which some line has more than one worker count, measured or projected."""
    modes: tuple[Scaling, ...] = ("weak", "strong")
    continued = {p.baseline for p in analysis.projections if p.baseline is not None and p.speedup is not None}
    return tuple(
        mode
        for mode in modes
        if any(
            _spans(own) or any(p.point.id in continued for p in own) for own in lines(analysis, mode).values()
        )
    )


def told_line(analysis: Analysis, mode: Scaling) -> str | None:
    """Name of the line that the verdict is about, where it has this scaling mode."""
    found = lines(analysis, mode)
    told = set(analysis.verdict.points)
    return next((name for name, own in found.items() if any(p.point.id in told for p in own)), None)


def lines(analysis: Analysis, mode: Scaling) -> dict[str, list[Profile]]:
    """Name -> the points of that line that have a speed-up, by worker count."""
    own = [p for p in analysis.points if p.point.scaling == mode and p.speedup and p.speedup.value > 0]
    names = series_names([p.point for p in own])
    found: dict[str, list[Profile]] = {}
    for profile in sorted(own, key=lambda p: p.point.workers):
        found.setdefault(names[profile.point], []).append(profile)
    return found


def projected_lines(analysis: Analysis, mode: Scaling) -> dict[str, list[Projection]]:
    """Name of the measured line that is continued -> projections; an empty name where several could be meant."""
    modes = scalings(analysis)
    found: dict[str, list[Projection]] = {}
    own = {p.point.id: name for name, profiles in lines(analysis, mode).items() for p in profiles}
    for projection in sorted(analysis.projections, key=lambda p: p.workers):
        if projection.baseline is not None:  # it says itself which line it continues
            if projection.baseline in own:
                found.setdefault(own[projection.baseline], []).append(projection)
            continue
        weak = {name: own for name, own in lines(analysis, "weak").items() if _has_batch(own, projection)}
        if (mode == "weak") != (bool(weak) or "strong" not in modes):
            continue
        names = list(weak if mode == "weak" and weak else lines(analysis, mode))
        found.setdefault(names[0] if len(names) == 1 else "", []).append(projection)
    return found


def _spans(own: Sequence[Profile]) -> bool:
    return len({profile.point.workers for profile in own}) > 1


def _has_batch(own: Sequence[Profile], projection: Projection) -> bool:
    batch = projection.per_worker_batch
    return batch is not None and any(p.point.per_worker_batch == batch for p in own)
