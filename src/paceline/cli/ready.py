"""Before the first trial: the other nodes have joined, every node was looked at, and what cannot run is known.

On one node a look takes a tenth of a second. On several the desk prints the line to type on the others and waits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from paceline.check.backends import refused_points
from paceline.cli.gather import assembled, opened, say_ways
from paceline.core.errors import PacelineError, UsageError
from paceline.core.words import LEVELS
from paceline.doctor.checks import quick_checkup
from paceline.launch.inspection import Asked, inspected
from paceline.launch.launchers import launcher_findings, refuse_missing_launcher
from paceline.launch.machine import quick_look
from paceline.launch.nodes.gate import Member
from paceline.launch.nodes.launcher import NodesLauncher
from paceline.plan.preflight import Facts, preflight_findings
from paceline.records import Finding, Plan, Study, Trial, TrialResult
from paceline.run.missing import missing, to_keep
from paceline.run.trial import Bench
from paceline.store.atomic import make_folder
from paceline.store.paths import StudyFolder
from paceline.store.preflight_file import write_preflight

__all__ = ["asked_of", "judged", "ready", "refusal_of", "refuse_no_script", "say_of_plan"]


@dataclass(frozen=True, slots=True)
class _Look:
    """What every look at nodes needs: the study, what is asked of a node, and where it is written down."""

    folder: StudyFolder
    study: Study
    asked: Asked


@contextmanager
def ready(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    bench: Bench,
    *,
    held: Sequence[TrialResult],
    join: str | None,
    wait_s: float,
    retry_failed: bool,
) -> Iterator[Bench]:
    """The bench with everything that the missing trials need. Nothing missing: the same bench, nobody is asked."""
    todo = missing(plan, to_keep(held, retry_failed=retry_failed), study)
    if not todo:
        yield bench
        return
    refuse_no_script(study)
    refuse_missing_launcher(study, bench.python)
    look = _Look(folder, study, asked_of(study, bench))
    nodes = max(trial.point.nodes for trial in todo)
    if nodes == 1:
        _say_of_machine(folder)
        refused = judged(folder, study, plan, inspected(look.asked, ()))
        yield replace(bench, refusal=partial(refusal_of, refused, None), left_out=frozenset(refused))
        return
    with opened(join, what="study") as gate:
        facts = assembled(gate, nodes, look.asked, wait_s=wait_s, what="study")
        refused = judged(folder, study, plan, facts)
        say_ways(facts)
        launcher = NodesLauncher(gate, look.asked.script, _say, partial(_newcomer, look))
        yield replace(
            bench,
            launcher=launcher,
            rendezvous=launcher.rendezvous,
            refusal=partial(refusal_of, refused, launcher.refusal),
            left_out=frozenset(refused),
        )


def refuse_no_script(study: Study, more: str = "") -> None:
    """A script that is not there would be found out by every trial, or after hours in a queue."""
    path = Path(study.directory or ".", study.workload.name)
    if study.workload.kind != "script" or path.is_file():
        return
    beside = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
    alike = get_close_matches(path.name, beside, n=1)
    hint = f"{path.with_name(alike[0])}, perhaps" if alike else "correct its path"
    raise UsageError(f"there is no script {path}", hint=hint + more)


def asked_of(study: Study, bench: Bench) -> Asked:
    """What every node is asked about: the Python, the script or module, and devices where a backend needs them."""
    directory = study.directory or "."
    name, kind = study.workload.name, study.workload.kind
    return Asked(
        bench.python,
        os.path.join(directory, name) if kind == "script" else None,
        directory,
        devices="nccl" in study.backends,
        module=name if kind == "module" else None,
    )


def judged(folder: StudyFolder, study: Study, plan: Plan, facts: Sequence[Facts]) -> Mapping[str, str]:
    """Say what preflight found and write it down; a void ends it here. Points that cannot run, and why."""
    refused = refused_points(plan.points, facts)
    findings = (
        *preflight_findings(study, facts), *launcher_findings(study), *dict.fromkeys(refused.values())
    )  # fmt: skip
    make_folder(folder.root)
    write_preflight(folder, facts, findings, left_out=refused)
    nothing_left = next(iter(refused.values())) if len(refused) == len(plan.points) else None
    stops = next((finding for finding in findings if finding.level == "void"), nothing_left)
    for finding in findings:
        if finding is not stops:
            _say_finding(finding)
    if stops is not None:
        raise PacelineError(f"nothing was started: {stops.text}", hint=stops.following)
    return {point: finding.message for point, finding in refused.items()}


def say_of_plan(study: Study, plan: Plan, bench: Bench) -> None:
    """What a look at this machine says about a plan. Other nodes are not here to be looked at."""
    if study.slurm is not None or any(point.nodes > 1 for point in plan.points):
        return
    facts = inspected(asked_of(study, bench), ())
    refused = refused_points(plan.points, facts)
    for finding in (
        *preflight_findings(study, facts),
        *launcher_findings(study),
        *dict.fromkeys(refused.values()),
    ):
        _say_finding(finding)


def _newcomer(look: _Look, member: Member) -> str | None:
    """Why a node that comes while the study runs is sent home; None when it may stay."""
    facts = inspected(look.asked, [member])
    if member.lost is not None:
        return member.lost
    void = next((f for f in preflight_findings(look.study, facts) if f.level == "void"), None)
    return None if void is None else void.message


def refusal_of(
    refused: Mapping[str, str], launcher: Callable[[Trial], str | None] | None, trial: Trial
) -> str | None:
    if trial.point.id in refused:
        return f"is left out: {refused[trial.point.id]}"
    return launcher(trial) if launcher is not None else None


def _say_of_machine(folder: StudyFolder) -> None:
    """What is wrong with this machine before minutes are spent on it; `paceline doctor` has the whole list."""
    for check in quick_checkup(quick_look(folder.root)):
        nexts = [check.command or check.hint] if check.command or check.hint else []
        _say("\n".join([f"{LEVELS[check.state]}: {check.said}", *(f"  try: {each}" for each in nexts)]))


def _say_finding(finding: Finding) -> None:
    hint = f"\n  try: {finding.following}" if finding.following else ""
    _say(f"{LEVELS[finding.level]}: {finding.text}{hint}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
