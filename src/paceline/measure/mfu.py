"""The share of what the devices can do at best that a step reaches (model FLOPs utilisation).

    mfu = sum over types of number (operations of all workers / (workers · dense peak of that type)) / step_s

Operations are those that were computed, so recomputation counts. A device that no row of gpus.toml names, or a type of
number whose dense peak is not there, has no share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.core.manifest import number
from paceline.measure.profiles import Launches
from paceline.records import Estimate, Profile

__all__ = ["Rows", "with_mfu"]

_PEAKS = {
    "float32": "fp32_flop_per_s",
    "bfloat16": "bf16_dense_flop_per_s",
    "float16": "fp16_dense_flop_per_s",
}
Rows = Mapping[str, Mapping[str, object]]


def with_mfu(profiles: Sequence[Profile], groups: Sequence[Launches], gpus: Rows) -> tuple[Profile, ...]:
    """The Profiles with the share of the devices' dense peak that their steps reached."""
    return tuple(
        replace(profile, mfu_ratio=_mfu(profile, group, gpus))
        for profile, group in zip(profiles, groups, strict=True)
    )


def _mfu(profile: Profile, group: Launches, gpus: Rows) -> Estimate | None:
    counted = next((part.flops for part in group.splits if part.flops), ())
    names = {w.manifest.get("device_name") for r in group.results if r.state == "ok" for w in r.workers}
    row = next((row for row in gpus.values() if names and names <= _names(row)), None)
    if not counted or row is None or profile.step_s is None:
        return None
    peaks = [(count, number(row, _PEAKS.get(name, ""))) for name, count in counted]
    best_s = sum(count / (peak * group.point.workers) for count, peak in peaks if peak)
    if any(not peak for _, peak in peaks) or not best_s:
        return None
    step = profile.step_s
    low = None if step.high is None else best_s / step.high
    high = None if step.low is None else best_s / step.low
    return Estimate(best_s / step.value, low, high, step.n)


def _names(row: Mapping[str, object]) -> set[object]:
    names = row.get("device_names")
    return set(names) if isinstance(names, list) else set()
