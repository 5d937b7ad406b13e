"""A study folder -> its Analysis with everything that `answers` adds for what was asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from paceline.answers import Ask, Cluster, answers
from paceline.cli.answer import analysis_of_folder
from paceline.records import Analysis
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study

__all__ = ["study_answers"]


def study_answers(path: Path, *, ask: Ask, cluster: Cluster | None) -> Analysis:
    """The Analysis of a study, projected and advised as asked."""
    folder = StudyFolder(path)
    analysis = analysis_of_folder(folder, read_study(folder.study_toml))
    found = answers(analysis.points, "step", cluster=cluster, ask=ask)
    known = {finding.id for finding in analysis.findings}
    return replace(
        analysis,
        fit=found.fit,
        projections=found.projections,
        refusals=found.refusals,
        recommendations=found.recommendations,
        convergence=found.convergence if found.convergence is not None else analysis.convergence,
        findings=(*analysis.findings, *(f for f in found.findings if f.id not in known)),
    )
