"""What a Link delivers, measured or declared, always with how sure that is.

A data sheet gives a rate that no training reaches: how much of it arrives depends on the transport, and for TCP on the
limit of a single flow, so a declared Link is a wide statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.core import calibration
from paceline.core.errors import UsageError
from paceline.records import Link

__all__ = ["LinkBelief", "LinkSpec", "Transport", "declared", "measured"]


@dataclass(frozen=True, slots=True)
class Transport:
    """How much of its nominal rate a kind of link delivers to gradients: log-normal medians and log-deviations."""

    name: str
    delivered_ratio: float
    delivered_sd: float
    latency_s: float
    latency_sd: float
    nominal_bytes_per_s: float | None = None
    most_bytes_per_s: float | None = None  # whatever the nominal rate, e.g. the limit of one TCP flow
    source: str = ""


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """What a link promises: nominal bytes per second in one direction, and the kind that says what usually arrives."""

    name: str
    bytes_per_s: float
    transport: Transport | None


@dataclass(frozen=True, slots=True)
class LinkBelief:
    """Rate and hop latency as log-normal beliefs: median and standard deviation of the log."""

    bytes_per_s: float
    bytes_sd: float
    latency_s: float
    latency_sd: float
    source: str
    probed: bool = False  # by collectives over the very backend that will carry the gradients
    cores_s_per_byte: float | None = None  # what a node's cores are busy for, all of them, to carry a byte
    busy_hop_s: float | None = None  # by how much a hop takes longer while workers compute


def measured(link: Link) -> LinkBelief:
    """A Link that a probe measured, believed to 10% in rate and 30% in latency."""
    return LinkBelief(
        link.bytes_per_s,
        calibration.PROBED_RATE.spread,
        max(link.latency_s, 1e-7),
        calibration.PROBED_LATENCY.spread,
        link.source or link.name or "probe",
    )


def declared(transport: Transport, *, bytes_per_s: float | None = None) -> LinkBelief:
    """A Link known from its specification only."""
    nominal = bytes_per_s if bytes_per_s is not None else transport.nominal_bytes_per_s
    if nominal is None or nominal <= 0:
        raise UsageError(
            f"link kind {transport.name!r} has no rate of its own",
            hint="add gbit_per_s or bytes_per_s to the link",
        )
    rate = nominal * transport.delivered_ratio
    if transport.most_bytes_per_s is not None:
        rate = min(rate, transport.most_bytes_per_s)
    return LinkBelief(
        rate, transport.delivered_sd, transport.latency_s, transport.latency_sd, f"{transport.name}, declared"
    )


def transports(data: Mapping[str, Mapping[str, object]]) -> dict[str, Transport]:
    """The kinds of links of a links.toml, by name."""
    found = {}
    for name, row in data.items():
        try:
            found[name] = Transport(
                name=name,
                delivered_ratio=_number(row["delivered_ratio"]),
                delivered_sd=_number(row["delivered_sd"]),
                latency_s=_number(row["latency_s"]),
                latency_sd=_number(row["latency_sd"]),
                nominal_bytes_per_s=_number(row["bytes_per_s"]) if "bytes_per_s" in row else None,
                most_bytes_per_s=_number(row["most_bytes_per_s"]) if "most_bytes_per_s" in row else None,
                source=str(row.get("source", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"link kind {name!r} cannot be read: {error}", hint="compare with links.toml"
            ) from None
    return found


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)
