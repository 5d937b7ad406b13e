"""Parse and format quantities at the edges. Percent, milliseconds and GiB exist only here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from paceline.core.errors import UsageError
from paceline.core.estimate import Estimate

__all__ = [
    "TIME_OF",
    "UNUSABLE_RATIO",
    "bytes_of",
    "bytes_text",
    "count_range",
    "counts_text",
    "duration",
    "duration_range_text",
    "duration_text",
    "estimate_text",
    "gain_text",
    "is_unusable",
    "is_wide",
    "percent_text",
    "range_text",
    "rate_range_text",
    "rate_text",
    "rough_text",
    "workers_text",
]

TIME_OF = {"step": "step", "epoch": "epoch", "job": "training", "sample": "sample"}  # TimeKind -> word

_DURATION = re.compile(
    r"(?i)^\s*([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s|sec|second|seconds|m|min|minutes|h|hours|d|days)?\s*$"
)
_SIZE = re.compile(r"(?i)^\s*([0-9]*\.?[0-9]+)\s*(?:([kmgt])(i)?)?b?\s*$")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "days": 86400.0,
}
_SCALES = (
    ("µs", 1e-6, 1e-3),
    ("ms", 1e-3, 1.0),
    ("s", 1.0, 90.0),
    ("min", 60.0, 5400.0),
    ("h", 3600.0, math.inf),
)  # unit, its seconds, and the duration from which the next one reads better
_LARGEST_RANGE = 100_000
_MAGNITUDE_RATIO = 2.0  # upper over lower end
UNUSABLE = "unusable"  # said instead of an interval that is wider than this
UNUSABLE_RATIO = 0.5  # half an interval over its value
_SKEWED = 1.5  # an interval that reaches so much farther to one side is written with both its ends
_NO_WIDTH = 1e-6  # ends of an interval that no digits tell apart


def count_range(text: str) -> tuple[int, ...]:
    """`1,2,4`, `1..4` (doubling when the end is over 8: 8..1024 is 8,16,…,1024), or a mix; sorted, no repeats."""
    counts: set[int] = set()
    for part in text.split(","):
        ends = part.strip().split("..")
        try:
            numbers = [int(end) for end in ends]
        except ValueError:
            raise UsageError(
                f"{part.strip()!r} in {text!r} is not a count", hint="write 1,2,4 or 1..8"
            ) from None
        if len(numbers) > 2 or min(numbers) < 1 or numbers[-1] < numbers[0]:
            raise UsageError(
                f"{part.strip()!r} in {text!r} is not a range of counts", hint="write 1,2,4 or 1..8"
            )
        if numbers[-1] > _LARGEST_RANGE:
            raise UsageError(
                f"{numbers[-1]} workers is beyond {_LARGEST_RANGE}", hint="choose a smaller count"
            )
        counts.update(_between(numbers[0], numbers[-1]))
    return tuple(sorted(counts))


def counts_text(counts: Iterable[int]) -> str:
    """8, 16 and 32: distinct counts, ascending."""
    words = [str(count) for count in sorted(set(counts))]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def duration(text: str) -> float:
    """Seconds from `90`, `90s`, `83 ms`, `1.5 h`, `5:19`, `01:38:30`."""
    if ":" in text:
        parts = text.strip().split(":")
        if len(parts) in (2, 3) and all(re.fullmatch(r"\d+", part) for part in parts[:-1]):
            try:
                last = float(parts[-1])
            except ValueError:
                last = math.nan
            if 0 <= last < 60:
                whole = [int(part) for part in parts[:-1]]
                return (whole[0] * 60 + whole[1] if len(whole) == 2 else whole[0]) * 60 + last
    match = _DURATION.match(text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration", hint="write 90, 90s, 15 min, 2.5 h, 5:19 or 01:38:30")
    return float(match[1]) * _SECONDS[(match[2] or "").lower()]


def bytes_of(text: str) -> int:
    """Bytes from `1500000`, `800MB`, `2 GB`, `1.5GiB`."""
    match = _SIZE.match(text)
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{text!r} is not an amount of memory", hint="write 800MB, 2GB or 1.5GiB")
    power = "kmgt".index(match[2].lower()) + 1 if match[2] else 0
    return round(float(match[1]) * float(1024 if match[3] else 1000) ** power)


def duration_text(seconds: float | None) -> str:
    """A duration as a person would say it: 12.3 ms, 4.1 s, 5 min 19 s, 1 h 38 min."""
    if seconds is None:
        return "–"
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if abs(seconds) < 1.0:
        return f"{_figures(seconds * 1e3)} ms"
    if abs(seconds) < 90.0:
        return f"{_figures(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 90:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def duration_range_text(quantity: Estimate) -> str:
    """41 s (35-49 s): a duration and its interval in one unit, to the precision of the interval."""
    if quantity.low is None or quantity.high is None or quantity.low == quantity.high:
        return duration_text(quantity.value)
    largest = abs(quantity.value)
    unit, seconds = next(((name, size) for name, size, limit in _SCALES if largest < limit), _SCALES[-1][:2])
    parts = Estimate(quantity.value / seconds, quantity.low / seconds, quantity.high / seconds, quantity.n)
    return range_text(parts, unit=f" {unit}")


def range_text(quantity: Estimate, *, unit: str = "") -> str:
    """13x (11-15x): a number and its interval, no finer than its nearer end is away; alone, three figures."""
    low, high = quantity.low, quantity.high
    if low is None or high is None or low == high:
        return f"{_figures(quantity.value)}{unit}"
    near = max(min(quantity.value - low, high - quantity.value), (high - low) / 20)
    places = max(0, min(6, math.ceil(-math.log10(near / 1.5)))) if near > 0 else 0
    return f"{quantity.value:.{places}f}{unit} ({low:.{places}f}-{high:.{places}f}{unit})"


def gain_text(gain: Estimate | None, *, unit: str = "") -> str:
    """1.90 ± 0.04: a speed-up; no number of it where runs differ too much."""
    if gain is None:
        return "–"
    return UNUSABLE if is_unusable(gain) else f"{estimate_text(gain)}{unit}"


def is_unusable(quantity: Estimate) -> bool:
    """Whether the interval is wider than ±50%: then no number of it is printed as an answer."""
    if quantity.low is None or quantity.high is None:
        return False
    return quantity.high - quantity.low > 2 * UNUSABLE_RATIO * abs(quantity.value)


def is_wide(quantity: Estimate) -> bool:
    """Whether its upper end is more than twice the lower one: an order of magnitude."""
    return (
        quantity.low is not None
        and quantity.high is not None
        and quantity.high > _MAGNITUDE_RATIO * quantity.low
    )


def workers_text(count: int, unit: str = "worker") -> str:
    """1 worker, 2 workers, 2 GPUs."""
    return f"{count} {unit}{'' if count == 1 else 's'}"


def bytes_text(size: float | None) -> str:
    """Bytes with a decimal unit: 44.7 MB."""
    return "–" if size is None else _decimal(size, "B")


def rate_range_text(quantity: Estimate) -> str:
    """24.1 MB/s (23.8-24.4 MB/s): bytes per second and their interval in one unit."""
    scales = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
    size, prefix = next((scale for scale in scales if abs(quantity.value) >= scale[0]), (1.0, ""))
    low, high = (None if end is None else end / size for end in (quantity.low, quantity.high))
    return range_text(Estimate(quantity.value / size, low, high, quantity.n), unit=f" {prefix}B/s")


def rate_text(per_second: float | None) -> str:
    """Bytes per second with a decimal unit: 1.2 GB/s."""
    return "–" if per_second is None else f"{_decimal(per_second, 'B')}/s"


def percent_text(share: Estimate | float | None) -> str:
    """79% (77-81%): a ratio, to the precision of its interval."""
    if share is None:
        return "–"
    if isinstance(share, float | int):
        return f"{share * 100:.0f}%"
    if share.low is None or share.high is None or share.low == share.high:
        return f"{share.value * 100:.0f}%"
    if is_unusable(share):
        return UNUSABLE
    places = 1 if share.high - share.low < 0.01 else 0
    low, high = max(0.0, share.low) * 100, share.high * 100
    return f"{share.value * 100:.{places}f}% ({low:.{places}f}-{high:.{places}f}%)"


def estimate_text(quantity: Estimate | None, *, factor: float = 1.0) -> str:
    """79.1 ± 1.4 when the interval is about symmetric, else 79 (70-95); no interval: the number alone."""
    if quantity is None:
        return "–"
    value = quantity.value * factor
    if quantity.low is None or quantity.high is None:
        return _figures(value)
    if math.isclose(quantity.low, quantity.high, rel_tol=_NO_WIDTH):
        return _figures(value)
    half = (quantity.high - quantity.low) / 2 * factor
    places = _places(half)
    below, above = quantity.value - quantity.low, quantity.high - quantity.value
    if max(below, above) > _SKEWED * min(below, above):
        return f"{value:.{places}f} ({quantity.low * factor:.{places}f}-{quantity.high * factor:.{places}f})"
    return f"{value:.{places}f} ± {half:.{places}f}"


def rough_text(quantity: Estimate | None, *, factor: float = 1.0) -> str:
    """The same, of a time or a rate; ~80 where the interval is wider than ±50%: nobody should lean on it."""
    if quantity is None or not is_unusable(quantity):
        return estimate_text(quantity, factor=factor)
    return f"~{float(f'{quantity.value * factor:.1g}'):.12g}"


def _between(first: int, last: int) -> list[int]:
    if last <= 8:
        return list(range(first, last + 1))
    counts = [first]
    while counts[-1] * 2 <= last:
        counts.append(counts[-1] * 2)
    return [*counts, last]


def _places(half: float) -> int:
    """Decimal places that show a half-interval to two figures, no finer than micro."""
    if half <= 0 or not math.isfinite(half):
        return 3
    return max(0, min(6, 1 - math.floor(math.log10(half))))


def _figures(value: float) -> str:
    """Three significant figures, no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, 6)}f}"


def _decimal(size: float, unit: str) -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if abs(size) < 1000 or prefix == "T":
            return f"{_figures(size)} {prefix}{unit}"
        size /= 1000
    raise AssertionError
