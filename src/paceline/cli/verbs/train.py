"""`paceline train`: one training, from its first step to its last, watched by the agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.measure import bench_of, terminated_like_interrupted
from paceline.cli.options.complete import workloads
from paceline.cli.options.goal import checked_metric
from paceline.cli.options.request import target_of
from paceline.cli.options.study import Metric
from paceline.cli.text.plan import print_json
from paceline.cli.text.train import training_text
from paceline.cli.text.train_progress import training_listener
from paceline.converge.comparison import metric_of, rises_by_name
from paceline.converge.summary import Evaluation, TrainingSummary, training_summary
from paceline.core import units
from paceline.core.errors import Interrupted, NothingMeasured, UsageError
from paceline.launch.command import threads_per_worker
from paceline.launch.interpreter import interpreter, workloads_path
from paceline.launch.preflight import checked_workload
from paceline.launch.processes import cores
from paceline.measure.telemetry import use_of
from paceline.plan.trials import plan_study
from paceline.records import Goal, Study, TrialResult, Workload
from paceline.run.study import run_study
from paceline.store.atomic import make_folder, write_json
from paceline.store.json_lines import json_lines
from paceline.store.paths import StudyFolder
from paceline.store.trial_files import read_results

__all__ = ["train"]

_EVERY_STEP = 1_000_000_000
_FLAGS = {
    "per_worker_batch": "--batch-size",
    "global_batch": "--global-batch",
    "accumulate": "--accumulate",
    "epochs": "--epochs",
    "optimizer": "--optimizer",
    "lr": "--lr",
    "lr_rule": "--lr-rule",
    "warmup_epochs": "--warmup-epochs",
    "schedule": "--schedule",
    "seed": "--seed",
    "data": "--data",
    "target": "--target",
}


def train(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET [-- ITS ARGS]",
            help="A workload of Paceline, or your script.",
            autocompletion=workloads,
        ),
    ] = None,
    module: Annotated[str | None, typer.Option("--module", "-m", help="Train a module.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Workers.")] = 1,
    per_worker_batch: Annotated[int | None, typer.Option(help="Samples per worker and backward.")] = None,
    global_batch: Annotated[int | None, typer.Option(help="Samples of all workers per step.")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Backwards per step.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd, adam, adamw, lars or lamb.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate, at the base batch.")] = None,
    lr_rule: Annotated[
        str | None, typer.Option(help="none, linear, sqrt or adascale: with the batch.")
    ] = None,
    warmup_epochs: Annotated[float | None, typer.Option(help="Epochs over which the rate rises.")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, cosine or step, in samples.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, order and augmentation.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder or archive with real data.")] = None,
    target: Annotated[float | None, typer.Option(help="Stop when the goal is this good.")] = None,
    metric: Metric = None,
    sync_batch_norm: Annotated[bool, typer.Option(help="Batch statistics over all workers.")] = False,
    resume: Annotated[bool, typer.Option(help="Go on from the newest checkpoint.")] = False,
    threads: Annotated[int | None, typer.Option(help="CPU threads per worker.")] = None,
    timeout: Annotated[str, typer.Option(help="Longest training: 90min, 12h.")] = "24h",
    hang: Annotated[str, typer.Option(help="Longest time without a step; evaluation counts.")] = "15min",
    python: Annotated[str | None, typer.Option(help="The Python that has torch.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder.  [default: ./paceline-train-NAME]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Train to the end and say what came of it: curve, plateau, time to the target, waiting, memory.

    paceline train mnist --workers 2 --epochs 5
    paceline train train.py --workers 2 -- --batch-size 32

    A script tells its metrics with `from paceline_agent import mark; mark("val_accuracy", x)`, to TensorBoard,
    or in what it prints: --metric 'val_acc=([0-9.]+)'.
    """
    given = {name: value for name, value in locals().items() if name in _FLAGS and value is not None}
    workload = target_of(words or [], module=module, start=None).workload
    if workload is None:
        raise UsageError(f"{(words or ['?'])[0]} is a study, not a training", hint="paceline train mnist")
    name = Path(workload.name).stem if workload.kind == "script" else workload.name.rpartition(".")[2]
    folder = StudyFolder(out or Path(f"paceline-train-{name}"))
    done = read_results(folder)
    if done and not resume:
        raise UsageError(f"{folder.root} holds a training already", hint="--out FOLDER, or --resume to go on")
    checked_metric(metric)
    chosen = interpreter(python)
    summary: dict[str, object] = {}
    if workload.kind == "workload":
        flags = [part for key, value in given.items() for part in (_FLAGS[key], str(value))]
        switches = ["--sync-batch-norm"] * sync_batch_norm + ["--resume"] * resume
        kept = ["--checkpoint", str(folder.root.absolute() / "checkpoints")]
        workload = replace(workload, args=(*flags, *switches, *kept, *workload.args))
        summary = checked_workload(
            workload.name,
            workload.args,
            python=chosen,
            workers=workers,
            search=workloads_path(),
            directory=".",
        )
        workload = replace(workload, args=(*workload.args, "--metrics", str(_metrics(folder).absolute())))
    else:
        _refuse_flags({**given, **({"resume": True} if resume else {})} | _switch(sync_batch_norm))
    study = Study(
        workload,
        workers=(workers,),
        goal=Goal(target=target, metric=metric),
        repeats=len(done) + 1,
        tight_ratio=0.0,
        timeout_s=units.duration(timeout),
        hang_s=units.duration(hang),
        threads=threads,
        python=None if python is None else chosen,
        name=name,
        directory=os.getcwd(),
    )
    study = replace(study, threads=threads_per_worker(study, environment=os.environ, cores=cores()))
    _say_beginning(study, summary)
    result = _run(folder, study, summary, done)
    history = _history(folder, result, workload)
    measured = _summary(history, result, summary=summary, target=target, metric=metric)
    write_json(folder.root / "training.json", _data(measured, history, summary))
    if json:
        print_json(_data(measured, history, summary))
    else:
        print(training_text(measured, history, summary=summary, folder=folder.root))


