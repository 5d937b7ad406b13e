"""A study folder -> its Analysis."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.analysis.question import Ask, Cluster
from paceline.analysis.recipe import Recipe
from paceline.analysis.study import study_analysis
from paceline.data import shipped
from paceline.links.probed import Probed
from paceline.records import Analysis, Finding, Study, TrialResult
from paceline.source.probes import probed_in
from paceline.source.provenance import source_of
from paceline.store.paths import StudyFolder
from paceline.store.preflight_file import preflight_findings_of
from paceline.store.recipe_file import read_recipe, recipe_names
from paceline.store.trial_files import read_results

__all__ = ["analysis_of_folder", "recipe_of"]


def analysis_of_folder(
    folder: StudyFolder,
    study: Study,
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    results: Sequence[TrialResult] | None = None,
    probed: Probed | None = None,
    said: Sequence[Finding] = (),
) -> Analysis:
    """Everything that the complete trials say, and what follows for what is asked, computed anew.

    `results`: the trials, where they have been read already. `probed`: for a study that has no probes of its own.
    `said`: what else is to be said of it.
    """
    if results is None:
        results = read_results(folder)
    own = probed_in(folder, cluster)
    return study_analysis(
        study,
        results,
        source_of(folder, study, results),
        ask=ask,
        cluster=cluster,
        said=(*preflight_findings_of(folder), *said),
        probed=own if own.links or probed is None else probed,
        recipe=recipe_of(study),
        gpus=shipped("gpus"),
    )


def recipe_of(study: Study) -> Recipe | None:
    """The recipe that this study belongs to; None of a study of its own, or of a recipe that does not ship any more."""
    return read_recipe(study.recipe) if study.recipe in recipe_names() else None
