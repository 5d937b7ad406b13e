"""Rows of the laboratory -> predictions, for benchmarks/lab_prediction.py: before what they foresee is measured.

Every prediction is one call of paceline.analysis.outlook.answers on one Profile (1 worker) and the probed Links, as
`paceline project` makes it; what-ifs are its own changes. Where a worker is late, no profile of another host can tell:
there the Profile of 2 workers, one of them late, is given too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean, median

from lab_cells import EIGHTH_CORES, OWN_CORES, REAL_CORES, Cells, family, sources, times_over
from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.core.stats import deviation, estimate
from paceline.links.fit import link_from_probe
from paceline.links.probe import beside_from
from paceline.predict.baselines import baseline_times
from paceline.predict.whatif import NO_CHANGE, change_from
from paceline.records import BucketReady, Estimate, JitterProbe, LinkProbe, Point, ProbeTime, Profile, Setting

Row = dict
_MANY = 1_000_000  # launches: what one launch does by itself is gone
CHANGES = {"fp16": "bytes=0.5", "accumulate": "accumulate=4", "link": "link=2x", "bucket": "bucket=2x"}


def predictions_for(
    raw: list[Row], tasks: list[Row], cells: Cells, *, computing_s: Callable[[Row], float] | None = None
) -> Iterator[Row]:
    """One row for every cell, and for what-ifs one more on the cells that they change.

    computing_s: what a step computes, where that is known better than by the profile.
    """
    trained = {
        (r["launch"], r["stage"], *name_of(r)): r for r in raw if r["kind"] == "cell" and not r.get("alone")
    }
    profiled = defaultdict(list)
    for r in raw:
        if r.get("alone"):
            profiled[r["launch"], r["stage"], *name_of(r)].append(r)
    links = {(r["launch"], r["stage"]): link(r) for r in raw if r["kind"] == "probe"}
    jitter = {r["launch"]: steady_probes(raw, r["launch"]) for r in raw if r["kind"] == "probe"}
    for task in tasks:
        one, two = sources(task["launch"])
        known = [links[two, task["stage"]]]
        if task["workers"] > task["nodes"]:
            known.append(links["inside2", "unshaped"])
        if one == task["launch"]:
            rounds = profiled[one, task["stage"], *name_of(task)]
            row = together([r for r in rounds if task["round"] in (None, r["round"])])
            profiles = [profile_of(row)]
        else:
            profiles = [over_launches(_launched(trained, one, "unshaped", task), profile_of)]
        if computing_s is not None:
            profiles = [scaled(profiles[0], computing_s(task))]
            known = [
                replace(each, cores_s_per_byte=None) for each in known
            ]  # what that loses, and what waiting changes, is in the steps already
        seen = jitter[two] if computing_s is None else ()
        cluster = Cluster(backend="gloo", probes=tuple(known), jitter=seen)
        pair = trained.get((two, task["stage"], *name_of(task)))
        if task.get("late"):
            pairs = _launched(trained, "late2", task["stage"], task)
            pair = pairs[0]
            profiles.append(over_launches(pairs, late_profile))
        wanted = [name for name in ("fp16", "accumulate") if task.get(name)]
        middle = task["stage"] == f"{cells.middle_mbit}mbit" and task["cap_mb"] == cells.caps_mb[0]
        if task["launch"] == "w4" and not wanted and middle:
            for name in ("link", "bucket"):
                yield _predicted(task, profiles, cluster, CHANGES[name], what_if=name)
        change = CHANGES[wanted[0]] if wanted else None
        row = _predicted(task, profiles, cluster, change, what_if=wanted[0] if wanted else None)
        if not wanted and task["nodes"] == task["workers"] and pair is not None:
            row["others"] = _others(profiles[0], pair, task["workers"])
        yield row


def _launched(trained: dict, launch: str, stage: str, task: Row) -> list[Row]:
    """A cell as every launch of the same trained it; rows of before were launched once."""
    every = ((name, stage, *name_of(task)) for name in times_over(launch))
    return [trained[key] for key in every if key in trained]


def _predicted(
    task: Row, profiles: list[Profile], cluster: Cluster, change: str | None, *, what_if: str | None
) -> Row:
    ask = Ask(
        at=((Setting(task["workers"], task["nodes"], 1), ()),),
        change=change_from([change]) if change else NO_CHANGE,
    )
    found = outlook(profiles, cluster=cluster, ask=ask)
    row = {name: value for name, value in task.items() if name != "layers"} | {"what_if": what_if}
    if not found.projections:
        return row | {"refused": [refusal.reason for refusal in found.refusals]}
    projection = found.projections[0]
    time = projection.time_s
    row |= {"step_s": time.value, "low_s": time.low, "high_s": time.high}
    if cluster.jitter:
        often = [many_launches(profile) for profile in profiles]
        row["lasting"] = half_width(outlook(often, cluster=cluster, ask=ask).projections[0].time_s)
    return row | {"explanation": projection.explanation}


def many_launches(profile: Profile) -> Profile:
    """The same Profile, had very many launches that scatter as these do told it: what is its own evens out."""
    step, compute = (told_often(quantity) for quantity in (profile.step_s, profile.compute_s))
    return replace(profile, trials=_MANY, step_s=step, compute_s=compute)


def told_often(quantity: Estimate | None) -> Estimate | None:
    """The same value, its interval that of very many launches."""
    if quantity is None or quantity.low is None or quantity.high is None:
        return quantity
    less = math.sqrt(quantity.n / _MANY)
    low, high = (quantity.value + (edge - quantity.value) * less for edge in (quantity.low, quantity.high))
    return Estimate(quantity.value, low, high, _MANY)


def half_width(time: Estimate) -> float:
    """Half of an interval's logarithm."""
    assert time.low is not None
    assert time.high is not None
    return math.log(time.high / time.low) / 2


