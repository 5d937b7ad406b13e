"""Samples, workers and trials made by hand, for laws about the split and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.records import Exchange, Point, Sample, Trial, TrialResult, WorkerRecord

WARMUP = 4
MANIFEST = {
    "cpus": 64,
    "threads": 1,
    "device": "cpu",
    "gradient_bytes": 1000,
    "weights_checksum": 1.0,
    "problems": [],
}


def sample(k: int, step_s: float, wait_s: float | None = 0.0, **more: object) -> Sample:
    """One step; `wait_s` None: not looked at."""
    known = {
        "input_s": 0.0,
        "optimizer_s": 0.001,
        "exchanges": None if wait_s is None else (Exchange(wait_s, 0.0),),
        "samples": 32,
        "exchanged_bytes": 1000,
        "backwards": 1,
        "boundary": False,
        "own_s": 1e-5,
    }
    return Sample(k=k, end_s=float(k), step_s=step_s, **{**known, **more})


def worker(rank: int, samples: Sequence[Sample], world: int = 2, **manifest: object) -> WorkerRecord:
    fingerprint = {"batch_fingerprint": [rank, rank + 10, rank + 20]}
    return WorkerRecord(rank, world, tuple(samples), {**MANIFEST, **fingerprint, **manifest})


def result(
    workers: Sequence[WorkerRecord], *, point: Point | None = None, repeat: int = 1, state: str = "ok"
) -> TrialResult:
    point = point or Point(f"w{len(workers)}", len(workers))
    reason = None if state == "ok" else f"worker 0: {state}"
    return TrialResult(Trial(f"{point.id}-{repeat}", point, repeat, ()), state, reason, tuple(workers), 1.0)


def steady(
    count: int, step_s: float, *, point: Point | None = None, repeat: int = 1, **more: object
) -> TrialResult:
    """A trial in which every step of every worker takes the same time and nobody waits."""
    samples = [sample(k, step_s, **more) for k in range(2, WARMUP + 22)]
    return result([worker(rank, samples, count) for rank in range(count)], point=point, repeat=repeat)


def apart(results: Sequence[TrialResult]) -> list[TrialResult]:
    """The same trials, in which every worker has come to weights of its own."""
    return [
        replace(
            one,
            workers=tuple(
                replace(w, manifest={**w.manifest, "weights_checksum": 1.0 + w.rank}) for w in one.workers
            ),
        )
        for one in results
    ]
