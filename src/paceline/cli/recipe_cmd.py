"""`paceline recipe`: list, show and run the classic labs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paceline.answers import Ask
from paceline.cli.answer import analysis_of_folder
from paceline.cli.goal import checked_goal
from paceline.cli.study import bench_of, measure
from paceline.config import flag_value
from paceline.errors import UsageError
from paceline.launch.command import threads_per_worker
from paceline.launch.interpreter import interpreter
from paceline.launch.processes import cores
from paceline.recipe import PRESETS, Preset, Recipe
from paceline.recipe_learnt import QUESTIONS, learnt
from paceline.records import Study
from paceline.store.paths import StudyFolder
from paceline.store.recipe_file import read_recipe, recipe_names
from paceline.store.study_file import read_study, study_text

__all__ = ["recipe"]


def recipe(
    action: Annotated[str, typer.Argument(metavar="list | show | run", help="What to do.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which recipe.")] = None,
    preset: Annotated[
        str, typer.Option(help="laptop: minutes on two cores; lab: the lab's own sizes.")
    ] = "laptop",
    data: Annotated[Path | None, typer.Option(help="Folder or archive with real data.")] = None,
    python: Annotated[str | None, typer.Option(help="The Python that has torch.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder.  [default: ./paceline-recipe-NAME]")] = None,
    retry_failed: Annotated[bool, typer.Option(help="Repeat trials that failed.")] = False,
) -> None:
    """Repeat a classic multi-worker lab, and answer what it asked.

    paceline recipe list
    paceline recipe show mnist
    paceline recipe run mnist

    Runs what is missing; run it again after an interruption.
    """
    if action == "list" and name is None:
        for each in recipe_names():
            print(f"{each:16} {read_recipe(each).title}")
        return
    if action not in ("show", "run") or name is None:
        raise UsageError(
            f"{' '.join(filter(None, (action, name)))!r} is not list, show NAME or run NAME",
            hint="paceline recipe run mnist",
        )
    chosen, size = read_recipe(name), _preset(preset)
    if action == "show":
        print(_shown(chosen, size))
        return
    _run(chosen, size, data=data, python=python, out=out, retry_failed=retry_failed)


def _run(
    chosen: Recipe,
    size: Preset,
    *,
    data: Path | None,
    python: str | None,
    out: Path | None,
    retry_failed: bool,
) -> None:
    suffix = "" if size == "laptop" else f"-{size}"
    folder = StudyFolder(out or Path(f"paceline-recipe-{chosen.name}{suffix}"))
    study = _study(chosen, size, data=data, python=python)
    if folder.study_toml.exists():
        held = read_study(folder.study_toml)
        if (held.workload, held.vary, held.per_worker_batch) != (
            study.workload,
            study.vary,
            study.per_worker_batch,
        ):
            raise UsageError(
                f"{folder.root} holds another study", hint="give this one its own folder with --out"
            )
        study = held
    study = checked_goal(study, python=interpreter(study.python))
    threads = threads_per_worker(study, environment=os.environ, cores=cores())
    study = replace(study, threads=threads)
    print(f"{chosen.title}\nIt asks: {' '.join(QUESTIONS[ask] for ask in chosen.asks)}", file=sys.stderr)
    try:
        measure(folder, study, bench=bench_of(study, threads=threads), retry_failed=retry_failed, json=False)
    finally:
        if folder.study_toml.exists():
            _say_learnt(chosen, folder, study)


def _say_learnt(chosen: Recipe, folder: StudyFolder, study: Study) -> None:
    ask = Ask(project_to=chosen.project) if chosen.project else None
    analysis = analysis_of_folder(folder, study, ask=ask)
    given = flag_value(study.workload.args, "--data")
    data = study.goal.data if study.goal is not None else given or "no --data: generated data"
    print(f"\nWhat was asked, and what this study says ({data}):")
    for question, answer in learnt(chosen, analysis):
        first, *rest = answer.splitlines()
        print(f"  {question}\n    {first}" + "".join(f"\n    {line}" for line in rest))
    print(f"  Remember: {chosen.note}")


def _study(chosen: Recipe, size: Preset, *, data: Path | None, python: str | None) -> Study:
    study = chosen.studies[size]
    args = study.workload.args if data is None else (*study.workload.args, "--data", str(data.absolute()))
    return replace(
        study,
        workload=replace(study.workload, args=args),
        name=chosen.name,
        directory=os.getcwd(),
        python=None if python is None else interpreter(python),
    )


def _shown(chosen: Recipe, size: Preset) -> str:
    asks = "".join(f"#   {QUESTIONS[ask]}\n" for ask in chosen.asks)
    run = f"# Preset {size}: save this as study.toml, or paceline recipe run {chosen.name} --preset {size}\n"
    head = f"# {chosen.title}\n# It asks:\n{asks}# Data: {chosen.data}\n{run}"
    return head + study_text(chosen.studies[size])


def _preset(text: str) -> Preset:
    for known in PRESETS:
        if known == text:
            return known
    raise UsageError(f"--preset {text!r} is not known", hint="--preset laptop or --preset lab")