def _run(
    folder: StudyFolder, study: Study, summary: dict[str, object], done: Sequence[TrialResult]
) -> TrialResult:
    """The one trial of this training; raises when it did not come to its end."""
    make_folder(folder.root)
    per_epoch, epochs = summary.get("steps_per_epoch"), summary.get("epochs")
    steps = per_epoch * epochs if isinstance(per_epoch, int) and isinstance(epochs, int) else None
    with (
        terminated_like_interrupted(),
        training_listener(partial(json_lines, _metrics(folder)), steps=steps) as listener,
    ):
        bench = bench_of(study, threads=study.threads or 1)
        measured = run_study(folder, study, plan_study(study), bench=bench, listener=listener, known=done)
    if measured.interrupted:
        raise Interrupted("stopped; checkpoints are kept", hint="the same command with --resume")
    result = measured.results[-1]
    if result.state != "ok":
        print(result.log_tail, file=sys.stderr)
        raise NothingMeasured(
            f"the training ended {result.state}: {result.reason}",
            hint=f"paceline show {folder.root} --trial {result.trial.id}",
        )
    return result


def _history(folder: StudyFolder, result: TrialResult, workload: Workload) -> list[Evaluation]:
    """What was evaluated: the metrics file of our workloads, the marks of a script."""
    if workload.kind == "workload":
        lines = [line for line in json_lines(_metrics(folder)) if line.get("record") == "epoch"]
        plain = [{key: float(v) for key, v in line.items() if isinstance(v, int | float)} for line in lines]
        return [Evaluation(line["epoch"], line["wall_s"], line) for line in plain]
    first = min((s.end_s - s.step_s for w in result.workers for s in w.samples[:1]), default=0.0)
    counts: dict[str, int] = {}
    history = []
    for mark in (mark for worker in result.workers if worker.rank == 0 for mark in worker.marks):
        counts[mark.name] = counts.get(mark.name, 0) + 1
        history.append(Evaluation(counts[mark.name], mark.end_s - first, {mark.name: mark.value}))
    return history


def _summary(
    history: list[Evaluation],
    result: TrialResult,
    *,
    summary: dict[str, object],
    target: float | None,
    metric: str | None,
) -> TrainingSummary:
    names = list(dict.fromkeys(name for evaluation in history for name in evaluation.metrics))
    named = metric if metric is not None or not summary else str(summary["goal"])
    goal = metric_of(Goal(metric=named), [result]) or (named if named in names else None)
    if metric is not None and goal is None:
        raise UsageError(f"no metric is called {metric!r}; there is {names}", hint="choose one with --metric")
    batch = summary.get("global_batch")
    return training_summary(
        history,
        result.workers,
        metric=goal,
        rises=bool(summary["rises"]) if summary else goal is None or rises_by_name(goal),
        target=target,
        global_batch=batch if isinstance(batch, int) else None,
        use=use_of(result, warmup=0, steps=_EVERY_STEP),
    )


def _data(
    measured: TrainingSummary, history: list[Evaluation], summary: dict[str, object]
) -> dict[str, object]:
    return {"format": 1, "asked": summary, **asdict(measured), "curve": [asdict(e) for e in history]}


def _say_beginning(study: Study, summary: dict[str, object]) -> None:
    if summary:
        print(
            f"{summary['workload']}: {summary['data']}; {summary['parameters']:,} parameters, "
            f"{study.workers[0]} workers, global batch {summary['global_batch']}, "
            f"{summary['steps_per_epoch']} steps per epoch",
            file=sys.stderr,
        )


def _refuse_flags(given: dict[str, object]) -> None:
    named = [key for key in given if key != "target"]  # of a script, a target is looked for in its marks
    if named:
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in named)
        raise UsageError(
            f"{flags}: Paceline's workloads understand this, a script may not",
            hint="the script's flags go after --",
        )


def _switch(sync_batch_norm: bool) -> dict[str, object]:
    return {"sync_batch_norm": True} if sync_batch_norm else {}


def _metrics(folder: StudyFolder) -> Path:
    return folder.root / "metrics.jsonl"
