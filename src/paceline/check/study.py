"""Is the evidence of a study sound? Launches and Profiles -> Findings, each with its number, threshold and next step.

note: worth knowing · doubt: the numbers stand but their meaning is in question · void: do not use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from paceline.check.backends import backend_findings
from paceline.check.limits import agent_troubles, limits, shorter_computing, slower_computing
from paceline.check.noise import noise
from paceline.check.together import together, unseen_waits
from paceline.check.work import work
from paceline.core.manifest import number
from paceline.measure.profiles import Launches
from paceline.measure.strategy import asked_and_absent, strategy_text
from paceline.measure.telemetry import limited, throttling
from paceline.records import Finding, Profile

__all__ = ["study_findings"]

_OF_THE_SPLIT = {"wire-bound", "straggler", "late-data"}


def study_findings(groups: Sequence[Launches], profiles: Sequence[Profile]) -> tuple[Finding, ...]:
    """Every check over every Point."""
    found: list[Finding] = []
    for group, profile in zip(groups, profiles, strict=True):
        found += _failed(group, profile)
        found += _changed_files(group)
        if group.splits:
            found += together(group)
            found += work(group)
            found += unseen_waits(group, profile)
            found += noise(group, profile)
            found += limits(group, profile)
            found += agent_troubles(group, profile)
            found += throttling(group.point, group.uses)
            found += limited(group.point, group.uses)
    found += slower_computing(profiles)
    found = _without_parts(found, list(shorter_computing(profiles)))
    found += _horovod(groups)
    found += _not_as_configured(groups)
    found += _script(groups)
    found += _learning_rate(groups)
    found += backend_findings(groups, profiles)
    return tuple(found)


def _without_parts(found: Sequence[Finding], contradicted: Sequence[Finding]) -> list[Finding]:
    """The findings without those that rest on a split which contradicts itself, and with the contradiction."""
    points = {finding.point for finding in contradicted}
    kept = [f for f in found if f.id not in _OF_THE_SPLIT or f.point not in points]
    return [*kept, *contradicted]


def _horovod(groups: Sequence[Launches]) -> Iterator[Finding]:
    """Whose Horovod was measured?"""
    manifests = [w.manifest for group in groups for r in group.results for w in r.workers]
    if any(manifest.get("horovod") is True for manifest in manifests):
        yield Finding(
            "horovod-provided",
            "note",
            "the script speaks Horovod, and paceline_horovod answered it over torch.distributed: "
            "the figures are those of torch.distributed, not of Horovod's own communication",
            hint="the same script on plain DistributedDataParallel",
            command="paceline horovod migrate SCRIPT",
        )


def _not_as_configured(groups: Sequence[Launches]) -> Iterator[Finding]:
    """Did the script get the strategy that its environment was configured for?"""
    trials = [r.workers for group in groups for r in group.results if r.state == "ok"]
    absent = dict.fromkeys(name for workers in trials for name in asked_and_absent(workers))
    if absent:
        found = next(strategy_text(workers) for workers in trials if asked_and_absent(workers))
        yield Finding(
            "strategy-not-used",
            "doubt",
            f"Accelerate was configured for {' and '.join(absent)}, and the script ran with {found}",
            hint="Accelerate falls back where a device or a package is missing: look at the end of a worker's output",
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
            f"the script was edited between runs, and its versions are compared as if they were one: {shown}",
            value=float(len(first)),
            threshold=1.0,
            hint="measure it as it is now in a folder of its own: the same command with --out",
        )


def _failed(group: Launches, profile: Profile) -> Iterator[Finding]:
    if profile.state not in ("ok", "damaged", "cancelled"):
        failed = next((r.trial.id for r in group.results if r.state == profile.state), None)
        yield Finding(
            "failed-point",
            "note",
            f"ended in state {profile.state}: {profile.reason}",
            hint="the end of its output" if failed else None,
            point=group.point.id,
            command=f"paceline show STUDY --trial {failed}" if failed else None,
        )


def _changed_files(group: Launches) -> Iterator[Finding]:
    """What runs left, and is not what was measured."""
    again = "paceline study STUDY --retry-failed"
    for result in group.results:
        name = result.trial.id
        if result.state == "damaged":
            said = f"{name}: {result.reason}. The run is not used"
            yield Finding(
                "damaged-run", "void", said, hint="measure it again", point=group.point.id, command=again
            )
        elif result.unread:
            said = f"{name}: {'; '.join(result.unread)}. The rest of the run is used"
            hint = f"remove the folder trials/{name} of STUDY; the run is then repeated"
            yield Finding("incomplete-run", "doubt", said, hint=hint, point=group.point.id)


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
            f"{all_rates.pop():g}: a timing study cannot say whether accuracy survives",
            value=batches[many] / batches[few],
            threshold=1.0,
            hint="add --to-accuracy 0.9 --seeds 3 --out accuracy to train at both; --lr-rule none,linear,sqrt compares "
            "learning rates",
        )
