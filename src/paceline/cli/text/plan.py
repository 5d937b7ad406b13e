"""What will be run and what it will cost, before it does."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TextIO

from paceline.cli.slurm.options import inside_allocation
from paceline.core.units import duration_text
from paceline.launch.command import Rendezvous, command_line
from paceline.plan.config import command_text
from paceline.plan.goal import training_steps
from paceline.plan.trials import steps_of_trial
from paceline.records import Plan, Point, Study, Trial, TrialResult
from paceline.run.missing import device_s, expected_wall_s, missing
from paceline.run.trial import Bench, trial_command_at
from paceline.slurm.array import submission_text, time_warning
from paceline.store.paths import StudyFolder

__all__ = ["print_json", "print_plan", "whole_command"]

Shown = Callable[[StudyFolder, Study, Trial, Bench], str]


def print_json(data: object) -> None:
    """JSON on stdout; unknown is null, never NaN. Where stdout is not UTF-8, letters are escaped: none is lost."""
    escaped = (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    print(json.dumps(data, indent=1, ensure_ascii=escaped, allow_nan=False))


def whole_command(folder: StudyFolder, study: Study, trial: Trial, bench: Bench) -> str:
    """What is executed, as it could be pasted into a shell."""
    command = trial_command_at(folder, study, trial, bench)
    return f"cd {shlex.quote(command.directory)} && {command_line(command)}"


def own_command(folder: StudyFolder, study: Study, trial: Trial, bench: Bench) -> str:
    """The script and its arguments, without what starts it."""
    return command_text(replace(study.workload, args=tuple(map(shlex.quote, trial.args))))


def print_plan(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    results: Sequence[TrialResult],
    bench: Bench,
    file: TextIO,
    shown: Shown = own_command,
) -> None:
    """The points of which something is missing, one command each as `shown`, and its price."""
    refusal = bench.refusal or _no_refusal
    bench = replace(bench, rendezvous=_unknown_rendezvous)
    unfinished = missing(plan, results, study)
    refused = {point.id: why for point in plan.points if (why := _why(point, unfinished, refusal))}
    todo = [trial for trial in unfinished if trial.point.id not in refused]
    expected_s = [expected_wall_s(trial.point, results, study) for trial in todo]
    wall_s = sum(expected_s)
    price = sum(trial.point.workers * each_s for trial, each_s in zip(todo, expected_s, strict=True))
    own_text = command_text(study.workload)
    say = [f"Study of {own_text} in {folder.root}"]
    if not unfinished:
        print(f"{say[0]}: every run is complete.", file=file)
        return
    for point in plan.points:
        own = [trial for trial in todo if trial.point.id == point.id]
        if point.id in refused:
            say.append(f"  {point.id} {refused[point.id]}")
        if not own:
            continue
        workers = _count(point.workers, "worker", "workers")
        nodes = f" on {point.nodes} nodes" if point.nodes > 1 else ""
        say.append(f"  {point.id}: {_launches(study, point, len(own))} on {workers}{nodes}")
        command = shown(folder, study, own[0], bench)
        say += [] if command == own_text else [f"    {command}"]
    threads = _count(bench.threads, "CPU thread", "CPU threads")
    if study.slurm is not None and study.slurm.exclusive and study.threads is None:
        threads = "The node's CPUs / most workers of a node: CPU threads"
    say.append(f"{threads} per worker, the same at every setting (OMP_NUM_THREADS).")
    runs = _count(len(todo), "run", "runs")
    basis = "as measured so far" if results else f"if a step takes {duration_text(plan.assumed_step_s)}"
    fewer = f"fewer where runs agree within {study.tight_ratio:.0%}"
    if study.goal is not None:
        fewer = "fewer where the target is reached early" if study.goal.target is not None else "every epoch"
        if training_steps(study, plan.points[0]) is None:
            basis = "as measured so far" if results else "at least: nobody knows how long the script trains"
    say.append(f"{runs}, about {duration_text(wall_s)} and {price:.0f} device seconds {basis}; {fewer}.")
    if study.slurm is not None and todo and not inside_allocation():
        say += filter(None, (submission_text(study, todo, expected_s), time_warning(study, todo, expected_s)))
    if study.budget_device_s is not None:
        say.append(f"Budget: {study.budget_device_s:.0f} device seconds, {device_s(results):.0f} spent.")
    print("\n".join(say), file=file)


def _launches(study: Study, point: Point, count: int) -> str:
    """5 runs of 55 steps, or 3 trainings of at most 4 epochs (376 steps)."""
    if study.goal is None:
        return f"{_count(count, 'run', 'runs')} of {steps_of_trial(study)} steps"
    trainings, steps = _count(count, "training", "trainings"), training_steps(study, point)
    if steps is None:
        return f"{trainings} to the script's own end"
    return f"{trainings} of at most {_count(study.goal.epochs or 0, 'epoch', 'epochs')} ({steps} steps)"


def _why(point: Point, todo: Sequence[Trial], refusal: Callable[[Trial], str | None]) -> str | None:
    """Why no trial of this point can be started now."""
    own = next((trial for trial in todo if trial.point.id == point.id), None)
    return None if own is None else refusal(own)


def _no_refusal(trial: Trial) -> None:
    return None


def _unknown_rendezvous(trial: Trial) -> Rendezvous:
    """Before the nodes are there nobody knows where they will meet."""
    return Rendezvous("FIRST_NODE:PORT", trial.id)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
