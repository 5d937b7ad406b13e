"""`paceline show`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.answer import analysis_of_folder, print_analysis
from paceline.cli.compare import check_thresholds
from paceline.cli.plan_text import print_json
from paceline.errors import StudyError
from paceline.records import TrialResult
from paceline.run.slurm import standing_text
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import read_results

__all__ = ["show"]


def show(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A study folder.")],
    trial: Annotated[
        str | None, typer.Option(metavar="ID", help="Show how one trial ended and its output.")
    ] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option(help="Exit 3 if this holds: 'efficiency@4<0.7'.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the analysis (or the trial) as JSON only.")
    ] = False,
) -> None:
    """Show what a study has found so far; computed anew from its trials."""
    folder = StudyFolder(study.parent if study.name == "study.toml" else study)
    asked = read_study(folder.study_toml)
    if trial is not None:
        found = _trial(folder, trial)
        if json:
            print_json(_trial_data(found))
        else:
            print(_trial_text(found))
        return
    analysis = analysis_of_folder(folder, asked)
    print_analysis(analysis, folder=folder, json=json)
    if asked.slurm is not None and (standing := standing_text(folder, asked)) is not None:
        print(f"paceline: {standing}", file=sys.stderr)
    check_thresholds(analysis, fail_if or [])


def _trial(folder: StudyFolder, trial_id: str) -> TrialResult:
    results = read_results(folder)
    found = next((result for result in results if result.trial.id == trial_id), None)
    if found is None:
        known = ", ".join(result.trial.id for result in results) or "none"
        raise StudyError(
            f"{folder.root} has no complete trial {trial_id}; it has: {known}", hint="choose one"
        )
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
