"""Is the evidence of a study sound? Launches and Profiles -> Findings, each with its number, threshold and next step.

note: worth knowing · doubt: the numbers stand but their meaning is in question · void: do not use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from paceline.curve import Launches
from paceline.records import Finding, Profile, TrialResult
from paceline.split import number
from paceline.units import bytes_text, duration_text, percent_text

__all__ = ["study_findings"]

FEWEST_LAUNCHES = 3
FEWEST_STEPS = 10
FOREIGN_RATIO = 0.10  # of the host's cores, taken by others while we measured
STEAL_RATIO = 0.02
WIDE_RATIO = 0.10
INPUT_RATIO = 0.10
WIRE_RATIO = 0.15
STRAGGLE_RATIO = 0.10
OVERHEAD_RATIO = 0.01
OVERHEAD_S = 1e-4
DRIFT_RATIO = 1e-5


def study_findings(groups: Sequence[Launches], profiles: Sequence[Profile]) -> tuple[Finding, ...]:
    """Every check over every Point, void first, then doubts, then notes."""
    found: list[Finding] = []
    for group, profile in zip(groups, profiles, strict=True):
        found += _failed(group, profile)
        if group.splits:
            found += _exchange(group)
            found += _data(group)
            found += _noise(group, profile)
            found += _limits(group, profile)
            found += _agent(group, profile)
    found += _learning_rate(groups)
    rank = {"void": 0, "doubt": 1, "note": 2}
    return tuple(sorted(found, key=lambda finding: rank[finding.level]))


def _failed(group: Launches, profile: Profile) -> Iterator[Finding]:
    if profile.state not in ("ok", "cancelled"):
        yield Finding(
            "failed-point",
            "note",
            f"{group.point.id} ended in state {profile.state}: {profile.reason}",
            hint="paceline show STUDY prints the end of its log",
        )


def _exchange(group: Launches) -> Iterator[Finding]:
    """Did the workers train one network together?"""
    point = group.point
    if point.workers == 1:
        return
    exchanged = [s.exchanged_bytes_per_step for s in group.splits if s.exchanged_bytes_per_step is not None]
    drifts = [drift for r in group.results if r.state == "ok" and (drift := _drift(r)) is not None]
    gradients = max(
        (number(w.manifest, "gradient_bytes") or 0.0 for r in group.results for w in r.workers), default=0.0
    )
    if exchanged and max(exchanged) == 0.0:
        yield Finding(
            "no-exchange",
            "doubt",
            f"{point.id}: {point.workers} workers ran, but no gradients were exchanged between them: "
            f"{point.workers} separate trainings, whose speed-up means nothing",
            value=0.0,
            threshold=gradients or None,
            hint="wrap the network in DistributedDataParallel (or check that the script calls it through the wrapper)",
        )
    if drifts and max(drifts) > DRIFT_RATIO:
        yield Finding(
            "replicas-differ",
            "doubt",
            f"{point.id}: after the trial the workers' weights differ by a relative {max(drifts):.1e}: "
            "they are not training one network",
            value=max(drifts),
            threshold=DRIFT_RATIO,
            hint="call the DDP wrapper, not .module, and create it after loading weights",
        )
    tails = [sample for r in group.results for w in r.workers for sample in w.samples[-4:]]
    counts = [(s.backwards, len(s.exchanges)) for s in tails if s.exchanges is not None]
    if counts and all(exchanges >= backwards > 1 for backwards, exchanges in counts):
        most = max(backwards for backwards, _ in counts)
        yield Finding(
            "exchange-every-micro-step",
            "doubt",
            f"{point.id}: gradients are exchanged in each of the {most} backward passes of a step; once would do",
            value=float(most),
            threshold=1.0,
            hint="run all but the last backward pass under no_sync()",
        )


def _drift(result: TrialResult) -> float | None:
    """Largest relative difference between the workers' weight checksums."""
    sums = [number(worker.manifest, "weights_checksum") for worker in result.workers]
    known = [value for value in sums if value is not None]
    if len(known) < 2:
        return None
    scale = max(abs(value) for value in known) or 1.0
    return (max(known) - min(known)) / scale


