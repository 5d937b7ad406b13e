"""One sentence that answers the question, from what was measured: quantity, condition, consequence.

A count is worth its workers when every doubling up to it gained at least 1.5x (doubling.py). Whether it did is read
from the whole interval: a doubling whose interval lies on both sides of 1.5x is undecided, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from paceline.bottleneck import bottleneck
from paceline.curve import series
from paceline.doubling import WORTH_PER_DOUBLING, Doubling, doublings, told_curve, worthwhile
from paceline.records import Finding, Profile, Projection, Recommendation
from paceline.units import estimate_text, percent_text, range_text

__all__ = ["scaling_text", "verdict", "with_outlook", "workers_text"]

_NOT_TOGETHER = {"replicas-differ", "same-data"}
_SURER = "--repeats 5 says how sure this is"
_BUSY_RATIO = 0.25  # of the cores, taken by others: a verdict from such a machine is worth a warning


def verdict(
    profiles: Sequence[Profile], findings: Sequence[Finding], projections: Sequence[Projection] = ()
) -> str:
    """The sentence that stands first in terminal, JSON and report."""
    measured = [p for p in profiles if p.step_s is not None]
    if not measured:
        failed = next((p for p in profiles if p.reason and p.state != "cancelled"), None)
        return f"Nothing could be measured: {failed.reason}." if failed else "Nothing was measured."
    voids = [finding for finding in findings if finding.level == "void"]
    if voids:
        return f"These measurements cannot be used: {voids[0].message}."
    sound = [p for p in measured if p.state == "ok"] or measured
    curve = told_curve(sound)
    which = _name(curve[0]) if len({series(p.point) for p in sound}) > 1 else ""
    doubts = {finding.id for finding in findings if finding.level == "doubt"}
    if "no-exchange" in doubts:
        return (
            "No answer: the workers did not train one network together. They exchanged no gradients, so their "
            "speed-up means nothing; see the findings."
        )
    lost = _lost(profiles)
    if doublings(curve):
        text = scaling_text(curve, which=which, limit=partial(_limit, findings, curve[0]))
    else:
        text = _one_count(curve[0], projections, others=not lost)
    text += _once(curve, findings, text) + lost
    if doubts & _NOT_TOGETHER:
        text += " But the workers did not train one network together: see the findings."
    if (lost_loss := next((p for p in sound if p.state == "diverged"), None)) is not None:
        text = f"The training diverged ({lost_loss.reason}). {text}"
    return text + _busy(findings)


def scaling_text(
    curve: Sequence[Profile], *, which: str = "", limit: Callable[[Profile], str] | None = None
) -> str:
    """How many workers a Curve of two and more counts is worth; `which` Curve it is, and what limits it, if known."""
    found = worthwhile(curve)
    base, best, following = curve[0], found.best, found.following
    shown = best if best is not base or following is None else following.after
    gain = shown.speedup.value if shown.speedup else 1.0
    facts = (
        f"{shown.point.workers} run {gain:.2f}x as fast as {base.point.workers}, "
        f"{percent_text(shown.efficiency_ratio)} efficient ({shown.point.scaling} scaling{which})"
        f"{'' if limit is None else '; ' + limit(shown)}."
    )
    if best is base and found.undecided:
        question = f"whether to use more than {workers_text(base.point.workers)}"
        return f"Not decided yet {question}: {facts} {_undecided(following)}"
    if best is base:
        return f"Stay with {workers_text(base.point.workers)}: {facts}"
    text = f"Use {workers_text(best.point.workers)}: {facts}"
    if following is None:
        return text
    more, line = following.after.point.workers, f"{WORTH_PER_DOUBLING:g}x"
    if found.undecided:
        gained = range_text(following.gain, unit="x")
        return f"{text} Whether {more} pay is not decided yet: they gain {gained} per doubling, {line} is worthwhile."
    return f"{text} Beyond that, {more} gain less than {line} per doubling."


def _undecided(step: Doubling | None) -> str:
    if step is not None and step.gain.low is None:
        return "One launch cannot tell; measure more launches."
    return "The interval holds both answers; measure more launches on a quieter machine."


def _once(curve: Sequence[Profile], findings: Sequence[Finding], text: str) -> str:
    """A word about advice from single launches: numbers without an interval look surer than they are."""
    once = {f.message.partition(":")[0] for f in findings if f.id == "few-launches" and f.value == 1}
    counts = [workers_text(p.point.workers) for p in curve if p.point.id in once]
    if not counts or not text.startswith(("Use ", "Stay ")):
        return ""
    which = (
        "Each count was"
        if len(counts) == len(curve)
        else " and ".join(counts) + (" was" if counts == ["1 worker"] else " were")
    )
    return f" {which} launched once, and launches differ by 1-10%: {_SURER}."


def with_outlook(text: str, advice: Sequence[Recommendation], profiles: Sequence[Profile]) -> str:
    """The sentence, and what is foreseen beyond the largest measured count where that is said to pay as well."""
    knee = next((r.workers for r in advice if r.goal == "knee" and r.workers is not None), None)
    largest = max((p.point.workers for p in profiles if p.speedup is not None), default=None)
    if knee is None or largest is None or knee <= largest or not text.startswith("Use "):
        return text
    return f"{text} {knee} are foreseen to pay as well; nobody has measured them."


def _name(profile: Profile) -> str:
    point = profile.point
    weak, strong = f"{point.per_worker_batch} per worker", f"global batch {point.global_batch}"
    batch = (weak if point.scaling == "weak" else strong) if point.global_batch else ""
    flags = [f"{key} {value}" for key, value in point.varied]
    return "".join(f", {part}" for part in (batch, point.backend or "", *flags) if part)


def _limit(findings: Sequence[Finding], base: Profile, profile: Profile) -> str:
    """The largest part of the step that a lone worker does not have, or that computing itself is the limit."""
    step = profile.step_s
    here = f"{profile.point.id}: "
    if any(f.id == "split-contradicts" and f.message.startswith(here) for f in findings):
        return "what limits it could not be seen: its parts contradict one another"
    held = bottleneck(base, profile)
    if held is None or step is None:
        return "what limits it could not be seen"
    if held.part is None:
        if profile.wire_s is None and profile.point.workers > 1:
            return "what exchange and late workers take could not be seen"
        return "neither exchange, late workers nor data take 5% of a step: what remains is computing"
    if held.part == "computing" and base.compute_s and profile.compute_s:
        longer = profile.compute_s.value / base.compute_s.value
        alone = workers_text(base.point.workers)
        return f"computing takes {longer:.2f}x as long as at {alone}: workers share cores, caches and memory"
    by_data = any(f.id == "late-data" and f.message.startswith(here) for f in findings)
    waited = {
        "network": "wire time",
        "late workers": f"waiting for {'a worker whose data come late' if by_data else 'late workers'}",
    }
    name = waited.get(held.part, "waiting for data")
    return f"{percent_text(held.seconds / step.value)} of each step is {name}"


def _lost(profiles: Sequence[Profile]) -> str:
    """What is said of the smallest count that was tried and not measured at any setting."""
    measured = {p.point.workers for p in profiles if p.step_s is not None}
    tried = [p for p in profiles if p.reason and p.state not in ("ok", "cancelled")]
    first = min(
        (p for p in tried if p.point.workers not in measured), key=lambda p: p.point.workers, default=None
    )
    if first is None:
        return ""
    return f" {workers_text(first.point.workers)} did not get through ({first.state}): {first.reason}."


def _busy(findings: Sequence[Finding]) -> str:
    """A word about others on the machine, where they took much of it."""
    shares = [f.value for f in findings if f.id == "foreign-cpu" and f.value is not None]
    most = max(shares, default=0.0)
    if most <= _BUSY_RATIO:
        return ""
    return f" Other processes took up to {percent_text(most)} of the cores meanwhile: measure again when it is quiet."


def _one_count(profile: Profile, projections: Sequence[Projection], *, others: bool) -> str:
    """`others`: whether there may be a second count to measure."""
    rate, step = profile.throughput_per_s, profile.step_s
    speed = (
        f"{estimate_text(rate)} samples/s"
        if rate
        else f"{step.value * 1e3:.3g} ms per step"
        if step
        else "unknown speed"
    )
    gains = {projection.workers: projection.speedup for projection in projections if projection.speedup}
    more = "; one count says nothing about scaling, measure another" if others else ""
    if others and gains:
        most = max(gains)
        foreseen = f"{workers_text(most)} are foreseen at {range_text(gains[most], unit='x')} its speed"
        more = f"; no other count was measured: {foreseen}"
    return f"{workers_text(profile.point.workers)}: {speed}{more}."


def workers_text(count: int) -> str:
    """1 worker, 2 workers."""
    return f"{count} worker{'s' if count > 1 else ''}"
