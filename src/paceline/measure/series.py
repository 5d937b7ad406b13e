"""Profiles -> Series, and which one the verdict and the advice are about."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.measure.comparable import incomparable
from paceline.records import Profile, Series, series_names

__all__ = ["all_series", "headline_series"]


def all_series(profiles: Iterable[Profile]) -> tuple[Series, ...]:
    """Every line of worker counts, in the order of its first Profile; a name where there are several."""
    groups: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(profile.point.series, []).append(profile)
    first = [own[0].point for own in groups.values()]
    names = series_names(first) if len(first) > 1 else {}
    return tuple(
        Series(
            names.get(own[0].point, ""), tuple(sorted(own, key=lambda p: (p.point.workers, p.point.nodes)))
        )
        for own in groups.values()
    )


def headline_series(profiles: Iterable[Profile]) -> Series | None:
    """The one to tell about: possible before impossible efficiencies, then the most counts, then the fastest."""
    return max(
        all_series(profiles),
        key=lambda series: (
            not incomparable(series.profiles),
            len({profile.point.workers for profile in series.profiles}),
            max(_rate(profile) for profile in series.profiles),
        ),
        default=None,
    )


def _rate(profile: Profile) -> float:
    return profile.throughput_per_s.value if profile.throughput_per_s else 0.0
