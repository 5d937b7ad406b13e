"""Is my bandwidth normal? A probed Link beside its specification, and what links of that kind usually deliver.

    nvlink4 · infiniband@200gbit · tcp@25gbit · 10gbit        a kind of link, its nominal rate, or both

What is promised comes from the user, else from the device (its data sheet names the link inside a node), else from
the network interface. A link usually delivers median · exp(±1.645 sd) of its nominal rate (links.toml, 90%).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.core.errors import UsageError
from paceline.core.stats import NINETY
from paceline.core.units import percent_text, rate_range_text, rate_text
from paceline.links.belief import LinkSpec, Transport, transports
from paceline.records import DeviceProbe, Finding, LinkClass, LinkProbe, Probe

__all__ = ["class_text", "link_findings", "spec_from", "specs_from", "with_specs"]

_RATE = re.compile(r"([0-9]*\.?[0-9]+)\s*([kmgt])(bit|b)(?:it)?(?:/s|ps)?", re.IGNORECASE)
_PREFIX = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_CLASSES: tuple[LinkClass, ...] = ("inside", "between")

Rows = Mapping[str, Mapping[str, object]]


def class_text(link: LinkClass) -> str:
    """Where a link is, in words."""
    return "inside a node" if link == "inside" else "between nodes"


def specs_from(texts: Sequence[str], kinds: Rows) -> dict[LinkClass, str]:
    """`between=tcp@25gbit`, `nvlink4`: what the user says of each class; without a class, of the only one meant."""
    found: dict[LinkClass, str] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if equals and name not in _CLASSES:
            raise UsageError(f"--spec {text!r} names no class of links", hint="--spec between=25gbit")
        spec = rest if equals else text
        spec_from(spec, kinds)
        for link in _CLASSES:
            if link == name or not equals:
                found[link] = spec
    return found


def spec_from(text: str, kinds: Rows) -> LinkSpec:
    """A specification as a person writes it."""
    kind, at, rate = text.strip().rpartition("@")
    known = transports(kinds)
    if not at and text.strip() in known:
        kind, rate = text.strip(), ""
    match = _RATE.fullmatch(rate.strip())
    transport = known.get(kind) if kind else None
    nominal = transport.nominal_bytes_per_s if transport is not None else None
    if match is not None:
        nominal = float(match[1]) * _PREFIX[match[2].lower()] / (8.0 if match[3].lower() == "bit" else 1.0)
    if (kind and transport is None) or (rate and match is None) or not nominal:
        raise UsageError(
            f"{text!r} is not a specification of a link",
            hint=f"write 25gbit, a kind ({', '.join(known)}), or both: tcp@25gbit",
        )
    return LinkSpec(text.strip(), nominal, transport)


def with_specs(
    links: Sequence[LinkProbe],
    probes: Sequence[Probe],
    *,
    kinds: Rows,
    gpus: Rows,
    declared: Mapping[LinkClass, LinkSpec] | None = None,
) -> tuple[LinkProbe, ...]:
    """The same Links with what is known of their specification. `declared`: what a cluster file says of them."""
    said = {link: text for probe in probes for link, text in probe.specs}
    speeds = [p.interface_bytes_per_s for p in probes if p.interface_bytes_per_s is not None]
    devices = [device for probe in probes for device in probe.devices]
    found = []
    for link in links:
        text = said.get(link.link)
        spec = (declared or {}).get(link.link) if text is None else spec_from(text, kinds)
        if spec is None and link.link == "inside" and link.backend == "nccl":
            text = _of_device(devices, gpus)
            spec = None if text is None else spec_from(text, kinds)
        if spec is not None:
            source = "" if spec.transport is None else spec.transport.source
            link = replace(
                link,
                spec=f"{spec.name}{f' ({source})' if source else ''}",
                spec_bytes_per_s=spec.bytes_per_s,
            )
        elif link.link == "between" and speeds:
            link = replace(link, spec="network interface, as it says of itself", spec_bytes_per_s=min(speeds))
        found.append(link)
    return tuple(found)


def link_findings(
    links: Sequence[LinkProbe], kinds: Rows, declared: Mapping[LinkClass, LinkSpec] | None = None
) -> tuple[Finding, ...]:
    """What every probed Link delivers of its specification, and whether that is usual."""
    found = []
    known = transports(kinds)
    known |= {s.transport.name: s.transport for s in (declared or {}).values() if s.transport is not None}
    for link in links:
        if link.spec is None or not link.spec_bytes_per_s or "bytes_per_s" in link.unidentified:
            continue
        ratio = link.bytes_per_s.value / link.spec_bytes_per_s
        transport = known.get(link.spec.partition(" (")[0].partition("@")[0])
        low, high = _usual(transport or known["ethernet"])
        what = (
            f"links {class_text(link.link)} carry {rate_range_text(link.bytes_per_s)} over {link.backend}, "
            f"{percent_text(ratio)} of the {rate_text(link.spec_bytes_per_s)} that their specification promises "
            f"({link.spec.partition(' (')[0]})"
        )
        usual = f"links of this kind usually deliver {percent_text(low)} to {percent_text(high)}"
        if ratio < low:
            found.append(
                Finding(
                    "link-below-spec",
                    "doubt",
                    f"{what}; {usual}",
                    value=ratio,
                    threshold=low,
                    hint="see which interface the workers use (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME) and who shares "
                    "it, then paceline probe STUDY",
                )
            )
        else:
            found.append(Finding("link-spec", "note", f"{what}; {usual}", value=ratio, threshold=low))
    return tuple(found)


def _usual(transport: Transport) -> tuple[float, float]:
    reach = math.exp(NINETY * transport.delivered_sd)
    return transport.delivered_ratio / reach, min(1.0, transport.delivered_ratio * reach)


def _of_device(devices: Sequence[DeviceProbe], gpus: Rows) -> str | None:
    """The link inside a node that the data sheet of the devices names, where all are of one kind."""
    names = {device.name for device in devices if device.device == "cuda"}
    if len(names) != 1:
        return None
    name = names.pop()
    row = next((row for row in gpus.values() if name in _names(row)), None)
    return None if row is None or "inside" not in row else str(row["inside"])


def _names(row: Mapping[str, object]) -> tuple[str, ...]:
    names = row.get("device_names")
    return tuple(str(name) for name in names) if isinstance(names, list) else ()
