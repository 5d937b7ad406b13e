"""A study from its plan to its answer: what every verb that measures one does."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn

from paceline.analysis.json_file import analysis_data
from paceline.cli.text.answer import print_analysis
from paceline.cli.text.plan import print_plan
from paceline.cli.text.progress import progress_listener
from paceline.core.errors import Interrupted, NothingMeasured
from paceline.decide.verdict import unanswered
from paceline.launch.interpreter import interpreter, package_folder, workloads_path
from paceline.launch.local import LocalLauncher
from paceline.records import Analysis, Plan, Study, TrialResult
from paceline.run.clock import SystemClock
from paceline.run.find_batch import find_batches
from paceline.run.missing import to_keep
from paceline.run.study import Measured, run_study
from paceline.run.trial import Bench
from paceline.source.study import analysis_of_folder
from paceline.store.atomic import write_json
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study

__all__ = [
    "bench_of",
    "finish",
    "measure",
    "python_of",
    "refuse_no_answer",
    "run",
    "say_why_it_stopped",
    "terminated_like_interrupted",
]


def measure(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    held: Sequence[TrialResult],
    bench: Bench,
    retry_failed: bool,
    json: bool,
) -> None:
    """Run what is missing beyond the results that the folder held, and say what the study says then."""
    measured = run(folder, study, plan, held=held, bench=bench, retry_failed=retry_failed)
    if study.find_batch:
        study = read_study(folder.study_toml)  # with the batches that were tried
    analysis = finish(folder, study, measured.results, json=json)
    say_why_it_stopped(folder, measured)
    refuse_no_answer(folder, analysis)


def run(
    folder: StudyFolder,
    study: Study,
    plan: Plan,
    *,
    held: Sequence[TrialResult],
    bench: Bench,
    retry_failed: bool,
) -> Measured:
    """Run what is missing, with the plan and the progress on stderr."""
    kept = to_keep(held, retry_failed=retry_failed)
    print_plan(folder, study, plan, results=kept, bench=bench, file=sys.stderr)
    with terminated_like_interrupted(), progress_listener(folder, study) as listener:
        start = (
            partial(find_batches, folder, study)
            if study.find_batch
            else partial(run_study, folder, study, plan)
        )
        return start(bench=bench, listener=listener, known=held, retry_failed=retry_failed)


def finish(
    folder: StudyFolder, study: Study, results: Sequence[TrialResult], *, json: bool | None
) -> Analysis:
    """Analyse what is there, write what is derived from it, and print it: as text, as JSON, or (None) not at all."""
    analysis = analysis_of_folder(folder, study, results=results)
    write_json(folder.analysis_json, analysis_data(analysis))
    if json is not None:
        print_analysis(analysis, folder=folder, json=json)
    from paceline.cli.verbs.report import report_beside  # here: --help and plan need no renderer

    report_beside(folder, analysis)
    return analysis


def say_why_it_stopped(folder: StudyFolder, measured: Measured) -> None:
    """Interrupted, where somebody stopped it; a line, where an allowance did."""
    if measured.interrupted:
        raise Interrupted(
            "stopped; every complete run is kept",
            hint=f"paceline study {shlex.quote(str(folder.root))} goes on",
        )
    if measured.stopped is not None:
        print(f"stopped {measured.stopped}", file=sys.stderr)


def refuse_no_answer(folder: StudyFolder, analysis: Analysis) -> None:
    """A study that has measured nothing ends so, and one whose measurements are no answer to its question."""
    again = f"correct the script, then paceline study {shlex.quote(str(folder.root))} --retry-failed"
    trained = analysis.convergence is not None and any(curve.metric for curve in analysis.convergence.curves)
    if not trained and not any(point.step_s for point in analysis.points):
        raise NothingMeasured(f"no run in {folder.root} gave a usable measurement", hint=again)
    if unanswered(analysis.verdict):
        raise NothingMeasured(
            f"this does not say how many workers to use ({analysis.verdict.reasons[0].id})",
            hint=f"the first lines above say what to mend; {again}",
        )


def python_of(study: Study) -> str:
    """The interpreter of the trials; one inside a container cannot be looked for here."""
    if study.slurm is not None and study.slurm.container is not None:
        return study.python or "python3"
    return interpreter(study.python)


def bench_of(study: Study, *, threads: int) -> Bench:
    """What trials on this machine are run with."""
    python = python_of(study)
    own = study.workload.kind == "workload"
    return Bench(
        launcher=LocalLauncher(),
        python=python,
        threads=threads,
        agent=package_folder("paceline_agent"),
        workloads=workloads_path() if own else None,
        clock=SystemClock(),
    )


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP end a study in the same order as Ctrl-C; what nohup made ignored stays so."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # only there may signals be heard
    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
