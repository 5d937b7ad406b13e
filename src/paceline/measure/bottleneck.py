"""What holds a training back: the largest part of a step that one worker alone does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.records import Profile

__all__ = ["Bottleneck", "bottleneck", "input_wait_s", "slower_computing_s"]

Part = Literal["network", "late workers", "data", "computing"]
_SMALL_RATIO = 0.05  # of a step: below it nothing but computing is worth a name


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The part and its seconds of each step; no part where none takes much: then computing is what remains."""

    part: Part | None
    seconds: float


def bottleneck(base: Profile, profile: Profile) -> Bottleneck | None:
    """What this Profile has beyond its base; None where nothing could be seen."""
    times: dict[Part, float | None] = {
        "network": None if profile.wire_s is None else profile.wire_s.value,
        "late workers": None if profile.straggle_s is None else profile.straggle_s.value,
        "data": None if profile.input_s is None else profile.input_s.value,
        "computing": slower_computing_s(base, profile),
    }
    known: dict[Part, float] = {part: time for part, time in times.items() if time is not None}
    if profile.step_s is None or not known:
        return None
    largest = max(known, key=lambda part: known[part])
    small = known[largest] < _SMALL_RATIO * profile.step_s.value
    return Bottleneck(None if small else largest, known[largest])


def slower_computing_s(base: Profile, profile: Profile) -> float | None:
    """How much longer a step's computing (input left out) takes than at `base` with the same batch per worker."""
    same = profile.point.scaling == "weak" and profile.point.per_worker_batch == base.point.per_worker_batch
    if not same or profile.compute_s is None or base.compute_s is None:
        return None
    own, alone = profile.compute_s.value - input_wait_s(profile), base.compute_s.value - input_wait_s(base)
    return max(0.0, own - alone)


def input_wait_s(profile: Profile) -> float:
    return profile.input_s.value if profile.input_s else 0.0
