"""Did the workers of a Point train one network together, and was every wait for one another seen? -> Findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.core.manifest import number
from paceline.measure.profiles import Launches
from paceline.measure.strategy import DRIFT_RATIO, fingerprint, weights_differ
from paceline.records import Finding, Profile, Sample, WorkerRecord

__all__ = ["together", "unseen_waits"]

_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
_NO_SYNC = "run all but the last backward pass under no_sync()"
_HOLD_BACK = {
    "ddp": _NO_SYNC,
    "fsdp1": _NO_SYNC,
    "": _NO_SYNC,
    "fsdp2": "call set_requires_gradient_sync(False) on the network for all but the last backward pass",
    "hsdp": "call set_requires_gradient_sync(False) on the network for all but the last backward pass",
}


def together(group: Launches) -> Iterator[Finding]:
    """Did the workers train one network together?"""
    point = group.point
    if point.workers == 1:
        return
    done = [r.workers for r in group.results if r.state == "ok"]
    drifts = [drift for workers in done if (drift := weights_differ(workers)) is not None]
    gradients = max(
        (number(w.manifest, "gradient_bytes") or 0.0 for r in group.results for w in r.workers), default=0.0
    )
    yield from _exchanged_nothing(group, gradients, agree=any(map(_agree, done)))
    if drifts and max(drifts) > DRIFT_RATIO:
        yield Finding(
            "replicas-differ",
            "doubt",
            f"after the run the workers' weights differ by a relative {max(drifts):.1e}: "
            "they are not training one network",
            value=max(drifts),
            threshold=DRIFT_RATIO,
            hint="call the DDP wrapper, not .module, and create it after loading weights",
            point=point.id,
        )
    yield from _exchanged_too_often(group, gradients)


def _exchanged_nothing(group: Launches, gradients: float, *, agree: bool) -> Iterator[Finding]:
    """Nothing was sent; weights that agree after different batches are proof that it was, whatever was seen."""
    exchanged = [s.exchanged_bytes_per_step for s in group.splits if s.exchanged_bytes_per_step is not None]
    if exchanged and max(exchanged) == 0.0 and not agree:
        yield Finding(
            "no-exchange",
            "doubt",
            f"{group.point.workers} workers ran, but no gradients were communicated between them: "
            f"{group.point.workers} separate trainings, so a speed-up means nothing",
            value=0.0,
            threshold=gradients or None,
            hint="wrap the network in DistributedDataParallel (or check that the script calls it through the wrapper)",
            point=group.point.id,
        )


def _agree(workers: Sequence[WorkerRecord]) -> bool:
    """Whether weights are equal though batches were not: only together do they come to the same."""
    drift = weights_differ(workers)
    marks = {fingerprint(worker) for worker in workers}
    return drift is not None and drift <= DRIFT_RATIO and len(marks) > 1


def _exchanged_too_often(group: Launches, gradients: float) -> Iterator[Finding]:
    """Were all gradients sent after every backward of a step?"""
    tails = [sample for r in group.results for w in r.workers for sample in w.samples[-4:]]
    several = any((number(w.manifest, "optimizers") or 1) > 1 for r in group.results for w in r.workers)
    looked = [s for s in tails if s.exchanges is not None and s.exchanged_bytes is not None]
    several |= any(w.manifest.get("gradients_dropped") is True for r in group.results for w in r.workers)
    spread = any((s.replicas or group.point.workers) < group.point.workers for s in group.splits)
    if looked and not several and not spread and all(_exchanged_each_time(s, gradients) for s in looked):
        most = max(s.backwards for s in looked)
        yield Finding(
            "exchange-every-micro-step",
            "doubt",
            f"gradients are all-reduced in each of the {most} backward passes of a step; once would do",
            value=float(most),
            threshold=1.0,
            hint=_HOLD_BACK.get(
                group.splits[0].strategy or "", "send gradients after the last backward pass only"
            ),
            point=group.point.id,
        )


def _exchanged_each_time(sample: Sample, gradient_bytes: float) -> bool:
    """Whether every backward pass of the step sent the gradients: so often, and so much. (A script may exchange small
    numbers of its own beside them.) What is gathered are weights, what is sent in forward are activations."""
    sent = sample.exchanges or ()
    size_bytes = sample.exchanged_bytes or 0
    if all(exchange.of is not None for exchange in sent):
        sent = tuple(e for e in sent if e.of is not None and e.of.op in _REDUCING and e.of.phase != "forward")
        size_bytes = sum(e.of.size_bytes or 0 for e in sent if e.of is not None)
    return len(sent) >= sample.backwards > 1 and size_bytes > (sample.backwards - 0.5) * gradient_bytes


def unseen_waits(group: Launches, profile: Profile) -> Iterator[Finding]:
    """Why a step of several workers is not split, where it is not."""
    if group.point.workers < 2 or profile.compute_s is not None:
        return
    captured = any(w.manifest.get("captured") is True for r in group.results for w in r.workers)
    how = "inside a CUDA graph" if captured else "in a way that the agent does not see into"
    yield Finding(
        "waits-unseen",
        "note",
        f"workers communicate {how}, so the step is timed and not split into computing and waiting",
        hint="study it once without the graph to see what its workers wait for" if captured else None,
        point=group.point.id,
    )
