"""Which Profiles are faster than their workers allow, so that they cannot have done the same work."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.records import Profile

__all__ = ["SUPERLINEAR_RATIO", "incomparable"]

SUPERLINEAR_RATIO = 1.05


def incomparable(profiles: Sequence[Profile]) -> tuple[Profile, ...]:
    """Profiles that are faster than their workers allow, beyond 5%, and not by noise."""
    found = []
    for profile in profiles:
        efficiency = profile.efficiency_ratio
        if efficiency is None or efficiency.value <= SUPERLINEAR_RATIO:
            continue
        if efficiency.low is None or efficiency.low > 1.0:
            found.append(profile)
    return tuple(found)
