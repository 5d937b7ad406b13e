"""`paceline study` and `paceline plan`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace

from paceline.cli.gather import JOIN_WAIT_S
from paceline.cli.measure import bench_of, measure, terminated_like_interrupted
from paceline.cli.options.asked import asked_study
from paceline.cli.options.study import FOLDED, SECTIONS, PlanOptions, StudyOptions, with_options_of
from paceline.cli.ready import ready, say_of_plan
from paceline.cli.slurm.options import cores_for
from paceline.cli.slurm.study import on_slurm
from paceline.cli.text.plan import print_json, print_plan, whole_command
from paceline.core import units
from paceline.launch.command import threads_per_worker
from paceline.plan.trials import plan_study
from paceline.records import Plan, Study
from paceline.run.find_batch import first_plan
from paceline.run.trial import Bench
from paceline.store.trial_files import read_results

__all__ = ["FOLDED", "SECTIONS", "plan", "prepared", "study"]


@with_options_of(StudyOptions)
def study(options: StudyOptions) -> None:
    """Measure a training script at several worker counts. The script is not changed.

    paceline study --workers 1,2,4 train.py -- --batch-size 32

    paceline study --workers 1,2 -m package.train -- --config c.yaml

    Runs what is missing; run it again after an interruption, or with more workers or repeats.
    """
    _study(options)


@with_options_of(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Show what a study would run and what it would cost, and run nothing. Takes the options of `study`."""
    _study(StudyOptions(**vars(options), dry_run=True))


def prepared(wanted: Study) -> tuple[Study, Plan, Bench]:
    """The Study with its threads, what it means, and what its trials are run with."""
    count = threads_per_worker(wanted, environment=os.environ, cores=cores_for(wanted))
    if wanted.slurm is None:
        wanted = replace(wanted, threads=count)
    plan = first_plan(wanted) if wanted.find_batch else plan_study(wanted)
    return wanted, plan, bench_of(wanted, threads=count)


def _study(options: StudyOptions) -> None:
    folder, wanted = asked_study(options)
    wanted, trials, bench = prepared(wanted)
    if options.dry_run and options.emit is None and options.json:
        print_json(asdict(trials))
        return
    held = read_results(folder)
    if options.emit is not None or (wanted.slurm is not None and not options.dry_run):
        on_slurm(
            folder,
            wanted,
            trials,
            held=held,
            bench=bench,
            emit=options.emit,
            retry_failed=options.retry_failed,
            json=options.json,
        )
    elif options.dry_run:
        print_plan(folder, wanted, trials, results=held, bench=bench, file=sys.stdout, shown=whole_command)
        say_of_plan(wanted, trials, bench)
    else:
        wait_s = units.duration(options.join_wait) if options.join_wait else JOIN_WAIT_S
        again = options.retry_failed
        with (
            terminated_like_interrupted(),
            ready(
                folder, wanted, trials, bench, held=held, join=options.join, wait_s=wait_s, retry_failed=again
            ) as bench,
        ):
            measure(folder, wanted, trials, held=held, bench=bench, retry_failed=again, json=options.json)
