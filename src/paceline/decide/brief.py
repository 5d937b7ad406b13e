"""The five questions of a reader, each with one line: workers, batch and rate, limit, more workers, accuracy.

A line that nobody should build upon says so (`doubtful`), and one that has no answer says how to get it (`unknown`).
All are about the Series of the Verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from paceline.core.units import (
    counts_text,
    duration_range_text,
    estimate_text,
    gain_text,
    is_wide,
    percent_text,
    range_text,
)
from paceline.measure.bottleneck import bottleneck
from paceline.measure.doubling import doublings, worthwhile
from paceline.records import (
    Comparison,
    Convergence,
    Estimate,
    Finding,
    Line,
    Point,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    Verdict,
)

__all__ = ["brief"]

Standing = Literal["known", "doubtful", "unknown"]
_TRAINED = ("time-to-accuracy", "lr-rule")
_FAILED = {"oom": "ran out of memory", "timeout": "ran out of time", "short": "ended too early"}
_BY_TABLE = (
    "accuracy-falls",
    "accuracy-undecided",
    "accuracy-inside-noise",
    "accuracy-noise-unknown",
    "accuracy-survives",
)  # findings about accuracy columns, the worst first
_SURVIVES = {
    "survives": "survives",
    "worse": "is worse",
    "better": "is better",
    "cannot tell": "may or may not survive: too few seeds",
}


def brief(
    verdict: Verdict,
    profiles: Sequence[Profile],
    findings: Sequence[Finding],
    *,
    projections: Sequence[Projection],
    refusals: Sequence[Refusal],
    advice: Sequence[Recommendation],
    convergence: Convergence | None,
) -> tuple[Line, ...]:
    """The five lines; none where there is no answer, for then the verdict is all there is to say."""
    own = {p.point.id: p for p in profiles}
    curve = [own[name] for name in verdict.points]
    if not curve or (verdict.answer == "no_answer" and verdict.reasons[0].id != "one-count"):
        return ()
    found = worthwhile(curve)
    shown = found.following.after if found.best is curve[0] and found.following else found.best
    return (
        _workers(profiles, curve, convergence),
        _batch(profiles, found.best, advice, convergence),
        _limit(findings, curve[0], shown),
        _more(profiles, curve, projections, refusals),
        _accuracy(profiles, findings, advice, convergence),
    )


def _workers(profiles: Sequence[Profile], curve: Sequence[Profile], trained: Convergence | None) -> Line:
    question = "Workers"
    lost = ", ".join(f"{p.point.workers} {_FAILED.get(p.state, p.state)}" for p in _failed(profiles, curve))
    fastest = next((c for c in (trained.comparisons if trained else ()) if c.time_to_target_s), None)
    if fastest is not None:
        return Line(question, f"{fastest.workers}, the fastest to the target")
    found = worthwhile(curve)
    count, following = found.best.point.workers, found.following
    if not doublings(curve):
        return Line(question, f"{count} measured; {lost or 'no other count to compare it with'}", "unknown")
    if following is None:
        return Line(question, f"{count}: every doubling up to it pays, and more were not measured")
    more = following.after.point.workers
    gain = f"{range_text(following.gain, unit='x')} per doubling"
    if found.undecided:
        return Line(question, f"{count} for sure; whether {more} pay is not decided ({gain})", "doubtful")
    return Line(question, f"{count}: {more} gain too little ({gain})")


def _failed(profiles: Sequence[Profile], curve: Sequence[Profile]) -> list[Profile]:
    """Larger counts that were tried and not measured, each once."""
    known = {p.point.workers for p in profiles if p.state == "ok"}
    lost = [p for p in profiles if p.state not in ("ok", "cancelled") and p.point.workers not in known]
    first = {p.point.workers: p for p in reversed(lost) if p.point.workers > curve[0].point.workers}
    return [first[count] for count in sorted(first)]


def _batch(
    profiles: Sequence[Profile],
    best: Profile,
    advice: Sequence[Recommendation],
    convergence: Convergence | None,
) -> Line:
    question = "Batch, learning rate"
    trained = _recommended(advice, convergence)
    if trained is not None and any(r.goal in _TRAINED for r in advice):
        batch = f"{trained.per_worker_batch} per worker" if trained.per_worker_batch else "batch not known"
        warm = f", {trained.warmup_epochs:g} epochs of warm-up" if trained.warmup_epochs else ""
        return Line(question, f"{batch}; rule for the rate: {trained.lr_rule or 'not known'}{warm}")
    point = next((p.point for p in profiles if trained and p.point.id == trained.point), best.point)
    standing: Standing = "known" if point.per_worker_batch or point.global_batch else "unknown"
    return Line(question, f"{_setting(point)}; no rules for the rate were compared", standing)


def _setting(point: Point) -> str:
    each, whole = point.per_worker_batch, point.global_batch
    parts = [
        f"{each} per worker" if each else "" if whole else "batch not known",
        f"{whole} in all" if whole and whole != each else "",
        point.backend or "",
        *(f"{flag.lstrip('-')} {value}" for flag, value in point.varied),
    ]
    return ", ".join(part for part in parts if part)


def _limit(findings: Sequence[Finding], base: Profile, shown: Profile) -> Line:
    question = "What holds it back"
    if any(f.id == "split-contradicts" and f.point == shown.point.id for f in findings):
        return Line(question, "not known: the step could not be split reliably", "doubtful")
    if shown.point.workers == base.point.workers:
        return Line(question, "not known: nothing was measured beside one count", "unknown")
    held = bottleneck(base, shown)
    if held is None or shown.step_s is None or shown.wire_s is None:
        return Line(question, "not known: only times of whole steps are known", "unknown")
    if held.part is None:
        return Line(question, "computing: network, waiting and data take little")
    text, vague = _part(held.part, base, shown)
    took = f"at {shown.point.workers} workers a step takes {duration_range_text(shown.step_s)}"
    return Line(question, f"{text}, {took}", "doubtful" if vague else "known")


def _part(name: str, base: Profile, shown: Profile) -> tuple[str, bool]:
    """The part in words, and whether it may as well be nothing."""
    if name == "computing" and shown.compute_s and base.compute_s:
        now, alone = duration_range_text(shown.compute_s), duration_range_text(base.compute_s)
        return f"computing takes {now} instead of {alone}", is_wide(shown.compute_s) or is_wide(
            base.compute_s
        )
    words, part = {
        "network": ("the network", shown.wire_s),
        "late workers": ("waiting for the slowest worker", shown.straggle_s),
    }.get(name, ("waiting for data", shown.input_s))
    assert part is not None  # it is what was found
    return f"{words}: {duration_range_text(part)} of each step", _vague(part)


def _vague(part: Estimate) -> bool:
    """Whether an interval holds nearly nothing as well as the value."""
    return part.low is not None and part.low < part.value / 4


def _more(
    profiles: Sequence[Profile],
    curve: Sequence[Profile],
    projections: Sequence[Projection],
    refusals: Sequence[Refusal],
) -> Line:
    question = "On more workers"
    own = {p.point.id for p in curve}
    ahead = [p for p in projections if p.baseline in own or p.baseline is None]
    tried = {p.point.workers for p in profiles}
    refused = sorted({r.workers for r in refusals if r.rule != "wide-interval"} - tried)
    if ahead:
        far = max(ahead, key=lambda p: p.workers)
        beyond = [count for count in refused if count > far.workers]
        text = _predicted(far) + (f"; {counts_text(beyond)}: no prediction" if beyond else "")
        return Line(question, text, "doubtful" if is_wide(far.time_s) else "known")
    if refused:
        reason = next(r.reason for r in refusals if r.workers == refused[0])
        return Line(question, f"{counts_text(refused)}: no prediction, {reason}", "unknown")
    return Line(question, "not asked: paceline project predicts them", "unknown")


def _predicted(far: Projection) -> str:
    values = [
        f"speed-up {gain_text(far.speedup)}" if far.speedup else "",
        f"{percent_text(far.efficiency_ratio)} efficient" if far.efficiency_ratio else "",
    ]
    told = ", ".join(value for value in values if value) or duration_range_text(far.time_s)
    order = "a rough guess, " if is_wide(far.time_s) else ""
    return f"{far.workers}: {order}{told}; predicted, not measured"


def _accuracy(
    profiles: Sequence[Profile],
    findings: Sequence[Finding],
    advice: Sequence[Recommendation],
    convergence: Convergence | None,
) -> Line:
    question = "Accuracy"
    if told := _compared(advice, convergence):
        return told
    said = sorted((f for f in findings if f.id in _BY_TABLE), key=lambda f: _BY_TABLE.index(f.id))
    if said:
        return Line(question, said[0].message, "known" if said[0].id == "accuracy-survives" else "doubtful")
    if any(p.accuracy for p in profiles):
        return Line(question, "given for each setting below; whether it survives is not decided", "doubtful")
    return Line(question, "not known: none was measured; paceline study --to-accuracy trains", "unknown")


def _compared(advice: Sequence[Recommendation], found: Convergence | None) -> Line | None:
    """What became of accuracy in the recommended configuration, against the first that was asked for."""
    best = _recommended(advice, found)
    if found is None or best is None:
        return None
    if found.target is not None and not any(c.reached for c in found.comparisons):
        return Line("Accuracy", f"no configuration reached {found.metric} {found.target:g}", "doubtful")
    reached = (
        f"{best.reached} of {best.seeds} seeds reached {found.target:g}" if found.target is not None else ""
    )
    came = f"best {found.metric} {range_text(best.metric)} with {best.label}" if best.metric else ""
    text = "; ".join(part for part in (reached or came, _survival(best)) if part)
    sure = best.survives != "cannot tell" and (found.target is None or best.reached == best.seeds)
    return Line("Accuracy", text, "known" if sure else "doubtful") if text else None


def _recommended(advice: Sequence[Recommendation], found: Convergence | None) -> Comparison | None:
    """The configuration that is recommended; without a recommendation that which came first."""
    trained = found.comparisons if found else ()
    first = next((r for r in advice if r.goal in _TRAINED), None)
    named = [c for c in trained if first is not None and c.point == first.point]
    return next(iter((*named, *trained)), None)


def _survival(best: Comparison) -> str:
    if best.survives is None or best.difference is None:
        return ""
    better = best.difference.low is not None and best.difference.low > 0
    word = _SURVIVES["better" if better else best.survives]
    return f"{word} against the first configuration ({estimate_text(best.difference)})"
