"""`paceline show`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.measure import refuse_no_answer
from paceline.cli.text.answer import print_analysis
from paceline.cli.text.plan import print_json
from paceline.cli.verbs.compare import check_thresholds
from paceline.core.errors import StudyError
from paceline.plan.trials import plan_study
from paceline.records import TrialResult
from paceline.run.missing import missing
from paceline.run.slurm import standing_text
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import newest_study, read_study
from paceline.store.trial_files import read_results

__all__ = ["show"]


def show(
    study: Annotated[
        Path | None, typer.Argument(metavar="STUDY", help="A study folder.  [default: the newest here]")
    ] = None,
    trial: Annotated[
        str | None, typer.Option(metavar="ID", help="Show how one run ended and its output.")
    ] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option(help="Exit 3 if this holds: 'efficiency@4<0.7'.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every column and finding, also on a narrow terminal.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the analysis (or the run) as JSON only.")
    ] = False,
) -> None:
    """Show what a study has found so far; computed anew from its runs."""
    study = newest_study(Path()) if study is None else study
    folder = StudyFolder(study.parent if study.name == "study.toml" else study)
    asked = read_study(folder.study_toml)
    if trial is not None:
        found = _trial(folder, trial)
        if json:
            print_json(_trial_data(found))
        else:
            print(_trial_text(found))
        return
    results = read_results(folder)
    analysis = analysis_of_folder(folder, asked, results=results)
    print_analysis(analysis, folder=folder, json=json, everything=everything)
    if asked.slurm is not None:
        left = len(missing(plan_study(asked), results, asked))
        if (standing := standing_text(folder, asked, left=left)) is not None:
            print(f"paceline: {standing}", file=sys.stderr)
    check_thresholds(analysis, fail_if or [])
    if results:
        refuse_no_answer(folder, analysis)


def _trial(folder: StudyFolder, trial_id: str) -> TrialResult:
    results = read_results(folder)
    found = next((result for result in results if result.trial.id == trial_id), None)
    if found is None:
        known = ", ".join(result.trial.id for result in results) or "none"
        raise StudyError(f"{folder.root} has no complete run {trial_id}; it has: {known}", hint="choose one")
    return found


def _trial_text(found: TrialResult) -> str:
    words = [f"{found.trial.id}: {found.state}", *([found.reason] if found.reason else []), found.log_tail]
    return "\n".join(words).rstrip()


def _trial_data(found: TrialResult) -> dict[str, object]:
    """What trial.json holds of it, without the samples of its workers."""
    return {
        "trial": asdict(found.trial),
        "state": found.state,
        "reason": found.reason,
        "wall_s": found.wall_s,
        "log_tail": found.log_tail,
    }
