"""The answer to how many workers to use, as data. Its sentence is made from it in one place, decide/sentence.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.core.estimate import Estimate
from paceline.records.profile import WorkerUnit
from paceline.records.study import Scaling

__all__ = ["Reason", "Verdict", "VerdictAnswer"]

VerdictAnswer = Literal["use", "stay", "undecided", "no_answer"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Something that a Verdict rests on or that limits it: an id for programs, a sentence for people, and a cure."""

    id: str
    text: str
    cure: str | None = None  # a sentence, where there is something to do about it


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many workers to use, what they gain, why, and what limits that answer.

    use         `workers` of them, more than the fewest measured
    stay        with `workers`, the fewest measured
    undecided   whether more than `workers` pay
    no_answer   the reasons say why

    gain and efficiency_ratio are those of `compared` workers against `baseline`; next_gain is per doubling, up
    to `next_workers` from a count at least 1.5 times smaller: there it stops paying or cannot be told to pay.
    """

    answer: VerdictAnswer
    workers: int | None = None
    baseline: int | None = None
    compared: int | None = None
    gain: Estimate | None = None
    efficiency_ratio: Estimate | None = None
    scaling: Scaling | None = None
    series: str = ""  # which one, where there are several
    points: tuple[str, ...] = ()  # ids of the Points of that Series
    next_workers: int | None = None
    next_gain: Estimate | None = None
    next_decided: bool = True
    should_pay: int | None = None  # the most workers that are predicted to pay, beyond those measured
    reasons: tuple[Reason, ...] = ()
    limits: tuple[Reason, ...] = ()
    unit: WorkerUnit = "worker"
