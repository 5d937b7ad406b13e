"""What will be run and what it will cost, before it does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from paceline.config import command_text
from paceline.launch.command import Rendezvous, command_line
from paceline.plan import plan_study, steps_of_trial
from paceline.records import Study, Trial, TrialResult
from paceline.run.missing import device_s, expected_wall_s, missing
from paceline.run.trial import Bench, trial_command_at
from paceline.store.paths import StudyFolder
from paceline.units import duration_text

__all__ = ["print_json", "print_plan"]


def print_json(data: object) -> None:
    """JSON on stdout; unknown is null, never NaN."""
    print(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))


def print_plan(
    folder: StudyFolder, study: Study, *, results: Sequence[TrialResult], bench: Bench, file: TextIO
) -> None:
    """The points of which something is missing, one command each, and its price."""
    plan = plan_study(study)
    bench = replace(bench, rendezvous=_unknown_rendezvous)
    todo = missing(plan, results, study)
    wall_s = sum(expected_wall_s(trial.point, results, study) for trial in todo)
    price = sum(trial.point.workers * expected_wall_s(trial.point, results, study) for trial in todo)
    say = [f"Study of {command_text(study.workload)} in {folder.root}"]
    if not todo:
        print(f"{say[0]}: every trial is complete.", file=file)
        return
    for point in plan.points:
        own = [trial for trial in todo if trial.point.id == point.id]
        if not own:
            continue
        launches, workers = _count(len(own), "launch", "launches"), _count(point.workers, "worker", "workers")
        nodes = f" on {point.nodes} nodes" if point.nodes > 1 else ""
        say.append(f"  {point.id}: {launches} of {steps_of_trial(study)} steps on {workers}{nodes}")
        command = trial_command_at(folder, study, own[0], bench)
        say.append(f"    cd {shlex.quote(command.directory)} && {command_line(command)}")
    threads = _count(bench.threads, "CPU thread", "CPU threads")
    if study.slurm is not None and study.threads is None:
        threads = "The node's CPUs / most workers of a node: CPU threads"
    say.append(f"{threads} per worker, the same at every point (OMP_NUM_THREADS).")
    trials = _count(len(todo), "trial", "trials")
    basis = "as measured so far" if results else f"if a step takes {duration_text(plan.assumed_step_s)}"
    say.append(
        f"{trials}, about {duration_text(wall_s)} and {price:.0f} device seconds {basis}; "
        f"fewer where launches agree within {study.tight_ratio:.0%}."
    )
    if study.budget_device_s is not None:
        say.append(f"Budget: {study.budget_device_s:.0f} device seconds, {device_s(results):.0f} spent.")
    print("\n".join(say), file=file)


def _unknown_rendezvous(trial: Trial) -> Rendezvous:
    """Before the nodes are there nobody knows where they will meet."""
    return Rendezvous("FIRST_NODE:PORT", trial.id)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
