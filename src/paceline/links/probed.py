"""All that was probed: Links beside their specification, devices beside their data sheet, and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.links.belief import LinkSpec
from paceline.links.device import device_findings, with_data_sheet
from paceline.links.fit import link_probes
from paceline.links.spec import link_findings, with_specs
from paceline.records import DeviceProbe, Finding, JitterProbe, LinkClass, LinkProbe, Probe

__all__ = ["Probed", "probed"]

Kinds = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Probed:
    """All that was probed."""

    links: tuple[LinkProbe, ...] = ()
    devices: tuple[DeviceProbe, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    jitter: tuple[JitterProbe, ...] = ()


def probed(
    probes: Sequence[Probe], *, declared: Mapping[LinkClass, LinkSpec], kinds: Kinds, gpus: Kinds
) -> Probed:
    """Links and devices over all probes; of a worker that was probed twice, the last. kinds, gpus: as shipped."""
    if not probes:
        return Probed()
    links = with_specs(link_probes(probes), probes, kinds=kinds, gpus=gpus, declared=declared)
    latest = {device.worker: device for probe in probes for device in probe.devices}
    devices = tuple(with_data_sheet(latest[worker], gpus) for worker in sorted(latest))
    return Probed(
        links,
        devices,
        tuple(dict.fromkeys(note for probe in probes for note in probe.notes)),
        (*link_findings(links, kinds, declared), *device_findings(devices)),
        tuple(probe.jitter for probe in probes if probe.jitter is not None),
    )
