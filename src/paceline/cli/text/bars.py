"""Where the step goes, as a bar of letters beside its numbers: as long as the step, cut into its parts."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core.words import PARTS
from paceline.records import Estimate, Profile

__all__ = ["BAR", "bar_legend", "step_bars"]

BAR = "step parts"
_WIDTH = 14
_SEEN = 0.03  # of the step
_LETTERS = {"compute": "█", "straggle": "▒", "bubble": "·", "wire": "░"}


def step_bars(profiles: Sequence[Profile]) -> list[str]:
    """A bar per setting, all to one scale: the longest step is as wide as the column. Empty where nothing was split."""
    longest = max((p.step_s.value for p in profiles if p.step_s and p.compute_s), default=0.0)
    return [_bar(profile, longest) for profile in profiles]


def bar_legend(bars: Sequence[str]) -> str:
    """What the letters in use mean."""
    used = "".join(bars)
    return "  ".join(f"{letter} {PARTS[part]}" for part, letter in _LETTERS.items() if letter in used)


def _bar(profile: Profile, longest: float) -> str:
    if profile.step_s is None or profile.compute_s is None or longest <= 0:
        return ""
    whole = profile.step_s.value
    shares = {part: min(1.0, _value(getattr(profile, f"{part}_s")) / whole) for part in _LETTERS}
    length = max(1, round(_WIDTH * whole / longest))
    letters = {part: _letters(share, length) for part, share in shares.items()}
    letters["compute"] = max(0, length - sum(letters.values()) + letters["compute"])
    return "".join(_LETTERS[part] * count for part, count in letters.items())[:_WIDTH].ljust(_WIDTH)


def _letters(share: float, length: int) -> int:
    """Of a bar this long; what is worth a word is worth a letter."""
    return max(round(share * length), int(share >= _SEEN))


def _value(quantity: Estimate | None) -> float:
    return 0.0 if quantity is None else max(0.0, quantity.value)
