"""A path -> an Analysis: a study folder, an analysis.json, or a table measured anywhere."""

from __future__ import annotations

from pathlib import Path

from paceline.analysis.json_file import analysis_from
from paceline.analysis.question import Ask, Cluster
from paceline.analysis.table import table_analysis
from paceline.core.errors import StudyError, UsageError
from paceline.core.json_text import json_of
from paceline.links.probed import Probed
from paceline.records import Analysis
from paceline.source.declared import text_of
from paceline.source.probes import probed_at
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.table.read import Times, read_table

__all__ = ["analysis_at", "read_analysis", "table_at"]


def analysis_at(
    path: Path,
    *,
    ask: Ask | None = None,
    cluster: Cluster | None = None,
    time: Times | None = None,
    probe: Path | None = None,
) -> Analysis:
    """What is at this path says. An analysis.json is shown as it is: nothing more can be asked of it.

    `probe`: a folder with probes of the same links, for a table, or for a study that has none of its own.
    """
    if str(path) != "-" and not path.exists():
        raise StudyError(f"there is no study and no table at {path}", hint="check the path")
    ask = ask or Ask()
    found = None if probe is None else probed_at(probe, cluster)
    if (path / "study.toml").exists():
        folder = StudyFolder(path)
        return analysis_of_folder(
            folder, read_study(folder.study_toml), ask=ask, cluster=cluster, probed=found
        )
    kept = path / "analysis.json" if path.is_dir() else path
    if path.is_dir() and not kept.exists():
        raise StudyError(
            f"there is no study at {path}", hint="name a study folder, an analysis.json or a table"
        )
    if kept.suffix != ".json":
        return table_at(path, ask=ask, cluster=cluster, time=time, probed=found)
    if ask != Ask():
        raise UsageError(
            f"{path} holds answers, and nothing more can be asked of it",
            hint="name the study or the table that they come from",
        )
    return read_analysis(kept)


def table_at(
    path: Path,
    *,
    ask: Ask,
    cluster: Cluster | None,
    time: Times | None = None,
    probed: Probed | None = None,
) -> Analysis:
    """A table that was measured anywhere; its source says how every column was understood."""
    table = read_table(text_of(path), time=time)
    return table_analysis(table, ask=ask, cluster=cluster, source={"table": str(path)}, probed=probed)


def read_analysis(path: Path) -> Analysis:
    """The Analysis in this file."""
    try:
        data = json_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise StudyError(f"{path} cannot be read: {problem}", hint="name a study folder") from None
    if not isinstance(data, dict):
        raise StudyError(f"{path} is not an analysis", hint="name a study folder")
    return analysis_from(data)
