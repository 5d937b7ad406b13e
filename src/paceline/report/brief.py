"""The five questions of a reader, each with one line: workers, batch and rate, limit, more workers, accuracy.

A line that nobody should build upon says so (`doubtful`), and one that has no answer says how to get it (`unknown`).
Everything is picked from the Analysis, on the same Curve as the verdict; nothing is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.bottleneck import bottleneck
from paceline.doubling import doublings, told_curve, worthwhile
from paceline.records import Analysis, Comparison, Estimate, Point, Profile, Projection
from paceline.refuse import wide
from paceline.units import counts_text, duration_range_text, estimate_text, percent_text, range_text

__all__ = ["Line", "brief"]

Standing = Literal["known", "doubtful", "unknown"]
_TRAINED = ("time-to-accuracy", "lr-rule")
_FAILED = {"oom": "ran out of memory", "timeout": "ran out of time"}
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
    "cannot tell": "may or may not survive: too few seeds to tell",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One question in a word or two, its answer, and how far the answer carries."""

    question: str
    answer: str
    standing: Standing = "known"


def brief(analysis: Analysis) -> tuple[Line, ...]:
    """The five lines; none where nothing sound was measured, for then the verdict is all there is to say."""
    sound = [p for p in analysis.points if p.state == "ok" and (p.step_s or p.speedup)]
    if not sound or any(f.level == "void" or f.id == "no-exchange" for f in analysis.findings):
        return ()
    curve = told_curve(sound)
    found = worthwhile(curve)
    shown = found.following.after if found.best is curve[0] and found.following else found.best
    return (
        _workers(analysis, curve),
        _batch(analysis, found.best),
        _limit(analysis, curve[0], shown),
        _more(analysis, curve),
        _accuracy(analysis),
    )


def _workers(analysis: Analysis, curve: Sequence[Profile]) -> Line:
    question, trained = "Workers", analysis.convergence
    lost = ", ".join(f"{p.point.workers} {_FAILED.get(p.state, p.state)}" for p in _failed(analysis, curve))
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


def _failed(analysis: Analysis, curve: Sequence[Profile]) -> list[Profile]:
    """Larger counts that were tried and not measured, each once."""
    known = {p.point.workers for p in analysis.points if p.state == "ok"}
    lost = [p for p in analysis.points if p.state not in ("ok", "cancelled") and p.point.workers not in known]
    first = {p.point.workers: p for p in reversed(lost) if p.point.workers > curve[0].point.workers}
    return [first[count] for count in sorted(first)]


def _batch(analysis: Analysis, best: Profile) -> Line:
    question = "Batch, learning rate"
    trained = _recommended(analysis)
    if trained is not None and any(r.goal in _TRAINED for r in analysis.recommendations):
        batch = f"{trained.per_worker_batch} per worker" if trained.per_worker_batch else "batch not known"
        warm = f", {trained.warmup_epochs:g} epochs of warm-up" if trained.warmup_epochs else ""
        return Line(question, f"{batch}; rule for the rate: {trained.lr_rule or 'not known'}{warm}")
    point = next((p.point for p in analysis.points if trained and p.point.id == trained.point), best.point)
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


def _limit(analysis: Analysis, base: Profile, shown: Profile) -> Line:
    question = "What holds it back"
    here = f"{shown.point.id}: "
    if any(f.id == "split-contradicts" and f.message.startswith(here) for f in analysis.findings):
        return Line(question, "could not be seen: the parts of the step contradict one another", "doubtful")
    if shown.point.workers == base.point.workers:
        return Line(question, "not known: nothing was measured beside one count", "unknown")
    held = bottleneck(base, shown)
    if held is None or shown.step_s is None or shown.wire_s is None:
        return Line(question, "not known: times of whole steps do not tell", "unknown")
    if held.part is None:
        return Line(question, "nothing but computing: network, late workers and data take little")
    text, vague = _part(held.part, base, shown)
    took = f"at {shown.point.workers} workers a step takes {duration_range_text(shown.step_s)}"
    return Line(question, f"{text}, {took}", "doubtful" if vague else "known")


