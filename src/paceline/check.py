"""Is the evidence of a study sound? Launches and Profiles -> Findings, each with its number, threshold and next step.

note: worth knowing · doubt: the numbers stand but their meaning is in question · void: do not use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from paceline.backends import backend_findings
from paceline.check_limits import agent_troubles, limits, shorter_computing, slower_computing
from paceline.check_noise import noise
from paceline.curve import Launches
from paceline.records import Finding, Profile, Sample, TrialResult
from paceline.split import number
from paceline.telemetry import limited, throttling

__all__ = ["study_findings", "worst_first"]

FEWEST_STEPS_PER_EPOCH = 10
DRIFT_RATIO = 1e-5
_OF_THE_SPLIT = {"wire-bound", "straggler", "late-data"}
VARYING_RATIO = 0.05  # of the usual batch: further from it the mean batch is worth a word


def study_findings(groups: Sequence[Launches], profiles: Sequence[Profile]) -> tuple[Finding, ...]:
    """Every check over every Point, void first, then doubts, then notes."""
    found: list[Finding] = []
    for group, profile in zip(groups, profiles, strict=True):
        found += _failed(group, profile)
        if group.splits:
            found += _exchange(group)
            found += _data(group)
            found += _unseen_waits(group, profile)
            found += noise(group, profile)
            found += limits(group, profile)
            found += agent_troubles(group, profile)
            found += throttling(group.point, group.uses)
            found += limited(group.point, group.uses)
    found += slower_computing(profiles)
    found = _without_parts(found, list(shorter_computing(profiles)))
    found += _horovod(groups)
    found += _script(groups)
    found += _learning_rate(groups)
    found += backend_findings(groups, profiles)
    return worst_first(found)


def _without_parts(found: Sequence[Finding], contradicted: Sequence[Finding]) -> list[Finding]:
    """The findings without those that rest on a split which contradicts itself, and with the contradiction."""
    points = {finding.message.partition(":")[0] for finding in contradicted}
    kept = [f for f in found if f.id not in _OF_THE_SPLIT or f.message.partition(":")[0] not in points]
    return [*kept, *contradicted]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Void, then doubts, then notes; within a level as they come."""
    rank = {"void": 0, "doubt": 1, "note": 2}
    return tuple(sorted(findings, key=lambda finding: rank[finding.level]))


def _horovod(groups: Sequence[Launches]) -> Iterator[Finding]:
    """Whose Horovod was measured?"""
    manifests = [w.manifest for group in groups for r in group.results for w in r.workers]
    if any(manifest.get("horovod") is True for manifest in manifests):
        yield Finding(
            "horovod-provided",
            "note",
            "the script speaks Horovod, and paceline_horovod answered it over torch.distributed: "
            "the figures are those of torch.distributed, not of Horovod's own exchange",
            hint="paceline horovod migrate SCRIPT shows the same script on plain DistributedDataParallel",
        )


def _script(groups: Sequence[Launches]) -> Iterator[Finding]:
    """Was one script measured, or was it edited between two trials?"""
    first: dict[str, str] = {}
    for group in groups:
        for result in group.results:
            if result.state == "ok" and result.script_sha256 is not None:
                first.setdefault(result.script_sha256, result.trial.id)
    if len(first) > 1:
        shown = ", ".join(f"{trial} has {digest[:8]}" for digest, trial in first.items())
        yield Finding(
            "script-changed",
            "doubt",
            f"the script was edited between trials, so that its versions are compared as if they were one: {shown}",
            value=float(len(first)),
            threshold=1.0,
            hint="measure it as it is now in a folder of its own: the same command with --out",
        )


def _failed(group: Launches, profile: Profile) -> Iterator[Finding]:
    if profile.state not in ("ok", "cancelled"):
        failed = next((r.trial.id for r in group.results if r.state == profile.state), None)
        yield Finding(
            "failed-point",
            "note",
            f"{group.point.id} ended in state {profile.state}: {profile.reason}",
            hint=f"paceline show STUDY --trial {failed} prints the end of its output" if failed else None,
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
    several = any((number(w.manifest, "optimizers") or 1) > 1 for r in group.results for w in r.workers)
    looked = [s for s in tails if s.exchanges is not None and s.exchanged_bytes is not None]
    if looked and not several and all(_exchanged_each_time(s, gradients) for s in looked):
        most = max(s.backwards for s in looked)
        yield Finding(
            "exchange-every-micro-step",
            "doubt",
            f"{point.id}: gradients are exchanged in each of the {most} backward passes of a step; once would do",
            value=float(most),
            threshold=1.0,
            hint="run all but the last backward pass under no_sync()",
        )


def _exchanged_each_time(sample: Sample, gradient_bytes: float) -> bool:
    """Whether every backward pass of the step sent the gradients: so often, and so much. (A script may exchange small
    numbers of its own beside them.)"""
    often = len(sample.exchanges or ()) >= sample.backwards > 1
    return often and (sample.exchanged_bytes or 0) > (sample.backwards - 0.5) * gradient_bytes


def _drift(result: TrialResult) -> float | None:
    """Largest relative difference between the workers' weight checksums."""
    sums = [number(worker.manifest, "weights_checksum") for worker in result.workers]
    known = [value for value in sums if value is not None]
    if len(known) < 2:
        return None
    scale = max(abs(value) for value in known) or 1.0
    return (max(known) - min(known)) / scale


def _unseen_waits(group: Launches, profile: Profile) -> Iterator[Finding]:
    """Why a step of several workers is not split, where it is not."""
    if group.point.workers < 2 or profile.compute_s is not None:
        return
    captured = any(w.manifest.get("captured") is True for r in group.results for w in r.workers)
    how = "inside a CUDA graph" if captured else "in a way that the agent does not see into"
    yield Finding(
        "waits-unseen",
        "note",
        f"{group.point.id}: workers exchange {how}, so the step is timed and not split into computing and waiting",
        hint="study it once without the graph to see what its workers wait for" if captured else None,
    )


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
    means = [part.samples_per_step for part in group.splits if part.samples_per_step is not None]
    mean = fmean(means) if means else None
    usual = None if seen is None else float(seen * point.workers)
    if mean is not None and usual and abs(mean - usual) > VARYING_RATIO * usual:
        yield Finding(
            "batch-varies",
            "note",
            f"{point.id}: the batches differ: {mean:.4g} samples per step on average, {usual:.4g} in most steps; "
            "throughput counts what was delivered",
            value=mean,
            threshold=usual,
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
    if size and point.global_batch and size < FEWEST_STEPS_PER_EPOCH * point.global_batch:
        yield Finding(
            "small-dataset",
            "note",
            f"{point.id}: {size:.0f} samples are {size / point.global_batch:.1f} steps per epoch at global batch "
            f"{point.global_batch}: start-up and epoch ends weigh more than steps",
            value=size / point.global_batch,
            threshold=float(FEWEST_STEPS_PER_EPOCH),
        )


def _loader(manifest: Mapping[str, object]) -> Mapping[str, object] | None:
    info = manifest.get("loader")
    return info if isinstance(info, Mapping) else None


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
            f"the global batch grows from {batches[few]} to {batches[many]} and the learning rate stays "
            f"{all_rates.pop():g}: a timing study cannot tell whether accuracy survives",
            value=batches[many] / batches[few],
            threshold=1.0,
            hint="train at both before adopting it: the same command with --to-accuracy X --seeds 3 and an --out of "
            "its own; --lr-rule none,linear,sqrt compares rules (docs/accuracy.md: what a script must be told)",
        )
