"""Can the intervals of a Point be trusted, and who else was on the machine? Launches -> Findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from statistics import fmean

import numpy as np

from paceline.core.manifest import cores_of, number
from paceline.core.units import is_unusable, percent_text
from paceline.measure.profiles import Launches
from paceline.predict.step_law import expected_maximum
from paceline.records import Finding, Profile, TrialResult, WorkerRecord

__all__ = ["noise"]

FEWEST_LAUNCHES = 3
FEWEST_STEPS = 10
FOREIGN_RATIO = 0.10  # of the host's cores, taken by others while we measured
STEAL_RATIO = 0.02
WIDE_RATIO = 0.10
UNSTEADY_RATIO = 0.05
_MANY = 8  # workers, to say what the jitter of one would cost


def noise(group: Launches, profile: Profile) -> Iterator[Finding]:
    """Can the interval be trusted, and who else was on the machine?"""
    point, n = group.point, len(group.splits)
    if n < FEWEST_LAUNCHES:
        yield Finding(
            "few-launches",
            "doubt",
            f"only {n} run{'s' if n > 1 else ''} ({FEWEST_LAUNCHES} needed): runs differ by 1-10% "
            "even on an idle machine",
            value=float(n),
            threshold=float(FEWEST_LAUNCHES),
            command=f"paceline study STUDY --repeats {FEWEST_LAUNCHES + 2}",
            point=point.id,
        )
    step = profile.step_s
    if (
        step
        and step.low is not None
        and step.high is not None
        and (step.high - step.low) / 2 > WIDE_RATIO * step.value
    ):
        half = (step.high - step.low) / 2 / step.value
        known = (
            f"is known to ± {percent_text(half)} only"
            if not is_unusable(step)
            else "differs too much to be used"
        )
        yield Finding(
            "wide-interval",
            "doubt",
            f"the step time {known}",
            value=half,
            threshold=WIDE_RATIO,
            hint="more --repeats, or a quieter machine",
            point=point.id,
        )
    if any(not part.settled for part in group.splits):
        yield Finding(
            "not-settled",
            "doubt",
            f"step times had not settled after the warm-up in "
            f"{sum(not p.settled for p in group.splits)} of {n} runs",
            hint="raise --warmup",
            point=point.id,
        )
    yield from _unsteady(profile)
    fewest = min(group.splits, key=lambda part: part.steps)
    if fewest.steps < FEWEST_STEPS:
        early = f"; the script ended {fewest.missed_steps} steps before the last one asked for"
        yield Finding(
            "few-steps",
            "doubt",
            f"only {fewest.steps} steady steps in a run{early if fewest.missed_steps else ''}",
            value=float(fewest.steps),
            threshold=float(FEWEST_STEPS),
            hint="let the script train for longer (more epochs, more data), or lower --warmup"
            if fewest.missed_steps
            else "raise --steps",
            point=point.id,
        )
    foreign = [share for r in group.results if (share := _foreign_share(r)) is not None]
    if foreign and fmean(foreign) > FOREIGN_RATIO:
        yield Finding(
            "foreign-cpu",
            "doubt",
            f"other processes took {percent_text(fmean(foreign))} of this host's cores meanwhile",
            value=fmean(foreign),
            threshold=FOREIGN_RATIO,
            hint="stop them, or raise --repeats",
            point=point.id,
        )
    steal = [share for r in group.results if (share := _window_share(r, "host_steal_s")) is not None]
    if steal and fmean(steal) > STEAL_RATIO:
        yield Finding(
            "stolen-cpu",
            "doubt",
            f"the hypervisor gave {percent_text(fmean(steal))} of this machine's cores to others",
            value=fmean(steal),
            threshold=STEAL_RATIO,
            hint="measure on a machine that is not shared, or raise --repeats",
            point=point.id,
        )
    yield from _crowded(group)


def _crowded(group: Launches) -> Iterator[Finding]:
    """Workers of one host share its cores, as far as their quotas let them; those of one node its quota too."""
    manifests = [worker.manifest for result in group.results for worker in _beside_first(result)]
    if not manifests or {m.get("device") for m in manifests} != {"cpu"}:
        return
    point, first = group.point, manifests[0]
    threads, cpus, quota = (number(first, name) for name in ("threads", "cpus", "cpu_quota"))
    own = cores_of(first)
    if not threads or not cpus or own is None:
        return
    together = max(len(_beside_first(result)) for result in group.results)
    per_node = ceil(point.workers / point.nodes)
    wanted = threads if quota is None else min(threads, quota / per_node)
    for workers, asked, cores in (
        (together, together * wanted, int(cpus)),
        (per_node, per_node * threads, own),
    ):
        if asked > cores:
            room = "one core" if cores == 1 else f"{cores} cores"
            yield Finding(
                "more-workers-than-cores",
                "doubt",
                f"{workers} workers × {threads:.0f} threads share {room}: "
                "this measures the operating system's scheduler, not how the training scales",
                value=workers * threads,
                threshold=float(cores),
                hint="use at most as many workers as cores, or more machines",
                point=point.id,
            )
            return


def _unsteady(profile: Profile) -> Iterator[Finding]:
    """Does one worker's own time differ much from step to step? With more of them the slowest of each step counts."""
    noise, alone = profile.step_noise_s, profile.compute_s or profile.step_s
    if noise is None or alone is None or noise.value <= UNSTEADY_RATIO * alone.value:
        return
    ratio = noise.value / alone.value
    late = ratio * float(expected_maximum(np.array(float(_MANY))))
    yield Finding(
        "unsteady-steps",
        "note",
        f"steps jitter by {percent_text(ratio)} on one worker: with {_MANY} workers expect about "
        f"{percent_text(late)} waiting",
        value=ratio,
        threshold=UNSTEADY_RATIO,
        hint="equal-length batches, DataLoader(num_workers > 0), or a quiet machine",
        point=profile.point.id,
    )


def _beside_first(result: TrialResult) -> list[WorkerRecord]:
    """The workers on the host of worker 0."""
    return [w for w in result.workers if w.manifest.get("host") == result.workers[0].manifest.get("host")]


def _window_share(result: TrialResult, name: str) -> float | None:
    """Share of all cores of the host, over the measured window of worker 0."""
    for worker in result.workers[:1]:
        window = worker.manifest.get("window")
        cpus = number(worker.manifest, "cpus")
        if isinstance(window, Mapping) and cpus:
            spent, wall = number(window, name), number(window, "wall_s")
            if spent is not None and wall:
                return spent / wall / cpus
    return None


def _foreign_share(result: TrialResult) -> float | None:
    """Busy time of worker 0's host that no worker of this trial caused, as a share of all its cores."""
    busy = _window_share(result, "host_busy_s")
    if busy is None:
        return None
    windows = [(w.manifest.get("window"), number(w.manifest, "cpus")) for w in _beside_first(result)]
    own = 0.0
    for window, cpus in windows:
        if isinstance(window, Mapping) and cpus:
            spent, wall = number(window, "own_cpu_s"), number(window, "wall_s")
            own += spent / wall / cpus if spent is not None and wall else 0.0
    return max(0.0, busy - own)
