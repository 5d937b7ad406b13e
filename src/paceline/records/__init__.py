"""The nouns of the desk: frozen data, units in the names, unknown is None.

The words are those of docs/reference/glossary.md. No behaviour lives here beyond what follows from a record's own
fields, and nothing that reads, computes or prints.
"""

from paceline.core.estimate import Estimate
from paceline.records.accuracy import AccuracyCurve, Comparison, Convergence, Goal, GradientNorm, Mark
from paceline.records.allocation import Allocation
from paceline.records.analysis import (
    Analysis,
    Failure,
    Finding,
    Level,
    Line,
    Recommendation,
    Threshold,
    worst_first,
)
from paceline.records.decision import Answer, BucketSent, Decision, FittedLine, Option
from paceline.records.memory import Fits, LargestBatch, MemoryForecast, MemoryUse, ShapeCount, TensorPeak
from paceline.records.probe import (
    BesideTime,
    DeviceProbe,
    DeviceRate,
    JitterProbe,
    LinkClass,
    LinkProbe,
    Probe,
    ProbeRow,
    ProbeTime,
)
from paceline.records.profile import Profile, Split, WorkerUnit
from paceline.records.projection import Fit, Link, Projection, Refusal, Setting, TimeKind
from paceline.records.sample import BucketReady, Sample, TrialResult, WorkerRecord
from paceline.records.series import Series, series_names
from paceline.records.standing import Pending, Standing, StandingGroup
from paceline.records.state import STATES, State
from paceline.records.step_graph import MESSAGES, Communication, Exchange
from paceline.records.study import Plan, Point, Scaling, Start, Study, TargetKind, Trial, Workload
from paceline.records.telemetry import Course, Telemetry
from paceline.records.verdict import Reason, Verdict, VerdictAnswer

__all__ = [
    "MESSAGES",
    "STATES",
    "AccuracyCurve",
    "Allocation",
    "Analysis",
    "Answer",
    "BesideTime",
    "BucketReady",
    "BucketSent",
    "Communication",
    "Comparison",
    "Convergence",
    "Course",
    "Decision",
    "DeviceProbe",
    "DeviceRate",
    "Estimate",
    "Exchange",
    "Failure",
    "Finding",
    "Fit",
    "Fits",
    "FittedLine",
    "Goal",
    "GradientNorm",
    "JitterProbe",
    "LargestBatch",
    "Level",
    "Line",
    "Link",
    "LinkClass",
    "LinkProbe",
    "Mark",
    "MemoryForecast",
    "MemoryUse",
    "Option",
    "Pending",
    "Plan",
    "Point",
    "Probe",
    "ProbeRow",
    "ProbeTime",
    "Profile",
    "Projection",
    "Reason",
    "Recommendation",
    "Refusal",
    "Sample",
    "Scaling",
    "Series",
    "Setting",
    "ShapeCount",
    "Split",
    "Standing",
    "StandingGroup",
    "Start",
    "State",
    "Study",
    "TargetKind",
    "Telemetry",
    "TensorPeak",
    "Threshold",
    "TimeKind",
    "Trial",
    "TrialResult",
    "Verdict",
    "VerdictAnswer",
    "WorkerRecord",
    "WorkerUnit",
    "Workload",
    "series_names",
    "worst_first",
]
