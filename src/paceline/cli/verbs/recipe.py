"""`paceline recipe`: list, show and run the classic labs."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from paceline.analysis.recipe import PRESETS, Preset, Recipe
from paceline.analysis.recipe_answers import QUESTIONS
from paceline.cli.gather import JOIN_WAIT_S, Join, JoinWait
from paceline.cli.measure import bench_of, measure, terminated_like_interrupted
from paceline.cli.options.complete import recipes
from paceline.cli.options.goal import checked_goal, checked_point
from paceline.cli.ready import ready
from paceline.cli.text.plan import print_json
from paceline.core.errors import UsageError
from paceline.core.units import duration
from paceline.launch.command import threads_per_worker
from paceline.launch.interpreter import interpreter
from paceline.launch.processes import cores
from paceline.plan.trials import plan_study, points_of
from paceline.records import Study
from paceline.store.paths import StudyFolder
from paceline.store.recipe_file import read_recipe, recipe_names
from paceline.store.study_file import read_study, study_text
from paceline.store.trial_files import read_results

__all__ = ["recipe"]


def _actions(incomplete: str) -> list[str]:
    return [word for word in ("list", "show", "run") if word.startswith(incomplete)]


def recipe(
    action: Annotated[
        str, typer.Argument(metavar="list | show | run", help="What to do.", autocompletion=_actions)
    ] = "list",
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which recipe.", autocompletion=recipes)
    ] = None,
    preset: Annotated[
        str, typer.Option(help="laptop: minutes on two cores; lab: the lab's own sizes.")
    ] = "laptop",
    data: Annotated[
        Path | None, typer.Option(envvar="PACELINE_DATA", help="Folder or archive with real data.")
    ] = None,
    python: Annotated[str | None, typer.Option(help="The Python that has torch.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder.  [default: ./paceline-recipe-NAME]")] = None,
    join: Join = None,
    join_wait: JoinWait = None,
    retry_failed: Annotated[bool, typer.Option(help="Repeat runs that failed.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and nothing else; of run, the analysis.")
    ] = False,
) -> None:
    """Repeat a classic multi-worker lab, and answer what it asked.

    paceline recipe list
    paceline recipe show mnist
    paceline recipe run mnist

    Runs what is missing; run it again after an interruption.
    """
    if action == "list" and name is None:
        _list(json=json)
        return
    if action not in ("show", "run") or name is None:
        raise UsageError(
            f"{' '.join(filter(None, (action, name)))!r} is not list, show NAME or run NAME",
            hint=_alike(action, name),
        )
    chosen, size = read_recipe(name), _preset(preset)
    asked = _with_data(chosen.studies[size], data)
    if action == "show":
        if json:
            print_json(_shown_data(chosen, size, asked))
        else:
            print(_shown(chosen, size, asked), end="")
        return
    suffix = "" if size == "laptop" else f"-{size}"
    folder = StudyFolder(out or Path(f"paceline-recipe-{chosen.name}{suffix}"))
    own = None if python is None else interpreter(python)
    wanted = _held(folder, replace(asked, directory=os.getcwd(), python=own))
    asks = "".join(f"  {QUESTIONS[ask]}\n" for ask in chosen.asks)
    print(f"{chosen.title}. It asks:\n{asks}", end="", file=sys.stderr, flush=True)
    print("Looking at its data and options first.", file=sys.stderr, flush=True)
    wanted = _checked(wanted, python=interpreter(wanted.python))
    threads = threads_per_worker(wanted, environment=os.environ, cores=cores())
    wanted = replace(wanted, threads=threads)
    wait_s = duration(join_wait) if join_wait else JOIN_WAIT_S
    bench, plan, held = bench_of(wanted, threads=threads), plan_study(wanted), read_results(folder)
    with (
        terminated_like_interrupted(),
        ready(
            folder, wanted, plan, bench, held=held, join=join, wait_s=wait_s, retry_failed=retry_failed
        ) as bench,
    ):
        measure(folder, wanted, plan, held=held, bench=bench, retry_failed=retry_failed, json=json)


def _held(folder: StudyFolder, wanted: Study) -> Study:
    """The study as it was begun in this folder; refused where the folder holds another one."""
    if not folder.study_toml.exists():
        return wanted
    held = read_study(folder.study_toml)
    same = ("recipe", "workload", "vary", "workers", "per_worker_batch")
    other = [name for name in same if getattr(held, name) != getattr(wanted, name)]
    if other:
        raise UsageError(
            f"{folder.root} holds another study: its {' and '.join(other)} differ",
            hint="give this one its own folder: --out FOLDER",
        )
    return held


def _checked(study: Study, *, python: str) -> Study:
    """The study with what its workload says of it; missing torch or data are told here, before any worker starts."""
    if study.goal is not None:
        return checked_goal(study, python=python)
    checked_point(study, points_of(study)[-1], python=python)
    return study


def _with_data(study: Study, data: Path | None) -> Study:
    """The study on real data, where some are named; its file then says so."""
    if data is None:
        return study
    args = (*study.workload.args, "--data", str(data.absolute()))
    return replace(study, workload=replace(study.workload, args=args))


def _list(*, json: bool) -> None:
    titles = {name: read_recipe(name).title for name in recipe_names()}
    if json:
        print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    for name, title in titles.items():
        print(f"{name:16} {title}")


def _shown_data(chosen: Recipe, size: Preset, study: Study) -> dict[str, object]:
    return {
        "name": chosen.name,
        "title": chosen.title,
        "asks": [QUESTIONS[ask] for ask in chosen.asks],
        "data": chosen.data,
        "preset": size,
        "study": tomllib.loads(study_text(study)),  # as study.toml has it, so that its schema holds
    }


def _shown(chosen: Recipe, size: Preset, study: Study) -> str:
    asks = "".join(f"#   {QUESTIONS[ask]}\n" for ask in chosen.asks)
    run = (
        f"# Preset {size}: save this as study.toml and `paceline study study.toml`, "
        f"or paceline recipe run {chosen.name} --preset {size}\n"
    )
    return f"# {chosen.title}\n# It asks:\n{asks}# Data: {chosen.data}\n{run}{study_text(study)}"


def _alike(action: str, name: str | None) -> str:
    """What was meant: a mistyped word, or a recipe without its verb."""
    if action in recipe_names():
        return f"paceline recipe run {action}"
    if name is None and action in ("show", "run"):
        return f"paceline recipe {action} mnist"
    meant = get_close_matches(action, ("list", "show", "run"), n=1)
    return (
        " ".join(("paceline recipe", *meant, *([name] if name else []))) if meant else "paceline recipe list"
    )


def _preset(text: str) -> Preset:
    for known in PRESETS:
        if known == text:
            return known
    raise UsageError(f"--preset {text!r} is not known", hint="--preset laptop or --preset lab")
