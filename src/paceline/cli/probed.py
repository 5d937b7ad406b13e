"""What the probes of a folder say together: Links with their specification, devices with their data sheet, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.answers import Cluster
from paceline.data import shipped
from paceline.errors import PacelineError, UsageError
from paceline.links_probe import link_probes
from paceline.links_spec import link_findings, with_specs
from paceline.links_training import exchange_findings
from paceline.probe_device import device_findings, with_data_sheet
from paceline.records import Analysis, DeviceProbe, Finding, LinkProbe, Probe, SteadyProbe
from paceline.store.paths import StudyFolder
from paceline.store.probe_files import probe_folders, read_probe, read_probes

__all__ = ["Probed", "probed", "probed_at", "probed_in", "with_probe_results", "with_probed_links"]


@dataclass(frozen=True, slots=True)
class Probed:
    """All that was probed."""

    links: tuple[LinkProbe, ...] = ()
    devices: tuple[DeviceProbe, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    steady: tuple[SteadyProbe, ...] = ()


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
    found = probed(probes, cluster)
    return replace(found, findings=(*found.findings, *damaged))


def probed_at(folder: Path, cluster: Cluster | None = None) -> Probed:
    """What `paceline probe --out FOLDER` kept there."""
    found = probed(read_probes(folder), cluster)
    if not found.links:
        raise UsageError(f"{folder} holds no probe of a link", hint=f"paceline probe --out {folder}")
    return found


def probed(probes: Sequence[Probe], cluster: Cluster | None = None) -> Probed:
    """Links and devices over all probes; of a worker that was probed twice, the last."""
    if not probes:
        return Probed()
    gpus, kinds = shipped("gpus"), shipped("links")
    declared = {} if cluster is None else cluster.specs
    links = with_specs(link_probes(probes), probes, kinds=kinds, gpus=gpus, declared=declared)
    latest = {device.worker: device for probe in probes for device in probe.devices}
    devices = tuple(with_data_sheet(latest[worker], gpus) for worker in sorted(latest))
    return Probed(
        links,
        devices,
        tuple(dict.fromkeys(note for probe in probes for note in probe.notes)),
        (*link_findings(links, kinds, declared), *device_findings(devices)),
        tuple(probe.steady for probe in probes if probe.steady is not None),
    )


def with_probed_links(cluster: Cluster | None, found: Probed) -> Cluster | None:
    """The Cluster that an analysis is to use."""
    if not found.links and not found.steady:
        return cluster
    return replace(cluster or Cluster(), probes=found.links, steady=found.steady)


def with_probe_results(analysis: Analysis, found: Probed) -> Analysis:
    """The Analysis with everything that was probed."""
    return replace(
        analysis,
        links=found.links,
        devices=found.devices,
        findings=(*analysis.findings, *found.findings, *exchange_findings(analysis.points, found.links)),
    )
