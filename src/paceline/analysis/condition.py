"""A condition that must not hold: `efficiency@4<0.7`, `step@2>80ms`, `memory@2[mode=b]>1GB`.

holds      where it holds at one measured setting with that many workers; every one of them is looked at
unknown    where it holds nowhere and one of them has no measured value: a gate must not let that pass
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from paceline.core.errors import NothingMeasured, UsageError
from paceline.core.estimate import Estimate
from paceline.core.units import bytes_of, counts_text, duration
from paceline.records import Analysis, Point, Profile

__all__ = ["QUANTITIES", "Condition", "condition", "violations"]

QUANTITIES = {
    "efficiency": "efficiency_ratio",
    "speedup": "speedup",
    "throughput": "throughput_per_s",
    "step": "step_s",
    "exposed": "exposed_s",
    "wire": "wire_s",
    "straggle": "straggle_s",
    "input": "input_s",
    "memory": "peak_memory_bytes",
}
_FIELDS = {field.name: field.name for field in fields(Profile) if "Estimate" in str(field.type)}
_CONDITION = re.compile(r"\s*([A-Za-z_]+)\s*@\s*([0-9]{1,9})\s*(?:\[(.*)\])?\s*(<=|>=|<|>)\s*(\S.*?)\s*")
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """A quantity at a worker count, less or more than a limit; of the settings that are named, or of all."""

    text: str
    field: str
    workers: int
    setting: tuple[tuple[str, str], ...]
    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        """Whether it holds for a measured value."""
        return _SIGNS[self.sign](value, self.limit)


def condition(text: str) -> Condition:
    """The condition that a person wrote; a UsageError where it is none."""
    match = _CONDITION.fullmatch(text)
    known = QUANTITIES | _FIELDS
    if match is None or match[1].lower() not in known:
        raise UsageError(
            f"--fail-if {text!r} is not QUANTITY@WORKERS<LIMIT; quantities: {', '.join(QUANTITIES)}",
            hint="--fail-if 'efficiency@4<0.7'",
        )
    field = known[match[1].lower()]
    setting = tuple(_setting(part, text) for part in match[3].split(",")) if match[3] is not None else ()
    return Condition(text.strip(), field, int(match[2]), setting, match[4], _limit(match[5], field, text))


def violations(asked: Condition, analysis: Analysis) -> tuple[tuple[Profile, Estimate], ...]:
    """The settings at which a condition holds, with what was measured; NothingMeasured where that is not known."""
    at = [p for p in analysis.points if p.point.workers == asked.workers and _is_named(p.point, asked)]
    values = [(profile, getattr(profile, asked.field)) for profile in at]
    found = tuple((profile, value) for profile, value in values if value and asked.holds(value.value))
    unknown = [profile for profile, value in values if value is None]
    if unknown and not found and len(unknown) < len(values):
        first = unknown[0]
        raise NothingMeasured(
            f"--fail-if {asked.text!r}: {first.point.id} has no measured value ({first.state})",
            hint="name the setting that counts: 'efficiency@2[mode=b]<0.7'",
        )
    if not found and len(unknown) == len(values):
        raise NothingMeasured(f"--fail-if {asked.text!r}: {_nothing(asked, analysis)}", hint=_hint(asked))
    return found


def _nothing(asked: Condition, analysis: Analysis) -> str:
    same = [p.point for p in analysis.points if p.point.workers == asked.workers]
    if asked.setting and same and not any(_is_named(point, asked) for point in same):
        named = dict.fromkeys(f"{name}={value}" for point in same for name, value in _parts(point).items())
        return f"no setting with {asked.workers} workers is named so; these are: {', '.join(named)}"
    counts = counts_text(p.point.workers for p in analysis.points if p.step_s is not None) or "none"
    return f"nothing was measured there; measured worker counts: {counts}"


def _hint(asked: Condition) -> str:
    return f"paceline study … --workers {asked.workers}"


def _is_named(point: Point, asked: Condition) -> bool:
    parts = _parts(point)
    return all(parts.get(name) == value for name, value in asked.setting)


def _parts(point: Point) -> dict[str, str]:
    """What sets a setting apart from others with as many workers, by the names that a condition may use."""
    batches = {"batch": point.per_worker_batch, "global-batch": point.global_batch}
    parts = {name: str(value) for name, value in batches.items() if value is not None}
    parts |= {"nodes": str(point.nodes), "scaling": point.scaling}
    parts |= {"backend": point.backend} if point.backend else {}
    return parts | {flag.lstrip("-"): value for flag, value in point.varied}


def _setting(part: str, text: str) -> tuple[str, str]:
    name, sign, value = part.partition("=")
    if not sign or not name.strip():
        raise UsageError(
            f"--fail-if {text!r}: {part.strip()!r} is no NAME=VALUE",
            hint="--fail-if 'efficiency@2[mode=b]<0.7'",
        )
    return name.strip().lstrip("-"), value.strip()


def _limit(text: str, field: str, whole: str) -> float:
    """A number; with a unit where the quantity has one."""
    try:
        limit = float(text)
    except ValueError:
        limit = _with_unit(text, field, whole)
    if not math.isfinite(limit):
        raise UsageError(f"--fail-if {whole!r}: {text} is no limit", hint="--fail-if 'efficiency@4<0.7'")
    return limit


def _with_unit(text: str, field: str, whole: str) -> float:
    if text.endswith("%") and not field.endswith(("_s", "_bytes")):
        return _limit(text[:-1].rstrip(), field, whole) / 100
    if field.endswith("_bytes"):
        return float(bytes_of(text))
    if field.endswith("_s") and not field.endswith("_per_s"):
        return duration(text)
    raise UsageError(f"--fail-if {whole!r}: {text!r} is no number", hint="--fail-if 'efficiency@4<0.7'")
