"""Were several seeds several trainings? Curves that agree to the last digit come from one seed, whatever its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.records import AccuracyCurve, Finding

__all__ = ["seed_findings"]

_FEWEST_DIFFERENT = 2  # different ones in a curve: trainings that are all right at once agree by themselves


def seed_findings(curves: Sequence[AccuracyCurve]) -> Iterator[Finding]:
    """A doubt for every configuration whose trainings all gave the same curve."""
    points = dict.fromkeys(curve.point for curve in curves)
    for point in points:
        own = [c.metric for c in curves if c.point == point and c.state == "ok"]
        shared = min((len(metric) for metric in own), default=0)  # one may have reached its target earlier
        alike = {metric[:shared] for metric in own}
        if len(own) > 1 and len(alike) == 1 and len(set(alike.pop())) >= _FEWEST_DIFFERENT:
            yield Finding(
                "seeds-alike",
                "doubt",
                f"{len(own)} trainings gave the same curve to the last digit: they seem to "
                "have had one seed, and then say nothing about luck",
                value=float(len(own)),
                hint="tell the script its seed: --seed-flag --seed, or {seed} in its args",
                point=point,
            )
