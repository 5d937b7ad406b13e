"""What a probe measured: times of collectives between workers, rates of their devices, and what follows for the Links.

These are pieces of an Analysis; paceline.records offers them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.core.estimate import Estimate

__all__ = [
    "BesideTime",
    "DeviceProbe",
    "DeviceRate",
    "JitterProbe",
    "LinkClass",
    "LinkProbe",
    "Probe",
    "ProbeRow",
    "ProbeTime",
]

LinkClass = Literal["inside", "between"]  # a node, nodes


@dataclass(frozen=True, slots=True)
class ProbeTime:
    """One timing of one collective: the seconds of the slowest worker, for a collective ends when its last one does."""

    backend: str
    op: str  # all_reduce, all_gather, reduce_scatter
    workers: int
    nodes: int
    size_bytes: int  # of the whole buffer, as nccl-tests counts it
    repeat: int  # the pass over all sizes that it belongs to
    seconds: float
    cores_s: float | None = (
        None  # CPU seconds that it took on a node / cores of that node, on the busiest one
    )


@dataclass(frozen=True, slots=True)
class BesideTime:
    """One all-reduce while its workers wait for it, and one while they compute: the mean over workers."""

    backend: str
    workers: int
    nodes: int
    size_bytes: int
    repeat: int
    waiting_s: float
    computing_s: float


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One collective at one size over all passes: its time, and the bus bandwidth as nccl-tests defines it."""

    op: str
    workers: int
    nodes: int
    size_bytes: int
    seconds: Estimate
    bus_bytes_per_s: Estimate


@dataclass(frozen=True, slots=True)
class LinkProbe:
    """One class of Link as a probe measured it: latency per hop and bandwidth of a ring, beside the specification."""

    link: LinkClass
    backend: str
    workers: int  # the most that were probed
    nodes: int
    latency_s: Estimate  # per hop; holds the fixed cost of a call too where that cannot be told apart
    bytes_per_s: Estimate
    fixed_s: Estimate | None = None  # of one collective, whatever its size and workers
    unidentified: tuple[str, ...] = ()
    misfit_ratio: float | None = None  # how far the measured times lie from the law, as a typical ratio
    spec: str | None = None  # the kind of link that its specification speaks of, with source
    spec_bytes_per_s: float | None = None  # nominal, one direction
    source: str = ""
    rows: tuple[ProbeRow, ...] = ()
    cores_s_per_byte: float | None = None  # what a node's cores are busy for, all of them, to carry a byte
    busy_hop_s: Estimate | None = None  # by how much a hop takes longer while workers compute


@dataclass(frozen=True, slots=True)
class DeviceRate:
    """One rate of a device and what its data sheet promises (dense): operations of a product of matrices, or bytes."""

    quantity: (
        str  # float32, bfloat16, float16: operations per second; copy: bytes read and written per second
    )
    per_s: Estimate
    spec_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """What one worker's device did while the devices of all workers did the same."""

    worker: int
    device: str  # cpu, cuda
    name: str
    rates: tuple[DeviceRate, ...] = ()
    spec: str | None = None  # the data sheet, with its condition; None: this device has none here


@dataclass(frozen=True, slots=True)
class JitterProbe:
    """The seconds of equal pieces of work on every worker, while all compute and none exchanges."""

    workers: int
    nodes: int
    pieces_s: tuple[tuple[float, ...], ...]
    burst: int | None = None  # so many pieces in a row, then all wait for all; None: all in a row


@dataclass(frozen=True, slots=True)
class Probe:
    """All that one probe says: times, devices, and what it could not measure, in sentences."""

    times: tuple[ProbeTime, ...]
    devices: tuple[DeviceProbe, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = "paceline probe"
    specs: tuple[tuple[LinkClass, str], ...] = ()  # what the user said of the links: class, kind or rate
    interface_bytes_per_s: float | None = None  # what the network interface in use says of itself
    jitter: JitterProbe | None = None
    beside: tuple[BesideTime, ...] = ()
