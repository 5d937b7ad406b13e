"""What may be chosen and what it takes: Options with time and cost, lines that a fit and its rivals draw, buckets sent,
and what a recipe's questions came to.

These are pieces of an Analysis; paceline.records offers them too.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.core.estimate import Estimate

__all__ = ["Answer", "BucketSent", "Decision", "FittedLine", "Option"]


@dataclass(frozen=True, slots=True)
class Option:
    """One setting that may be chosen for a piece of work: its time, its cost, and the resources that it occupies."""

    workers: int
    nodes: int
    per_worker_batch: int | None
    measured: bool  # its time was measured at this setting; else it is projected
    time_s: Estimate
    cost: Estimate
    worker_s: Estimate  # workers x time
    node_s: Estimate  # nodes x time
    pareto: bool  # no other is both faster and cheaper with probability over one half
    marginal_cost: (
        float | None
    )  # what an hour saved costs more, against the Option before; None: nothing is saved
    meets_deadline: bool | None = (
        None  # 9 times in 10; None: no deadline, or not the time of a whole training
    )
    within_budget: bool | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Time against cost: every Option for the same work, ascending in workers, and the limits that were given."""

    work: str  # what time and cost are of: one epoch, one training, a million samples
    cost_unit: str  # a currency, or worker-hours where no price was given
    complete: bool  # whether the work is a whole training
    options: tuple[Option, ...]
    deadline_s: float | None = None
    budget: float | None = None
    chosen: int | None = None  # workers of the Option that is recommended: the knee; None: not decided
    samples_per_epoch: int | None = None  # of the data set, where the work is one epoch of so many samples


@dataclass(frozen=True, slots=True)
class FittedLine:
    """What one method says of one line of Points: speed-up and efficiency at counts that were measured and beyond."""

    baseline: str  # id of the Point that the line's speed-up is relative to
    method: str  # paceline, or the name of a simpler curve fitted to the same points
    workers: tuple[int, ...]
    speedup: tuple[float, ...]
    efficiency_ratio: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A question of a recipe, and what its study says to it, a sentence a line."""

    question: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BucketSent:
    """One gradient bucket between readiness and arrival, seconds after the step began.

    Buckets leave in order, one after another: sent_s is no earlier than the buckets before it are ready, and done_s
    shares out the measured time of the exchange by size.
    """

    size_bytes: int
    ready_s: float
    sent_s: float
    done_s: float
    binds: bool  # from this bucket on the exchange never pauses: it decides when the step can end
