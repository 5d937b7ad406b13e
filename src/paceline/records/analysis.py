"""What is concluded: findings, thresholds, recommendations, and the Analysis that holds everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from paceline.core.estimate import Estimate
from paceline.core.words import capital
from paceline.records.accuracy import Convergence
from paceline.records.decision import Answer, Decision
from paceline.records.memory import LargestBatch, MemoryForecast
from paceline.records.probe import DeviceProbe, LinkProbe
from paceline.records.profile import Profile
from paceline.records.projection import Fit, Projection, Refusal
from paceline.records.state import State
from paceline.records.telemetry import Course
from paceline.records.verdict import Verdict

Level = Literal["note", "doubt", "void"]
_WORST_FIRST: tuple[Level, ...] = ("void", "doubt", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says: level note, doubt or void, its number and threshold, and what to do about it.

    `point` is the setting that it is about, None where it is about several or all. `command` is a line to copy, in
    which STUDY stands for the study; `hint` says in words what to do, or what the command is for.
    """

    id: str
    level: Level
    message: str
    value: float | None = None
    threshold: float | None = None
    hint: str | None = None
    point: str | None = None  # id of the Point
    command: str | None = None

    @property
    def text(self) -> str:
        """The message behind the setting that it is about."""
        return self.message if self.point is None else f"{self.point}: {self.message}"

    @property
    def sentence(self) -> str:
        """The same with a capital, unless it begins with the name of a setting."""
        return self.text if self.point is not None else capital(self.message)

    @property
    def following(self) -> str | None:
        """What to do, on one line: the command and what it is for, or words."""
        if self.command is None or self.hint is None:
            return self.command or self.hint
        return f"{self.command}  ({self.hint})"


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Void, then doubts, then notes; within a level as they come."""
    return tuple(sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.level)))


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One change, the gain to expect, what it costs, and the condition under which it holds."""

    goal: str
    workers: int | None
    per_worker_batch: int | None
    lr_rule: str | None
    gain: Estimate | None
    cost: Estimate | None
    condition: str
    text: str
    measured: bool = True  # at this setting; else it is predicted
    point: str | None = None  # id of the Point, where it is one that was trained
    why: str = ""  # sentences after the first
    series: str = ""  # whose advice it is, where a study has several

    @property
    def sentences(self) -> str:
        """All of it, without the last full stop."""
        whose = f"{self.series}: " if self.series else ""
        return f"{whose}{self.text}. {self.why}" if self.why else f"{whose}{self.text}"


@dataclass(frozen=True, slots=True)
class Line:
    """One question of a reader in a word or two, its answer, and how far the answer carries."""

    question: str
    answer: str
    standing: Literal["known", "doubtful", "unknown"] = "known"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A line that sound, worthwhile scaling keeps to: the sentence, what was seen, the line, whether it holds.

    holds is None where the interval of what was seen lies on both sides of the line.
    """

    id: str
    message: str
    value: float
    threshold: float
    holds: bool | None
    points: tuple[str, ...] = ()  # ids of the Points that it compares


@dataclass(frozen=True, slots=True)
class Failure:
    """A Trial that did not end ok, with the end of what it printed."""

    trial: str
    workers: int
    state: State
    reason: str | None
    wall_s: float
    log_tail: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything derived from a Study or a table. analysis.json is this record; the report adds nothing to it."""

    verdict: Verdict
    points: tuple[Profile, ...]
    findings: tuple[Finding, ...]
    brief: tuple[Line, ...] = ()  # what a reader asks first, a line each
    baseline: str | None = None  # id of the Point that the verdict's speed-up is relative to
    source: Mapping[str, object] = field(default_factory=dict)  # command, versions, host, devices: provenance
    fit: Fit | None = None
    projections: tuple[Projection, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    convergence: Convergence | None = None
    thresholds: tuple[Threshold, ...] = ()
    failures: tuple[Failure, ...] = ()
    decision: Decision | None = None
    links: tuple[LinkProbe, ...] = ()
    devices: tuple[DeviceProbe, ...] = ()
    courses: tuple[Course, ...] = ()
    memory: tuple[MemoryForecast, ...] = ()  # of settings that were not measured
    largest_batches: tuple[LargestBatch, ...] = ()  # where they were searched
    answers: tuple[Answer, ...] = ()  # to what the study's recipe asks