def _data(group: Launches) -> Iterator[Finding]:
    """Did the workers see the batch that was asked for, and different data?"""
    point = group.point
    asked = group.results[0].trial.point.per_worker_batch if group.results else None
    seen = group.splits[0].per_worker_batch
    if asked is not None and seen is not None and asked != seen:
        yield Finding(
            "batch-differs",
            "doubt",
            f"{point.id}: asked for {asked} samples per worker and step, the data loader delivered {seen}",
            value=float(seen),
            threshold=float(asked),
            hint="name the script's own flag with --batch-flag, or put {per_worker_batch} into its arguments",
        )
    if seen is None:
        yield Finding(
            "batch-unseen",
            "note",
            f"{point.id}: no data loader was seen, so the batch could not be verified"
            + (
                ""
                if point.per_worker_batch
                else "; throughput is unknown and speed-up assumes the same batch per worker"
            ),
            hint="say it with --per-worker-batch" if point.per_worker_batch is None else None,
        )
    prints = [
        [
            tuple(mark) if isinstance(mark := w.manifest.get("batch_fingerprint"), list) else ()
            for w in r.workers
        ]
        for r in group.results
        if r.state == "ok"
    ]
    if point.workers > 1 and any(
        len(set(marks)) == 1 and len(marks[0]) > 1 for marks in prints if len(marks) > 1
    ):
        yield Finding(
            "same-data",
            "doubt",
            f"{point.id}: all {point.workers} workers were given the same batches: more workers, no more data",
            hint="use a DistributedSampler (or shard the iterable data set)",
        )
    sizes = {
        number(info, "dataset_size")
        for r in group.results
        for w in r.workers
        if (info := _loader(w.manifest))
    }
    size = min((s for s in sizes if s), default=None)
    if size and point.global_batch and size < FEWEST_STEPS * point.global_batch:
        yield Finding(
            "small-dataset",
            "note",
            f"{point.id}: {size:.0f} samples are {size / point.global_batch:.1f} steps per epoch at global batch "
            f"{point.global_batch}: start-up and epoch ends weigh more than steps",
            value=size / point.global_batch,
            threshold=float(FEWEST_STEPS),
        )


def _loader(manifest: Mapping[str, object]) -> Mapping[str, object] | None:
    info = manifest.get("loader")
    return info if isinstance(info, Mapping) else None


def _noise(group: Launches, profile: Profile) -> Iterator[Finding]:
    """Can the interval be trusted, and who else was on the machine?"""
    point, n = group.point, len(group.splits)
    if n < FEWEST_LAUNCHES:
        yield Finding(
            "few-launches",
            "doubt",
            f"{point.id}: {n} launch{'es' if n > 1 else ''} only; launches of one point differ by 1-10 % on an idle machine",
            value=float(n),
            threshold=float(FEWEST_LAUNCHES),
            hint=f"paceline study STUDY --repeats {FEWEST_LAUNCHES + 2}",
        )
    step = profile.step_s
    if (
        step
        and step.low is not None
        and step.high is not None
        and (step.high - step.low) / 2 > WIDE_RATIO * step.value
    ):
        half = (step.high - step.low) / 2 / step.value
        yield Finding(
            "wide-interval",
            "doubt",
            f"{point.id}: the step time is known to ± {half * 100:.0f}% only",
            value=half,
            threshold=WIDE_RATIO,
            hint="more --repeats, or a quieter machine",
        )
    if any(not part.settled for part in group.splits):
        yield Finding(
            "not-settled",
            "doubt",
            f"{point.id}: step times had not settled after the warm-up in "
            f"{sum(not p.settled for p in group.splits)} of {n} launches",
            hint="raise --warmup",
        )
    if min(part.steps for part in group.splits) < FEWEST_STEPS:
        fewest = min(part.steps for part in group.splits)
        yield Finding(
            "few-steps",
            "doubt",
            f"{point.id}: only {fewest} steady steps in a launch",
            value=float(fewest),
            threshold=float(FEWEST_STEPS),
            hint="raise --steps, or let the script run for more steps",
        )
    foreign = [share for r in group.results if (share := _foreign_share(r)) is not None]
    if foreign and fmean(foreign) > FOREIGN_RATIO:
        yield Finding(
            "foreign-cpu",
            "doubt",
            f"{point.id}: other processes took {percent_text(fmean(foreign))} of this host's cores while it was measured",
            value=fmean(foreign),
            threshold=FOREIGN_RATIO,
            hint="stop them, or raise --repeats",
        )
    steal = [share for r in group.results if (share := _window_share(r, "host_steal_s")) is not None]
    if steal and fmean(steal) > STEAL_RATIO:
        yield Finding(
            "stolen-cpu",
            "doubt",
            f"{point.id}: the hypervisor gave {percent_text(fmean(steal))} of this machine's cores to others",
            value=fmean(steal),
            threshold=STEAL_RATIO,
            hint="measure on a machine that is not shared, or raise --repeats",
        )
    cpus = [number(w.manifest, "cpus") for r in group.results for w in r.workers]
    threads = [number(w.manifest, "threads") for r in group.results for w in r.workers]
    devices = {w.manifest.get("device") for r in group.results for w in r.workers}
    if (
        cpus
        and cpus[0]
        and threads
        and threads[0]
        and devices == {"cpu"}
        and point.workers * threads[0] > cpus[0]
    ):
        yield Finding(
            "more-workers-than-cores",
            "doubt",
            f"{point.id}: {point.workers} workers × {threads[0]:.0f} threads share {cpus[0]:.0f} cores: "
            "this measures the operating system's scheduler, not how the training scales",
            value=point.workers * threads[0],
            threshold=cpus[0],
            hint="use at most as many workers as cores, or more machines",
        )


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
    """Busy time of the host that no worker of this trial caused, as a share of all its cores."""
    busy = _window_share(result, "host_busy_s")
    if busy is None:
        return None
    windows = [(w.manifest.get("window"), number(w.manifest, "cpus")) for w in result.workers]
    own = 0.0
    for window, cpus in windows:
        if isinstance(window, Mapping) and cpus:
            spent, wall = number(window, "own_cpu_s"), number(window, "wall_s")
            own += spent / wall / cpus if spent is not None and wall else 0.0
    return max(0.0, busy - own)


