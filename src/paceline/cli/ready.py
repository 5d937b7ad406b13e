"""Before the first trial: the other nodes have joined, every node was looked at, and what cannot run is known.

On one node a look takes a tenth of a second. On several the desk prints the line to type on the others and waits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from paceline.backends import refused_points
from paceline.errors import PacelineError
from paceline.launch.command import INTERFACE_VARIABLES
from paceline.launch.gate import Gate, Invitation, Member, invitation
from paceline.launch.inspection import Asked, inspected
from paceline.launch.nodes import NodesLauncher
from paceline.plan import plan_study
from paceline.preflight import Facts, preflight_findings
from paceline.records import Study, Trial
from paceline.run.missing import missing
from paceline.run.trial import Bench
from paceline.store.atomic import make_folder
from paceline.store.paths import StudyFolder
from paceline.store.preflight_file import write_preflight
from paceline.store.trial_files import read_results
from paceline.units import duration_text

__all__ = ["JOIN_WAIT_S", "Join", "JoinWait", "gathered", "ready"]

Join = Annotated[
    str | None,
    typer.Option(metavar="TOKEN@HOST:PORT", help="Where other nodes join; any part: @HOST, :PORT."),
]
JoinWait = Annotated[str | None, typer.Option(help="How long to wait for nodes to join.  [default: 10min]")]

JOIN_WAIT_S = 600.0
_SAY_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What every look at nodes needs: the study, what is asked of a node, and where it is written down."""

    folder: StudyFolder
    study: Study
    asked: Asked


@contextmanager
def ready(
    folder: StudyFolder, study: Study, bench: Bench, *, join: str | None, wait_s: float, retry_failed: bool
) -> Iterator[Bench]:
    """The bench with everything that the missing trials need. Nothing missing: the same bench, nobody is asked."""
    held = read_results(folder)
    kept = [result for result in held if result.state == "ok"] if retry_failed else held
    todo = missing(plan_study(study), kept, study)
    if not todo:
        yield bench
        return
    look = _Look(folder, study, _asked(study, bench))
    nodes = max(trial.point.nodes for trial in todo)
    if nodes == 1:
        refused = judged(folder, study, inspected(look.asked, ()))
        yield replace(bench, refusal=partial(refusal_of, refused, None))
        return
    gate = Gate(invitation(join) if join else Invitation(), _say)
    try:
        gathered(gate, nodes, wait_s=wait_s, what="study")
        facts = inspected(look.asked, gate.present)
        refused = judged(folder, study, facts)
        _say_ways(facts)
        launcher = NodesLauncher(gate, look.asked.script, _say, partial(_newcomer, look))
        yield replace(
            bench,
            launcher=launcher,
            rendezvous=launcher.rendezvous,
            refusal=partial(refusal_of, refused, launcher.refusal),
        )
    finally:
        gate.close()


def _asked(study: Study, bench: Bench) -> Asked:
    directory = study.directory or "."
    script = os.path.join(directory, study.workload.name) if study.workload.kind == "script" else None
    return Asked(bench.python, script, directory, devices="nccl" in study.backends)


def gathered(gate: Gate, nodes: int, *, wait_s: float, what: str) -> None:
    """Wait until as many nodes are here as the study (or the probe) needs, and say who has come."""
    line, *others = gate.join_lines
    _say(f"This {what} needs {nodes} nodes. Type on {_others(nodes - 1)}:\n\n    {line}\n")
    if others:
        _say(
            "where that address is not reachable: "
            + ", or ".join(other.rpartition("@")[2] for other in others)
        )
    began = said = time.monotonic()
    while 1 + len(gate.present) < nodes:
        member = gate.admit(1.0)
        gate.heard()
        now = time.monotonic()
        if member is not None:
            _say(f"{member.name} joined: {1 + len(gate.present)} of {nodes} nodes are here")
        elif now - began > wait_s:
            raise PacelineError(
                f"{1 + len(gate.present)} of {nodes} nodes were here after {duration_text(wait_s)}",
                hint="--join-wait 1h waits longer; --join TOKEN@HOST:PORT keeps the line that others type the same",
            )
        elif now - said > _SAY_AGAIN_S:
            said = now
            _say(f"waiting for {_others(nodes - 1 - len(gate.present))}; Ctrl-C stops")


def judged(folder: StudyFolder, study: Study, facts: Sequence[Facts]) -> Mapping[str, str]:
    """Say what preflight found and write it down; a void ends it here. Points that cannot run, and why."""
    points = plan_study(study).points
    refused = refused_points(points, facts)
    findings = (*preflight_findings(study, facts), *dict.fromkeys(refused.values()))
    make_folder(folder.root)
    write_preflight(folder, facts, findings)
    nothing_left = next(iter(refused.values())) if len(refused) == len(points) else None
    stops = next((finding for finding in findings if finding.level == "void"), nothing_left)
    for finding in findings:
        if finding is not stops:
            hint = f"\n  try: {finding.hint}" if finding.hint else ""
            _say(f"preflight {finding.level}: {finding.message}{hint}")
    if stops is not None:
        raise PacelineError(f"nothing was started: {stops.message}", hint=stops.hint)
    return {point: finding.message.partition(": ")[2] for point, finding in refused.items()}


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


def _say_ways(facts: Sequence[Facts]) -> None:
    """Which interface every node will exchange over: chosen by route, unless the user has set it."""
    for node in facts:
        own = dict(node.environment)
        kept = [f"{name}={own[name]}" for name in INTERFACE_VARIABLES if own.get(name)]
        chosen = f"{node.address} on {node.interface or 'an unnamed interface'}, by route"
        _say(
            f"node {node.node} ({node.host}) exchanges over {chosen}"
            + (f"; your {', '.join(kept)} stands" if kept else "")
        )


def _others(count: int) -> str:
    return f"{count} other node{'' if count == 1 else 's'}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
