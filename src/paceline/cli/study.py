"""`paceline study` and `paceline plan`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import FrameType
from typing import NoReturn

from paceline import config, units
from paceline.analysis_json import analysis_data
from paceline.cli.answer import analysis_of_folder, print_analysis
from paceline.cli.gather import JOIN_WAIT_S, Join, JoinWait
from paceline.cli.goal import (
    Epochs,
    LowerIsBetter,
    LrRule,
    MemoryLimit,
    Metric,
    SeedFlag,
    Seeds,
    ToAccuracy,
    WarmupEpochs,
    checked_goal,
    goal_fields,
)
from paceline.cli.plan_text import print_json, print_plan, whole_command
from paceline.cli.progress import progress_listener
from paceline.cli.ready import ready
from paceline.cli.request import request, target_of
from paceline.cli.slurm_options import (
    Account,
    Array,
    Constraint,
    Container,
    Emit,
    Exclusive,
    Gres,
    LoadModule,
    On,
    Partition,
    Prologue,
    SbatchOption,
    Time,
    cores_for,
    with_allocation,
)
from paceline.cli.study_options import (
    SECTIONS,
    Backend,
    Batch,
    BatchFlag,
    Budget,
    DryRun,
    Hang,
    Json,
    Lr,
    LrFlag,
    Module,
    Nodes,
    Out,
    PerNode,
    Python,
    Repeats,
    RetryFailed,
    ScalingText,
    StartText,
    Steps,
    Threads,
    Tight,
    Timeout,
    Vary,
    Warmup,
    Whole,
    Words,
    Workers,
)
from paceline.errors import Interrupted, NothingMeasured, UsageError
from paceline.launch.command import threads_per_worker
from paceline.launch.interpreter import interpreter, package_folder, workloads_path
from paceline.launch.local import LocalLauncher
from paceline.plan import plan_study
from paceline.records import Analysis, Study
from paceline.run.clock import SystemClock
from paceline.run.study import run_study
from paceline.run.trial import Bench
from paceline.store.atomic import write_json
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results

__all__ = ["SECTIONS", "bench_of", "measure", "plan", "study", "terminated_like_interrupted"]


def study(
    words: Words = None,
    module: Module = None,
    workers: Workers = None,
    nodes: Nodes = None,
    workers_per_node: PerNode = None,
    per_worker_batch: Batch = None,
    global_batch: Whole = None,
    scaling: ScalingText = None,
    backend: Backend = None,
    vary: Vary = None,
    batch_flag: BatchFlag = None,
    lr_flag: LrFlag = None,
    lr: Lr = None,
    steps: Steps = None,
    warmup: Warmup = None,
    repeats: Repeats = None,
    tight: Tight = None,
    timeout: Timeout = None,
    hang: Hang = None,
    budget: Budget = None,
    threads: Threads = None,
    python: Python = None,
    start: StartText = None,
    to_accuracy: ToAccuracy = None,
    lr_rule: LrRule = None,
    warmup_epochs: WarmupEpochs = None,
    seeds: Seeds = None,
    epochs: Epochs = None,
    metric: Metric = None,
    lower_is_better: LowerIsBetter = False,
    seed_flag: SeedFlag = None,
    memory_limit: MemoryLimit = None,
    on: On = None,
    partition: Partition = None,
    account: Account = None,
    time: Time = None,
    gres: Gres = None,
    constraint: Constraint = None,
    exclusive: Exclusive = None,
    load_module: LoadModule = None,
    prologue: Prologue = None,
    container: Container = None,
    sbatch_option: SbatchOption = None,
    array: Array = None,
    emit: Emit = None,
    join: Join = None,
    join_wait: JoinWait = None,
    out: Out = None,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Measure a training script at several worker counts. The script is not changed.

    paceline study --workers 1,2,4 train.py -- --batch-size 32

    paceline study --workers 1,2 -m package.train -- --config c.yaml

    Runs what is missing; run it again after an interruption, or with more workers or repeats.
    """
    asked: dict[str, object] = {
        "workers": units.count_range(workers) if workers else None,
        "nodes": units.count_range(nodes) if nodes else None,
        "workers_per_node": units.count_range(workers_per_node) if workers_per_node else None,
        "per_worker_batch": config.numbers(per_worker_batch, flag="--per-worker-batch")
        if per_worker_batch
        else None,
        "global_batch": config.numbers(global_batch, flag="--global-batch") if global_batch else None,
        "scaling": config.scalings(scaling) if scaling else None,
        "backends": config.backends(backend) if backend else None,
        "vary": tuple(config.vary(text) for text in vary) if vary else None,
        "lr": lr,
        "steps": steps,
        "warmup": warmup,
        "repeats": repeats,
        "tight_ratio": tight,
        "timeout_s": units.duration(timeout) if timeout else None,
        "hang_s": units.duration(hang) if hang else None,
        "budget_device_s": units.duration(budget) if budget else None,
        "threads": threads,
        "python": python if python is None or container else interpreter(python),
        "memory_limit_bytes": None if memory_limit is None else units.bytes_of(memory_limit),
    }
    asked |= goal_fields(
        to_accuracy=to_accuracy,
        lr_rule=lr_rule,
        warmup_epochs=warmup_epochs,
        seeds=seeds,
        epochs=epochs,
        metric=metric,
        lower_is_better=lower_is_better,
        vary=tuple(config.vary(text) for text in vary or ()),
    )
    flags = {"batch_flag": batch_flag, "lr_flag": lr_flag, "seed_flag": seed_flag}
    folder, wanted = request(
        target_of(words or [], module=module, start=start),
        {name: value for name, value in asked.items() if value is not None},
        out=out,
        flags={name: value for name, value in flags.items() if value is not None},
    )
    wanted = with_allocation(
        wanted,
        on=on,
        partition=partition,
        account=account,
        time=time,
        gres=gres,
        constraint=constraint,
        exclusive=exclusive,
        modules=load_module,
        prologue=prologue,
        container=container,
        options=sbatch_option,
        array=array,
    )
    wanted = checked_goal(config.with_args_batch(wanted), python=python_of(wanted))
    if os.pathsep in str(folder.root.absolute()):
        raise UsageError(f"the folder {folder.root} has a {os.pathsep!r} in its name", hint="choose --out")
    count = threads_per_worker(wanted, environment=os.environ, cores=cores_for(wanted))
    bench = bench_of(wanted, threads=count)
    if emit is not None or (wanted.slurm is not None and not dry_run):
        from paceline.cli.slurm_cmd import on_slurm  # here: it ends a study as this file does

        on_slurm(folder, wanted, bench=bench, emit=emit, retry_failed=retry_failed, json=json)
        return
    if wanted.slurm is None:
        wanted = replace(wanted, threads=count)
    if dry_run:
        if json:
            print_json(asdict(plan_study(wanted)))
        else:
            held = read_results(folder)
            print_plan(folder, wanted, results=held, bench=bench, file=sys.stdout, shown=whole_command)
        return
    wait_s = units.duration(join_wait) if join_wait else JOIN_WAIT_S
    with (
        terminated_like_interrupted(),
        ready(folder, wanted, bench, join=join, wait_s=wait_s, retry_failed=retry_failed) as bench,
    ):
        measure(folder, wanted, bench=bench, retry_failed=retry_failed, json=json)


