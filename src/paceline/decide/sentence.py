"""The Verdict in words: the only place where it becomes a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.core.units import (
    counts_text,
    estimate_text,
    is_unusable,
    percent_text,
    range_text,
    workers_text,
)
from paceline.measure.doubling import WORTH_PER_DOUBLING
from paceline.records import Estimate, Profile, Projection, Reason, Verdict

__all__ = ["close_counts_text", "one_count_text", "verdict_sentences", "verdict_text"]

_LINE = f"{WORTH_PER_DOUBLING:g}x"


def verdict_text(verdict: Verdict) -> str:
    """What stands first in terminal and JSON."""
    return " ".join(verdict_sentences(verdict))


def verdict_sentences(verdict: Verdict) -> tuple[str, ...]:
    """The answer, what it rests on, what limits it: the first one is a headline."""
    rests, limits = ([*_sentences(of)] for of in (verdict.reasons, verdict.limits))
    if verdict.compared is None:
        opening = "No answer: " if _needs_opening(verdict) else ""
        return (opening + rests[0], *rests[1:], *limits)
    return (f"{_answer(verdict)} {_facts(verdict)}.", *rests, *_beyond(verdict), *limits)


def one_count_text(profile: Profile, projections: Sequence[Projection], *, others: bool) -> str:
    """What is said of a study with one count; `others`: whether there may be a second one to measure."""
    rate, step = profile.throughput_per_s, profile.step_s
    speed = (
        f"{estimate_text(rate)} samples/s"
        if rate
        else f"{step.value * 1e3:.3g} ms per step"
        if step
        else "unknown speed"
    )
    gains = {projection.workers: projection.speedup for projection in projections if projection.speedup}
    more = " Measure a second count to see how it scales." if others else ""
    if others and gains:
        most = max(gains)
        more = f" {workers_text(most, profile.unit)} should be {_times(gains[most])} faster (predicted, not measured)."
    return f"{workers_text(profile.point.workers, profile.unit)}: {speed}.{more}"


def close_counts_text(counts: Sequence[int]) -> str:
    """What is said of counts that lie too close together for a gain per doubling."""
    said = f"{counts_text(counts)} workers are too close to say what more workers gain."
    return f"{said} Measure counts at least 1.5x apart."


def _sentences(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        yield reason.text
        if reason.cure is not None:
            yield reason.cure


def _needs_opening(verdict: Verdict) -> bool:
    """What speaks for itself: one count, a comparison of trainings, nothing at all."""
    return verdict.answer == "no_answer" and verdict.reasons[0].id not in (
        "one-count",
        "nothing-measured",
        "target-missed",
        "no-training",
    )


def _answer(verdict: Verdict) -> str:
    many = workers_text(verdict.workers or 1, verdict.unit)
    return {"use": f"Use {many}:", "stay": f"Stay with {many}:"}.get(
        verdict.answer, f"Not decided yet whether more than {many} pay:"
    )


def _facts(verdict: Verdict) -> str:
    """How fast, how efficient, and which Series that is about. Of an interval beyond ±50% only the sure end."""
    gain, series = verdict.gain, f", {verdict.series}" if verdict.series else ""
    who = "" if verdict.answer == "use" else f"{verdict.compared} are "
    which = f"({verdict.scaling} scaling{series})"
    if gain is None:
        return f"{who}of unknown speed {which}"
    if is_unusable(gain):
        if verdict.answer == "undecided":
            return f"runs differ too much to compare {verdict.compared} with {verdict.baseline} {which}"
        end, sure = ("at least", gain.low) if verdict.answer == "use" else ("at most", gain.high)
        return f"{who}{end} {sure or 0.0:.2g}x the speed of {verdict.baseline} {which}"
    told = range_text(gain, unit="x") if verdict.answer == "undecided" else f"{gain.value:.2f}x"
    slower = gain.value < 1.0 and verdict.answer != "undecided"
    speed = (
        f"slower than {verdict.baseline} ({told} the speed)"
        if slower
        else f"{told} faster than {verdict.baseline}"
    )
    return f"{who}{speed}, {percent_text(verdict.efficiency_ratio)} efficient {which}"


def _beyond(verdict: Verdict) -> list[str]:
    """What follows the answer: the next count, and counts that nobody measured."""
    said = []
    gain, more = verdict.next_gain, verdict.next_workers
    if verdict.answer == "undecided":
        single = gain is None or gain.low is None
        said.append(
            "One run cannot tell: --repeats 5."
            if single
            else "Too noisy to decide: measure more runs on a quieter machine."
        )
    elif verdict.answer == "use" and gain is not None and not verdict.next_decided:
        said.append(
            f"Whether {more} pay is not decided: they gain {_times(gain)} per doubling, {_LINE} is worth it."
        )
    elif verdict.answer == "use" and gain is not None:
        said.append(f"{more} gain less than {_LINE} per doubling.")
    if verdict.should_pay is not None:
        said.append(f"{verdict.should_pay} should pay too (predicted, not measured).")
    return said


def _times(gain: Estimate) -> str:
    return (
        "an unusable number of times (runs differ too much)"
        if is_unusable(gain)
        else range_text(gain, unit="x")
    )
