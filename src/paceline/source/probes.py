"""The probes that are kept in a folder, read and brought together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from paceline.analysis.question import Cluster
from paceline.core.errors import PacelineError, UsageError
from paceline.data import shipped
from paceline.links.probed import Probed, probed
from paceline.records import Finding, Probe
from paceline.store.paths import StudyFolder
from paceline.store.probe_files import probe_folders, read_probe, read_probes

__all__ = ["brought_together", "probed_at", "probed_in"]


def probed_in(folder: StudyFolder, cluster: Cluster | None = None) -> Probed:
    """What is kept with a study, beside what the cluster declares. A damaged probe does not cost it its analysis."""
    probes, damaged = [], []
    for path in probe_folders(folder.root):
        try:
            probes.append(read_probe(path))
        except PacelineError as problem:
            hint = f"remove {path}, then paceline probe STUDY"
            damaged.append(
                Finding("probe-damaged", "doubt", f"a probe is left out: {problem.message}", hint=hint)
            )
    found = brought_together(probes, cluster)
    return replace(found, findings=(*found.findings, *damaged))


def probed_at(folder: Path, cluster: Cluster | None = None) -> Probed:
    """What `paceline probe --out FOLDER` kept there."""
    found = brought_together(read_probes(folder), cluster)
    if not found.links:
        raise UsageError(f"{folder} holds no probe of a link", hint=f"paceline probe --out {folder}")
    return found


def brought_together(probes: Sequence[Probe], cluster: Cluster | None = None) -> Probed:
    """What these probes say, beside the kinds of links and devices that Paceline knows."""
    declared = {} if cluster is None else cluster.specs
    return probed(probes, declared=declared, kinds=shipped("links"), gpus=shipped("gpus"))