def plan(
    words: Words = None,
    module: Module = None,
    workers: Workers = None,
    nodes: Nodes = None,
    workers_per_node: PerNode = None,
    per_worker_batch: Batch = None,
    global_batch: Whole = None,
    scaling: ScalingText = None,
    backend: Backend = None,
    vary: Vary = None,
    batch_flag: BatchFlag = None,
    lr_flag: LrFlag = None,
    lr: Lr = None,
    steps: Steps = None,
    warmup: Warmup = None,
    repeats: Repeats = None,
    threads: Threads = None,
    python: Python = None,
    start: StartText = None,
    to_accuracy: ToAccuracy = None,
    lr_rule: LrRule = None,
    warmup_epochs: WarmupEpochs = None,
    seeds: Seeds = None,
    epochs: Epochs = None,
    metric: Metric = None,
    seed_flag: SeedFlag = None,
    memory_limit: MemoryLimit = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Show what a study would run and what it would cost, and run nothing. Takes the options of `study`."""
    study(
        **{name: value for name, value in locals().items() if value is not None},
        dry_run=True,
    )


def finish(folder: StudyFolder, study: Study, *, json: bool) -> Analysis:
    """Analyse what is there, write what is derived from it, and print it. The one place where a study ends."""
    analysis = analysis_of_folder(folder, study)
    write_json(folder.analysis_json, analysis_data(analysis))
    print_analysis(analysis, folder=folder, json=json)
    from paceline.cli.report_cmd import report_beside  # here: --help and plan need no renderer

    report_beside(folder, analysis)
    return analysis


def measure(folder: StudyFolder, study: Study, *, bench: Bench, retry_failed: bool, json: bool) -> None:
    held = read_results(folder)
    kept = [result for result in held if result.state == "ok"] if retry_failed else held
    print_plan(folder, study, results=kept, bench=bench, file=sys.stderr)
    stopped: str | None = None
    interrupted = False
    with terminated_like_interrupted(), progress_listener(study) as listener:
        try:
            stopped = run_study(folder, study, bench=bench, listener=listener, retry_failed=retry_failed)
        except KeyboardInterrupt:
            interrupted = True
    analysis = finish(folder, study, json=json)
    again = f"paceline study {shlex.quote(str(folder.root))}"
    if interrupted:
        raise Interrupted("stopped; every complete trial is kept", hint=f"{again} goes on")
    if stopped is not None:
        print(f"stopped {stopped}", file=sys.stderr)
    refuse_nothing(folder, analysis)


def refuse_nothing(folder: StudyFolder, analysis: Analysis) -> None:
    """A study that has measured nothing at all ends so."""
    trained = analysis.convergence is not None and any(curve.metric for curve in analysis.convergence.curves)
    if not trained and not any(point.step_s for point in analysis.points):
        raise NothingMeasured(
            f"no trial in {folder.root} gave a usable measurement",
            hint=f"correct the script, then paceline study {shlex.quote(str(folder.root))} --retry-failed",
        )


def python_of(study: Study) -> str:
    """The interpreter of the trials; one inside a container cannot be looked for here."""
    if study.slurm is not None and study.slurm.container is not None:
        return study.python or "python3"
    return interpreter(study.python)


def bench_of(study: Study, *, threads: int) -> Bench:
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

    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
