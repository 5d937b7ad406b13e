"""The search of the largest per-worker batch: run after run, each a trial of the study, at every setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.analysis.memory import tried_at
from paceline.decide.largest_batch import next_batch
from paceline.plan.trials import plan_study, points_of
from paceline.records import Plan, Point, Study, TrialResult
from paceline.run.study import Listener, Measured, run_study
from paceline.run.trial import Bench
from paceline.store.paths import StudyFolder

__all__ = ["find_batches", "first_plan"]


def first_plan(study: Study) -> Plan:
    """Where the search begins: the smallest batch that is asked for, at every setting."""
    return _only(study, min(study.per_worker_batch))


def find_batches(
    folder: StudyFolder,
    study: Study,
    *,
    bench: Bench,
    listener: Listener,
    known: Sequence[TrialResult],
    retry_failed: bool,
) -> Measured:
    """Search at one setting after the other. What was run before is not run again."""
    first = min(study.per_worker_batch)
    measured = Measured(tuple(known))
    for setting in points_of(replace(study, per_worker_batch=(first,))):
        while True:
            tried = tried_at(study, setting, measured.results)
            batch = next_batch(tried, first=first, limit_bytes=study.memory_limit_bytes)
            if batch is None or batch in {one.batch for one in tried}:
                break
            study = replace(study, per_worker_batch=tuple(sorted({*study.per_worker_batch, batch})))
            before = len(measured.results)
            measured = run_study(
                folder,
                study,
                _only(study, batch, setting),
                bench=bench,
                listener=listener,
                known=measured.results,
                retry_failed=retry_failed,
            )
            retry_failed = False
            if measured.stopped or measured.interrupted:
                return measured
            if len(measured.results) == before:
                break  # left out, as other nodes or backends are
    return measured


def _only(study: Study, batch: int, setting: Point | None = None) -> Plan:
    """The plan of this batch alone, once; at one setting or at all."""
    plan = plan_study(replace(study, per_worker_batch=(batch,), repeats=1))
    trials = tuple(t for t in plan.trials if setting is None or alike(t.point, setting))
    share = len(trials) / len(plan.trials)
    points = tuple(dict.fromkeys(trial.point for trial in trials))
    return replace(
        plan, points=points, trials=trials, device_s=plan.device_s * share, wall_s=plan.wall_s * share
    )


def alike(point: Point, setting: Point) -> bool:
    """Whether two points differ in the batch alone."""
    return (point.workers, point.nodes, point.backend, point.varied) == (
        setting.workers, setting.nodes, setting.backend, setting.varied,
    )  # fmt: skip
