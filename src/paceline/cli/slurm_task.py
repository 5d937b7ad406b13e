"""The desk inside one task of a job array: its share of the trials; the last one ends the study."""

from __future__ import annotations

import os
import sys

from paceline.cli.plan_text import print_plan
from paceline.cli.progress import progress_listener
from paceline.cli.study import finish, refuse_nothing, terminated_like_interrupted
from paceline.errors import Interrupted
from paceline.launch.slurm_client import cancel_waiting
from paceline.records import Study
from paceline.run.share import holder_of, run_share
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results

__all__ = ["measure_share"]


def measure_share(folder: StudyFolder, study: Study, *, task: str, bench: Bench, json: bool) -> None:
    """Run what no other task holds. Whoever leaves nothing missing analyses the study; two may, with one result."""
    print_plan(folder, study, results=read_results(folder), bench=bench, file=sys.stderr)
    own = holder_of(task, os.environ)
    with terminated_like_interrupted(), progress_listener(study) as listener:
        try:
            share = run_share(folder, study, own=own, bench=bench, listener=listener)
        except KeyboardInterrupt:
            raise Interrupted(
                f"task {task} stopped; every complete trial is kept", hint="other tasks go on with the rest"
            ) from None
    ran = f"task {task} ran {share.ran} trial{'' if share.ran == 1 else 's'}"
    why = f"; {share.why}" if share.why else ""
    print(f"paceline: {ran}, {share.left} are left or with other tasks{why}", file=sys.stderr, flush=True)
    if share.ran and not share.left:
        cancel_waiting(
            task.partition("_")[0]
        )  # in a full queue they would wait for hours, with nothing to do
        refuse_nothing(folder, finish(folder, study, json=json))
