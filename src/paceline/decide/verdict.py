"""Profiles and findings -> the Verdict: how many workers to use, from what was measured.

use, stay     every doubling up to the largest such count gained at least 1.5x for sure (doubling.py)
undecided     the interval of the first doubling lies on both sides of 1.5x
no_answer     nothing was measured, or one count; workers trained apart, on the same data, or faster than possible;
              every count diverged
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.core.units import percent_text, workers_text
from paceline.core.words import capital
from paceline.decide.sentence import close_counts_text, one_count_text
from paceline.measure.bottleneck import bottleneck
from paceline.measure.comparable import SUPERLINEAR_RATIO, incomparable
from paceline.measure.doubling import doublings, smaller_count, worthwhile
from paceline.measure.series import headline_series
from paceline.records import Estimate, Finding, Profile, Projection, Reason, Recommendation, Series, Verdict

__all__ = ["NO_TRAINING", "unanswered", "verdict"]

NO_TRAINING = (
    "no-exchange",
    "same-data",
    "replicas-differ",
)  # what was timed is not one training on more workers
_BUSY_RATIO = 0.25  # of the cores, taken by others: a verdict from such a machine is worth a warning


def verdict(
    profiles: Sequence[Profile],
    findings: Sequence[Finding],
    *,
    projections: Sequence[Projection] = (),
    advice: Sequence[Recommendation] = (),
) -> Verdict:
    """The answer, on the Series that it is about."""
    measured = [p for p in profiles if p.state == "ok" and (p.step_s or p.speedup)]
    measured = measured or [p for p in profiles if p.step_s is not None]
    series = headline_series([p for p in measured if p.speedup] or measured)
    if series is None:
        return _no_answer(None, _nothing(profiles))
    apart = [f for f in findings if f.id in NO_TRAINING and _concerns(f, series)]
    if apart:
        return _no_answer(series, *(_from_finding(f) for f in apart))
    if lost := [p for p in series.profiles if p.state == "diverged"]:
        return _no_answer(series, Reason("diverged", f"The training diverged: {lost[0].reason}."))
    too_fast = incomparable(series.profiles)
    if too_fast:
        return _no_answer(series, _impossible(series, too_fast[-1]))
    limits = tuple(_limits(profiles, findings, series))
    if not doublings(series.profiles):
        counts = [profile.point.workers for profile in series.profiles]
        if counts[0] < counts[-1] and smaller_count(counts, counts[-1]) is None:
            return _no_answer(series, Reason("close-counts", close_counts_text(counts)), limits=limits)
        tried = any(limit.id == "failed" for limit in limits)
        text = one_count_text(series.baseline, projections, others=not tried)
        return _no_answer(series, Reason("one-count", text), limits=limits)
    return _scaling(series, findings, advice, several=_several(measured), limits=limits)


def unanswered(found: Verdict) -> bool:
    """Whether there is none for want of sound measurements. One count is sound, and so is a target that was missed."""
    sound = ("one-count", "close-counts", "target-missed", "no-training")
    return found.answer == "no_answer" and found.reasons[0].id not in sound


def _scaling(
    series: Series,
    findings: Sequence[Finding],
    advice: Sequence[Recommendation],
    *,
    several: bool,
    limits: tuple[Reason, ...],
) -> Verdict:
    """The answer of a Series with two counts and more."""
    found, base = worthwhile(series.profiles), series.baseline
    following = found.following
    stays = found.best is base
    shown = following.after if stays and following is not None else found.best
    limiting = _limiting(findings, base, shown)
    return Verdict(
        answer="use" if not stays else "undecided" if found.undecided else "stay",
        workers=found.best.point.workers,
        baseline=base.point.workers,
        compared=shown.point.workers,
        gain=shown.speedup,
        efficiency_ratio=shown.efficiency_ratio,
        scaling=shown.point.scaling,
        series=series.name if several else "",
        points=_ids(series),
        next_workers=None if following is None else following.after.point.workers,
        next_gain=None if following is None else following.gain,
        next_decided=not found.undecided,
        should_pay=None if stays else _should_pay(advice, series),
        reasons=() if limiting is None else (limiting,),
        limits=limits,
        unit=base.unit,
    )


def _no_answer(series: Series | None, *reasons: Reason, limits: tuple[Reason, ...] = ()) -> Verdict:
    points, unit = ((), "worker") if series is None else (_ids(series), series.baseline.unit)
    return Verdict("no_answer", points=points, reasons=reasons, limits=limits, unit=unit)


def _ids(series: Series) -> tuple[str, ...]:
    return tuple(profile.point.id for profile in series.profiles)


def _several(measured: Sequence[Profile]) -> bool:
    return len({profile.point.series for profile in measured}) > 1


def _nothing(profiles: Sequence[Profile]) -> Reason:
    failed = next((p for p in profiles if p.reason and p.state != "cancelled"), None)
    if failed is None and any(p.state == "ok" for p in profiles):
        text = "No time of a training that ended was measured, so nothing can be said about scaling."
        return Reason("nothing-measured", text)
    if failed is None:
        return Reason("nothing-measured", "Nothing was measured.")
    return Reason("nothing-measured", f"Nothing could be measured: {failed.reason}.")


def _concerns(finding: Finding, series: Series) -> bool:
    return finding.point is None or finding.point in _ids(series)


def _from_finding(finding: Finding) -> Reason:
    return Reason(finding.id, _sentence(finding.message), _cure(finding))


def _cure(finding: Finding) -> str | None:
    if finding.command is None:
        return _sentence(finding.hint) if finding.hint else None
    return f"{capital(finding.hint)}: {finding.command}" if finding.hint else finding.command


def _sentence(words: str) -> str:
    return f"{capital(words)}."


def _impossible(series: Series, profile: Profile) -> Reason:
    """Two measurements that cannot both be of the same work."""
    return Reason(
        "super-linear",
        f"{profile.point.id} is {percent_text(profile.efficiency_ratio)} efficient against {series.baseline.point.id}, "
        f"more than {workers_text(profile.point.workers, profile.unit)} can be: the two are not comparable.",
        "Repeat both on the same machine, with the same data.",
    )


def _limiting(findings: Sequence[Finding], base: Profile, profile: Profile) -> Reason | None:
    """The largest part of the step that a lone worker does not have; None where whole steps are all that is known."""
    step, here = profile.step_s, profile.point.id
    if any(f.id == "split-contradicts" and f.point == here for f in findings):
        return Reason("split-contradicts", "The step could not be split reliably.")
    held = bottleneck(base, profile)
    if held is None or step is None:
        return None
    if held.part is None:
        if profile.wire_s is None and profile.point.workers > 1:
            return Reason("waits-unseen", "What communication takes could not be measured.")
        return Reason("computing", _computing_text(profile, step))
    share = percent_text(held.seconds / step.value)
    if held.part == "computing" and base.compute_s and profile.compute_s:
        longer = profile.compute_s.value / base.compute_s.value - 1.0
        alone, many = workers_text(base.point.workers, base.unit), profile.point.workers
        return Reason(
            "slower-computing",
            f"Computing takes {percent_text(longer)} longer with {many} workers than with {alone}: "
            "they share cores, caches and memory.",
        )
    by_data = any(f.id == "late-data" and f.point == here for f in findings)
    waited = {
        "network": ("network", "communication over the network"),
        "late workers": (
            ("late-data", "waiting for a worker whose data come late")
            if by_data
            else ("late-workers", "waiting for the slowest worker")
        ),
    }
    name, words = waited.get(held.part, ("data", "waiting for data"))
    return Reason(name, f"{share} of each step is {words}.")


def _computing_text(profile: Profile, step: Estimate) -> str:
    """That no wait stands out, with what each of them takes."""
    waits = (("network", profile.wire_s), ("waiting for the slowest", profile.straggle_s))
    known = [f"{percent_text(wait.value / step.value)} is {name}" for name, wait in waits if wait is not None]
    return f"Computing fills the step: {', '.join(known)}." if known else "Computing fills the step."


def _should_pay(advice: Sequence[Recommendation], series: Series) -> int | None:
    """What is predicted to pay beyond the largest measured count."""
    best = next((r.workers for r in advice if r.goal == "knee" and r.workers is not None), None)
    largest = max(profile.point.workers for profile in series.profiles)
    return best if best is not None and best > largest else None


# ---------------------------------------------------------------- what limits the answer


def _limits(profiles: Sequence[Profile], findings: Sequence[Finding], series: Series) -> Iterator[Reason]:
    yield from _over_whole(series)
    yield from _once(findings, series)
    yield from _failed(profiles)
    errors = [finding for finding in findings if finding.level == "void"]
    if errors:
        which = "One figure" if len(errors) == 1 else f"{len(errors)} figures"
        yield Reason("errors", f"{which} cannot be right: see the findings.")
    yield from _busy(findings)


def _over_whole(series: Series) -> Iterator[Reason]:
    """More than all, within its interval: noise, and not to be counted on."""
    over = [p for p in series.profiles if p.efficiency_ratio and p.efficiency_ratio.value > SUPERLINEAR_RATIO]
    if over:
        yield Reason("over-100", "More than 100% efficient is noise: do not count on it.")


def _once(findings: Sequence[Finding], series: Series) -> Iterator[Reason]:
    """Numbers without an interval look surer than they are."""
    once = {f.point for f in findings if f.id == "few-launches" and f.value == 1}
    counts = [workers_text(p.point.workers, p.unit) for p in series.profiles if p.point.id in once]
    if counts:
        were = "was" if len(counts) == 1 and counts[0].startswith("1 ") else "were"
        each = "Each count was" if len(counts) == len(series.profiles) else f"{' and '.join(counts)} {were}"
        yield Reason(
            "one-run", f"{each} run once, and runs differ by 1-10%: --repeats 5 says how sure this is."
        )


def _failed(profiles: Sequence[Profile]) -> Iterator[Reason]:
    """The smallest count that was tried and not measured at any setting."""
    measured = {p.point.workers for p in profiles if p.step_s is not None}
    tried = [p for p in profiles if p.reason and p.state not in ("ok", "cancelled")]
    lost = [p for p in tried if p.point.workers not in measured]
    if lost:
        first = min(lost, key=lambda p: p.point.workers)
        yield Reason(
            "failed",
            f"{workers_text(first.point.workers, first.unit)} failed ({first.state}): {first.reason}.",
        )


def _busy(findings: Sequence[Finding]) -> Iterator[Reason]:
    """Others on the machine, where they took much of it."""
    shares = [f.value for f in findings if f.id == "foreign-cpu" and f.value is not None]
    most = max(shares, default=0.0)
    if most > _BUSY_RATIO:
        taken = f"Other processes took up to {percent_text(most)} of the cores"
        yield Reason("busy-machine", f"{taken}: measure again when it is quiet.")