def _part(name: str, base: Profile, shown: Profile) -> tuple[str, bool]:
    """The part in words, and whether it may as well be nothing."""
    if name == "computing" and shown.compute_s and base.compute_s:
        now, alone = duration_range_text(shown.compute_s), duration_range_text(base.compute_s)
        return f"computing takes {now} instead of {alone}", wide(shown.compute_s) or wide(base.compute_s)
    words, part = {
        "network": ("the network", shown.wire_s),
        "late workers": ("late workers", shown.straggle_s),
    }.get(name, ("waiting for data", shown.input_s))
    assert part is not None  # it is what was found
    return f"{words}: {duration_range_text(part)} of each step", _vague(part)


def _vague(part: Estimate) -> bool:
    """Whether an interval holds nearly nothing as well as the value."""
    return part.low is not None and part.low < part.value / 4


def _more(analysis: Analysis, curve: Sequence[Profile]) -> Line:
    question = "On more workers"
    own = {p.point.id for p in curve}
    ahead = [p for p in analysis.projections if p.baseline in own or p.baseline is None]
    tried = {p.point.workers for p in analysis.points}
    refused = sorted({r.workers for r in analysis.refusals if r.rule != "wide-interval"} - tried)
    if ahead:
        far = max(ahead, key=lambda p: p.workers)
        beyond = [count for count in refused if count > far.workers]
        text = _foreseen(far) + (f"; {counts_text(beyond)}: refused" if beyond else "")
        return Line(question, text, "doubtful" if wide(far.time_s) else "known")
    if refused:
        reason = next(r.reason for r in analysis.refusals if r.workers == refused[0])
        return Line(question, f"{counts_text(refused)}: refused, {reason}", "unknown")
    return Line(question, "not asked: paceline project says, or refuses", "unknown")


def _foreseen(far: Projection) -> str:
    values = [
        f"speed-up {estimate_text(far.speedup)}" if far.speedup else "",
        f"{percent_text(far.efficiency_ratio)} efficient" if far.efficiency_ratio else "",
    ]
    told = ", ".join(value for value in values if value) or duration_range_text(far.time_s)
    order = "an order of magnitude, " if wide(far.time_s) else ""
    return f"{far.workers}: {order}{told}; projected, not measured"


def _accuracy(analysis: Analysis) -> Line:
    question = "Accuracy"
    if told := _compared(analysis):
        return told
    said = sorted((f for f in analysis.findings if f.id in _BY_TABLE), key=lambda f: _BY_TABLE.index(f.id))
    if said:
        return Line(question, said[0].message, "known" if said[0].id == "accuracy-survives" else "doubtful")
    if any(p.accuracy for p in analysis.points):
        return Line(question, "given for each point below; whether it survives is not decided", "doubtful")
    return Line(question, "not known: none was measured; paceline study --to-accuracy trains", "unknown")


def _compared(analysis: Analysis) -> Line | None:
    """What became of accuracy in the recommended configuration, against the first that was asked for."""
    found, best = analysis.convergence, _recommended(analysis)
    if found is None or best is None:
        return None
    if found.target is not None and not any(c.reached for c in found.comparisons):
        return Line("Accuracy", f"no configuration reached {found.metric} {found.target:g}", "doubtful")
    reached = (
        f"{best.reached} of {best.seeds} seeds reached {found.target:g}" if found.target is not None else ""
    )
    came = f"{found.metric} {range_text(best.metric)} with {best.label}" if best.metric else ""
    text = "; ".join(part for part in (reached or came, _survival(best)) if part)
    sure = best.survives != "cannot tell" and (found.target is None or best.reached == best.seeds)
    return Line("Accuracy", text, "known" if sure else "doubtful") if text else None


def _recommended(analysis: Analysis) -> Comparison | None:
    """The configuration that is recommended, by its name; without a recommendation that which came first."""
    trained = analysis.convergence.comparisons if analysis.convergence else ()
    advice = next((r for r in analysis.recommendations if r.goal in _TRAINED), None)
    named = [c for c in trained if advice is not None and advice.text.startswith(c.label)]
    return max(named, key=lambda c: len(c.label)) if named else next(iter(trained), None)


def _survival(best: Comparison) -> str:
    if best.survives is None or best.difference is None:
        return ""
    better = best.difference.low is not None and best.difference.low > 0
    word = _SURVIVES["better" if better else best.survives]
    return f"{word} against the first configuration ({estimate_text(best.difference)})"
