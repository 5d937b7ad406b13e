"""gloo against NCCL: which points a node cannot run and why, and what two backends say about one training.

refused    NCCL needs a torch built with it, CUDA devices, and one device for every worker of a node
compared   the same point on two backends: step, wire, and whether rank 0 saw the same losses step by step

Losses agree when they differ by at most 1% of their size, or as much as two launches on one backend differ: the
order of summation is the backend's own, so the last digits are too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from paceline.core.units import duration_text
from paceline.measure.profiles import Launches
from paceline.plan.preflight import Facts
from paceline.records import Finding, Point, Profile, TrialResult

__all__ = ["backend_findings", "loss_difference", "refused_points"]

LOSS_RATIO = 0.01


def refused_points(points: Sequence[Point], nodes: Sequence[Facts]) -> Mapping[str, Finding]:
    """Points whose backend cannot run on these nodes, each with the Finding that says so."""
    refused = {}
    for point in points:
        if point.backend == "nccl":
            reason = _nccl_refusal(point, nodes)
            if reason is not None:
                refused[point.id] = reason
    return refused


def backend_findings(groups: Sequence[Launches], profiles: Sequence[Profile]) -> Iterator[Finding]:
    """One Finding for each pair of backends at the same setting: times, and whether the losses agree."""
    measured = [(group, profile) for group, profile in zip(groups, profiles, strict=True) if profile.step_s]
    for (first, left), (second, right) in combinations(measured, 2):
        one, other = first.point, second.point
        if one.backend is None or other.backend is None or one.backend == other.backend:
            continue
        if replace(one, id="", backend=None) != replace(other, id="", backend=None):
            continue
        yield _comparison(left, right)
        yield from _losses(first, second)


def loss_difference(one: TrialResult, other: TrialResult) -> tuple[float, int] | None:
    """The largest relative difference of rank 0's losses at the same step, and how many steps both recorded."""
    left, right = _loss_by_step(one), _loss_by_step(other)
    shared = sorted(left.keys() & right.keys())
    if not shared:
        return None
    scale = max(max(abs(left[k]), abs(right[k])) for k in shared) or 1.0
    return max(abs(left[k] - right[k]) for k in shared) / scale, len(shared)


def _nccl_refusal(point: Point, nodes: Sequence[Facts]) -> Finding | None:
    each = -(-point.workers // point.nodes)
    for facts in nodes[: point.nodes]:
        who = f"node {facts.node} ({facts.host})"
        if facts.nccl is False:
            return _refused(f"the torch of {who} is built without NCCL")
        if facts.devices is not None and not facts.devices:
            return _refused(f"{who} has no CUDA device, which NCCL needs")
        if facts.devices is not None and len(facts.devices) < each:
            return _refused(
                f"{who} has {len(facts.devices)} CUDA device{'' if len(facts.devices) == 1 else 's'} for {each} "
                "workers: NCCL refuses two workers on one device",
                hint=f"at most {len(facts.devices)} workers per node with nccl, or --backend gloo",
            )
    return None


def _refused(
    reason: str, *, hint: str = "--backend gloo, or a machine with CUDA devices and NCCL"
) -> Finding:
    return Finding("backend-refused", "note", reason, hint=hint)


def _comparison(left: Profile, right: Profile) -> Finding:
    step, other = left.step_s, right.step_s
    assert step is not None
    assert other is not None
    text = (
        f"{left.point.id} and {right.point.id}: a step takes {duration_text(step.value)} on {left.point.backend} and "
        f"{duration_text(other.value)} on {right.point.backend}"
    )
    if left.wire_s is not None and right.wire_s is not None and left.point.workers > 1:
        text += f", of it network {duration_text(left.wire_s.value)} and {duration_text(right.wire_s.value)}"
    apart = not _overlap(left, right)
    text += "" if apart else "; their intervals overlap, so no difference is shown"
    return Finding("backends-compared", "note", text, value=step.value / other.value, threshold=1.0)


def _losses(first: Launches, second: Launches) -> Iterator[Finding]:
    """Whether the two backends trained alike. A script without a fixed seed differs from itself too."""
    names = f"{first.point.backend} and {second.point.backend}"
    pairs = [loss_difference(a, b) for a in _good(first) for b in _good(second)]
    known = [pair for pair in pairs if pair is not None]
    if not known:
        return
    difference, steps = min(known)
    own = [
        found[0]
        for group in (first, second)
        for a, b in combinations(_good(group), 2)
        if (found := loss_difference(a, b)) is not None
    ]
    limit = max(LOSS_RATIO, max(own, default=0.0))
    where = f"{first.point.id}, {second.point.id}"
    if limit > LOSS_RATIO:
        yield Finding(
            "losses-not-comparable",
            "note",
            f"{where}: losses of two runs on one backend differ by {limit:.1%}, so {names} cannot be told apart by "
            "them",
            value=difference,
            threshold=LOSS_RATIO,
            hint="fix the script's seed to compare losses between backends",
        )
    elif difference <= limit:
        yield Finding(
            "losses-agree",
            "note",
            f"{where}: losses on {names} agree within {difference:.2%} over {steps} steps",
            value=difference,
            threshold=LOSS_RATIO,
        )
    else:
        yield Finding(
            "losses-differ",
            "doubt",
            f"{where}: losses on {names} differ by {difference:.1%} within {steps} steps, and runs on one "
            "backend do not: the two do not train alike",
            value=difference,
            threshold=LOSS_RATIO,
            hint="compare weights after a few steps on both backends before trusting either",
        )


def _good(group: Launches) -> list[TrialResult]:
    return [result for result in group.results if result.state == "ok"]


def _loss_by_step(result: TrialResult) -> dict[int, float]:
    samples = result.workers[0].samples if result.workers else ()
    return {sample.k: sample.loss for sample in samples if sample.loss is not None}


def _overlap(left: Profile, right: Profile) -> bool:
    one, other = left.step_s, right.step_s
    if one is None or other is None or None in (one.low, one.high, other.low, other.high):
        return True  # one launch has no interval: nothing can be told apart
    return (one.low or 0.0) <= (other.high or 0.0) and (other.low or 0.0) <= (one.high or 0.0)