def _limits(group: Launches, profile: Profile) -> Iterator[Finding]:
    """What holds this Point back."""
    point, step = group.point, profile.step_s
    if step is None:
        return
    late = [part.slowest_worker for part in group.splits if part.slowest_worker is not None]
    if profile.straggle_s and profile.straggle_s.value > STRAGGLE_RATIO * step.value:
        who = f"worker {max(set(late), key=late.count)}" if late else "no single worker"
        yield Finding(
            "straggler",
            "note",
            f"{point.id}: {duration_text(profile.straggle_s.value)} of each {duration_text(step.value)} step are spent "
            f"waiting for late workers; {who} stands out in {len(late)} of {len(group.splits)} launches",
            value=profile.straggle_s.value,
            threshold=STRAGGLE_RATIO * step.value,
            hint="look at that worker's host: other processes, clocks, its share of the data",
        )
    if profile.input_s and profile.input_s.value > INPUT_RATIO * step.value:
        yield Finding(
            "input-bound",
            "note",
            f"{point.id}: {percent_text(profile.input_s.value / step.value)} of each step is waiting for data",
            value=profile.input_s.value / step.value,
            threshold=INPUT_RATIO,
            hint="more data-loader workers, or cheaper decoding; more workers make this worse",
        )
    if profile.wire_s and profile.wire_s.value > WIRE_RATIO * step.value:
        rate = profile.bus_bytes_per_s
        yield Finding(
            "wire-bound",
            "note",
            f"{point.id}: {percent_text(profile.wire_s.value / step.value)} of each step is wire time "
            f"({bytes_text(profile.exchanged_bytes_per_step.value) if profile.exchanged_bytes_per_step else 'unknown bytes'}"
            f" per step{f', bus bandwidth {bytes_text(rate.value)}/s' if rate else ''}); "
            "a faster network can win back at most that",
            value=profile.wire_s.value / step.value,
            threshold=WIRE_RATIO,
            hint="a larger batch per worker, gradient accumulation with no_sync, or compressed exchange",
        )


def _agent(group: Launches, profile: Profile) -> Iterator[Finding]:
    """The agent's own cost and troubles."""
    cost, step = profile.overhead_s, profile.step_s
    if cost and step and cost.value > max(OVERHEAD_S, OVERHEAD_RATIO * step.value):
        yield Finding(
            "agent-overhead",
            "doubt",
            f"{group.point.id}: measuring itself took {duration_text(cost.value)} of each "
            f"{duration_text(step.value)} step",
            value=cost.value,
            threshold=max(OVERHEAD_S, OVERHEAD_RATIO * step.value),
        )
    problems = {
        str(text)
        for r in group.results
        for w in r.workers
        if isinstance(listed := w.manifest.get("problems"), list)
        for text in listed
    }
    for problem in sorted(problems)[:3]:
        yield Finding("measuring-problem", "doubt", f"{group.point.id}: {problem}")


def _learning_rate(groups: Sequence[Launches]) -> Iterator[Finding]:
    """The global batch grew with the workers, the learning rate did not: accuracy may change, say so."""
    rates: dict[int, set[float]] = {}
    batches: dict[int, int] = {}
    for group in groups:
        if group.point.scaling != "weak" or group.point.varied or not group.point.global_batch:
            continue
        for result in group.results:
            for worker in result.workers[:1]:
                optimizer = worker.manifest.get("optimizer")
                lr = number(optimizer, "lr") if isinstance(optimizer, Mapping) else None
                if lr is not None:
                    rates.setdefault(group.point.workers, set()).add(lr)
                    batches[group.point.workers] = group.point.global_batch
    all_rates = set().union(*rates.values()) if rates else set()
    if len(rates) > 1 and len(all_rates) == 1 and len(set(batches.values())) > 1:
        few, many = min(batches), max(batches)
        yield Finding(
            "lr-unscaled",
            "note",
            f"the global batch grows from {batches[few]} to {batches[many]} and the learning rate stays {all_rates.pop():g}: "
            "a timing study cannot tell whether accuracy survives",
            value=batches[many] / batches[few],
            threshold=1.0,
            hint="train to the end at both, with linear or square-root scaling and warm-up, before adopting the larger batch",
        )
