"""What was not measured: a fitted law, what it projects, and what it refuses to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from paceline.core.estimate import Estimate
from paceline.records.decision import FittedLine
from paceline.records.study import Scaling

# sample: seconds per sample, where only a throughput is known
TimeKind = Literal["step", "epoch", "job", "sample"]


@dataclass(frozen=True, slots=True)
class Link:
    """One class of connection between workers: latency per hop and bandwidth, measured or declared, with source."""

    latency_s: float
    bytes_per_s: float
    name: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where to evaluate: workers, nodes, samples per worker and step (None: the one that was measured)."""

    workers: int
    nodes: int = 1
    per_worker_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """A cost model fitted to the Curve, and what the data cannot identify."""

    parameters: Mapping[str, Estimate]
    unidentified: tuple[str, ...]
    held_out_error: Mapping[str, float | None]  # method -> relative error at the largest measured count
    explanation: str = ""
    lines: tuple[FittedLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Projection:
    """A predicted Profile at a count that was not measured, with a 90% prediction interval."""

    workers: int
    nodes: int
    per_worker_batch: int | None
    time_s: Estimate
    time_kind: TimeKind
    step_s: Estimate | None
    throughput_per_s: Estimate | None
    speedup: Estimate | None
    efficiency_ratio: Estimate | None
    time_to_accuracy_s: Estimate | None
    explanation: str
    scaling: Scaling | None = None
    baseline: str | None = None  # id of the Point that its speed-up is relative to


@dataclass(frozen=True, slots=True)
class Refusal:
    """A count that we will not project to: the rule, why, and the measurement that would lift it with its price."""

    workers: int
    rule: str
    reason: str
    would_help: str
