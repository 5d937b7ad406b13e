"""analysis.json as a schema, for those who read it with other tools. Built from the records, so that it follows them.

History of the format: 1 first format · 2 verdict is a record with its sentence in `text`, findings and
recommendations name their point, and `brief` holds what a reader asks first.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from paceline.records import (
    Answer,
    BucketSent,
    Convergence,
    Course,
    Decision,
    DeviceProbe,
    Estimate,
    Failure,
    Finding,
    FittedLine,
    LargestBatch,
    Line,
    LinkProbe,
    MemoryForecast,
    Point,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    Threshold,
    Verdict,
)

__all__ = ["AnalysisFile"]

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


class EstimateTable(BaseModel):
    """A number, its 90% interval (null where one observation cannot give one), and how many stand behind it."""

    model_config = _STRICT

    value: float
    low: float | None
    high: float | None
    n: int


class FitTable(BaseModel):
    """A cost model fitted to the points, and what the data cannot identify."""

    model_config = _STRICT

    parameters: dict[str, EstimateTable | None]
    unidentified: list[str]
    held_out_error: dict[str, float | None]
    explanation: str
    lines: list[FittedLine]


def _table(record: type, *, without: tuple[str, ...] = (), **extra: Any) -> type[BaseModel]:
    """The schema of a flat record: its fields, an Estimate as {value, low, high, n}, each always present."""
    hints = get_type_hints(record)
    columns: dict[str, Any] = {}
    for field in fields(record):
        if field.name not in without:
            hint = hints[field.name]
            if hint == Estimate | None:
                hint = EstimateTable | None
            columns[field.name] = (EstimateTable if hint is Estimate else hint, ...)
    columns |= {name: (hint, ...) for name, hint in extra.items()}
    return create_model(record.__name__, __config__=_STRICT, __doc__=record.__doc__, **columns)


_POINT = {name: hint for name, hint in get_type_hints(Point).items() if name != "varied"}
PointTable = _table(
    Profile,
    without=("point", "buckets", "timeline"),
    **_POINT,
    varied=dict[str, str],
    buckets=list[tuple[int, float]],
    timeline=list[BucketSent],
)
FindingTable = _table(Finding)
VerdictTable = _table(Verdict, text=str)
ProjectionTable = _table(Projection)
RefusalTable = _table(Refusal)
RecommendationTable = _table(Recommendation)
ThresholdTable = _table(Threshold)
FailureTable = _table(Failure)

AnalysisFile = create_model(
    "Analysis",
    __config__=_STRICT,
    __doc__="Everything derived from a study or a table. Unknown is null.",
    format=(int, ...),
    verdict=(VerdictTable, ...),
    brief=(list[Line], ...),
    baseline=(str | None, ...),
    points=(list[PointTable], ...),  # type: ignore[valid-type]
    findings=(list[FindingTable], ...),  # type: ignore[valid-type]
    fit=(FitTable | None, ...),
    projections=(list[ProjectionTable], ...),  # type: ignore[valid-type]
    refusals=(list[RefusalTable], ...),  # type: ignore[valid-type]
    recommendations=(list[RecommendationTable], ...),  # type: ignore[valid-type]
    convergence=(Convergence | None, ...),
    thresholds=(list[ThresholdTable], ...),  # type: ignore[valid-type]
    failures=(list[FailureTable], ...),  # type: ignore[valid-type]
    decision=(Decision | None, ...),
    links=(list[LinkProbe], ...),
    devices=(list[DeviceProbe], ...),
    courses=(list[Course], ...),
    memory=(list[MemoryForecast], ...),
    largest_batches=(list[LargestBatch], ...),
    answers=(list[Answer], ...),
    source=(dict[str, object], ...),
)
