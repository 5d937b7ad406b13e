"""The desk inside one task of a job array: its share of the trials; the last one ends the study."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from paceline.cli.measure import finish, refuse_no_answer, terminated_like_interrupted
from paceline.cli.text.plan import print_plan
from paceline.cli.text.progress import progress_listener
from paceline.core.errors import Interrupted
from paceline.launch.slurm.client import cancel_waiting
from paceline.records import Plan, Study, TrialResult
from paceline.run.share import holder_of, run_share
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder

__all__ = ["measure_share"]


def measure_share(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    held: Sequence[TrialResult],
    task: str,
    bench: Bench,
    json: bool,
) -> None:
    """Run what no other task holds. Whoever leaves nothing missing analyses the study; two may, with one result."""
    print_plan(folder, study, plan, results=held, bench=bench, file=sys.stderr)
    own = holder_of(task, os.environ)
    with terminated_like_interrupted(), progress_listener(folder, study) as listener:
        try:
            share = run_share(folder, study, plan, own=own, bench=bench, listener=listener, known=held)
        except KeyboardInterrupt:
            raise Interrupted(
                f"task {task} stopped; every complete run is kept", hint="other tasks go on with the rest"
            ) from None
    ran = f"task {task} ended {share.ran} run{'' if share.ran == 1 else 's'}"
    why = f"; {share.why}" if share.why else ""
    print(f"paceline: {ran}, {share.left} are left or with other tasks{why}", file=sys.stderr, flush=True)
    if share.ran and not share.left:
        cancel_waiting(
            task.partition("_")[0]
        )  # in a full queue they would wait for hours, with nothing to do
        refuse_no_answer(folder, finish(folder, study, share.results, json=json))