def _others(profile: Profile, pair: Row, workers: int) -> dict[str, float | None]:
    assert profile.step_s is not None
    work = [profile.step_s.value, step_s(pair) / 2]
    found = baseline_times([1.0, 2.0], work, [float(workers)])
    return {name: None if times is None else times[0] * workers for name, times in found.items()}


def together(rows: list[Row]) -> Row:
    """Rounds of one cell as one row: every worker of every round."""
    return {**rows[0], "workers": [worker for row in rows for worker in row["workers"]]}


def profile_of(row: Row) -> Profile:
    """What the desk makes of one worker: its step, and when buckets are ready. Where several trained alone at the same
    time, the mean over them, each of them one launch."""
    workers = sorted(row["workers"], key=lambda worker: median(worker["steps_s"]))
    middle = workers[(len(workers) - 1) // 2]
    timeline = middle.get("timeline") or row["timeline"]  # rows of before have that of the first worker alone
    step = spread(workers[0]["steps_s"])
    noise = [deviation(worker["steps_s"]) for worker in workers]
    if len(workers) > 1:
        step = mean_of([fmean(worker["steps_s"]) for worker in workers])
    return Profile(
        point=Point("w1", 1, per_worker_batch=1, global_batch=1, backend="gloo"),
        state="ok",
        reason=None,
        trials=1,
        step_s=step,
        compute_s=step,
        optimizer_s=Estimate(middle["optimizer_s"]),
        exchanged_bytes_per_step=Estimate(float(row["bytes"])),
        buckets=tuple(BucketReady(int(size), ready) for size, ready in timeline["buckets"]),
        backward_end_s=timeline["backward_end_s"],
        bucket_cap_bytes=float(int(row["cap_mb"] * 1024 * 1024)),
        cpu_ratio=busy(row),
        step_noise_s=None if None in noise else Estimate(fmean(noise)),
    )


def over_launches(rows: list[Row], made: Callable[[Row], Profile]) -> Profile:
    """What the desk makes of several launches of one Point: medians, with intervals of how far launches scatter."""
    each = [made(row) for row in rows]
    if len(each) == 1:
        return each[0]
    owns = zip(*(profile.own_s_by_worker for profile in each), strict=True)
    return replace(
        each[0],
        trials=len(each),
        own_s_by_worker=tuple(map(fmean, owns)),
        **{name: _over(each, name) for name in ("step_s", "compute_s", "exposed_s", "step_noise_s")},
    )


def _over(profiles: list[Profile], name: str) -> Estimate | None:
    known = [quantity for profile in profiles if (quantity := getattr(profile, name)) is not None]
    return estimate([quantity.value for quantity in known]) if len(known) == len(profiles) else None


def scaled(profile: Profile, computing_s: float) -> Profile:
    """The same training, its steps as long as this and steady; buckets are ready at the same share of it."""
    assert profile.step_s is not None
    assert profile.backward_end_s is not None
    factor = computing_s / profile.step_s.value
    return replace(
        profile,
        step_s=Estimate(computing_s),
        compute_s=Estimate(computing_s),
        buckets=tuple(replace(bucket, ready_s=bucket.ready_s * factor) for bucket in profile.buckets),
        backward_end_s=profile.backward_end_s * factor,
        step_noise_s=Estimate(0.0),
    )


def mean_of(values: list[float]) -> Estimate:
    """The mean with its interval."""
    middle, found = fmean(values), spread(values)
    shift = middle - found.value
    return Estimate(middle, (found.low or middle) + shift, (found.high or middle) + shift, len(values))


def spread(steps: list[float]) -> Estimate:
    """The median of steps, with an interval as wide as that of their mean."""
    middle, found = median(steps), estimate(steps)
    assert found is not None
    half = ((found.high or middle) - (found.low or middle)) / 2
    return Estimate(middle, middle - half, middle + half, len(steps))


def busy(row: Row) -> Estimate:
    """The share of a host's cores that its worker kept busy: of its quota, or of one core."""
    used = max(w["cpu_s_per_step"] / fmean(w["steps_s"]) for w in row["workers"])
    return Estimate(used / cores_of(row["launch"]))


def cores_of(launch: str) -> float:
    """What a host may use: its quota, its own cores, or one."""
    known = {"real": REAL_CORES, "eighth": EIGHTH_CORES, "own": OWN_CORES}
    return float(known.get(family(launch), 1.0))


def late_profile(row: Row) -> Profile:
    """What the desk makes of 2 workers: the step, and what each of them computes."""
    owns = [
        fmean(step - wait for step, wait in zip(w["steps_s"], w["waits_s"], strict=True))
        for w in row["workers"]
    ]
    step = spread([fmean(step) for step in zip(*(w["steps_s"] for w in row["workers"]), strict=True)])
    return Profile(
        point=Point("w2", 2, 2, per_worker_batch=1, global_batch=2, backend="gloo"),
        state="ok",
        reason=None,
        trials=1,
        step_s=step,
        compute_s=Estimate(min(owns)),
        exposed_s=Estimate(step.value - min(owns)),
        exchanged_bytes_per_step=Estimate(float(row["bytes"])),
        own_s_by_worker=tuple(owns),
        cpu_ratio=busy(row),
    )


def link(row: Row) -> LinkProbe:
    """The Link that the probe measured."""
    nodes = 1 if "inside" in row["launch"] else 2
    cores = cores_of(row["launch"])
    times = [
        ProbeTime(
            "gloo",
            r["op"],
            2,
            nodes,
            r["bytes"],
            r["repeat"],
            max(r["seconds"]),
            max(r["cpu_s"]) / cores if "cpu_s" in r else None,  # rows of before do not tell it
        )
        for r in row["rows"]
        if r["record"] == "row"
    ]
    beside = [beside_from(r, 2, nodes) for r in row["rows"] if r["record"] == "beside"]
    return link_from_probe(times, beside=beside)


def steady_probes(raw: list[Row], launch: str) -> tuple[JitterProbe, ...]:
    """What the hosts of a launch computed at the same time, without any exchange, in every probe."""
    return tuple(
        JitterProbe(len(r["seconds"]), len(r["seconds"]), tuple(map(tuple, r["seconds"])), r.get("pieces"))
        for row in raw
        if row["kind"] == "probe" and row["launch"] == launch
        for r in row["rows"]
        if r["record"] == "steady"
    )


def step_s(row: Row) -> float:
    """The median over steps of the mean over workers.

    Workers are in lockstep, so all take the same time over many steps. In a single step they do not: a ring ends on one
    worker a chunk earlier than on another, and the next time the other way round. The largest of every step would add
    that up.
    """
    return median(fmean(step) for step in zip(*(w["steps_s"] for w in row["workers"]), strict=True))


def name_of(row: Row) -> tuple[object, ...]:
    return (row["network"], row["cap_mb"], row["compute_s"])
