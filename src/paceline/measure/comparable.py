"""Which Profiles are faster than their workers allow, so that they cannot have done the same work."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.core import calibration
from paceline.core.stats import NINETY
from paceline.records import Profile

__all__ = ["SUPERLINEAR_RATIO", "incomparable"]

SUPERLINEAR_RATIO = 1.05
_OF_ONE_LAUNCH = math.exp(NINETY * calibration.LAUNCH.value)  # by luck, where the Baseline ran once


def incomparable(profiles: Sequence[Profile]) -> tuple[Profile, ...]:
    """Profiles that are faster than their workers allow, beyond 5%, and not by noise."""
    found = []
    for profile in profiles:
        efficiency = profile.efficiency_ratio
        if efficiency is None or efficiency.value <= SUPERLINEAR_RATIO:
            continue
        lone = efficiency.low is None
        if efficiency.value > SUPERLINEAR_RATIO * _OF_ONE_LAUNCH if lone else (efficiency.low or 0.0) > 1.0:
            found.append(profile)
    return tuple(found)
