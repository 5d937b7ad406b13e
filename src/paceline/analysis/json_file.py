"""An Analysis as plain JSON data, and back. analysis.json and `--json` are exactly this.

points[]       the Point flattened (id, workers, nodes, …), then every quantity as {value, low, high, n}
unknown        is null; a number that is not finite is unknown, so no NaN and no Infinity is ever written
round trip     analysis_from(analysis_data(a)) == a
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast, get_args

from paceline.core.errors import StudyError
from paceline.core.json_data import plain_data, record_from
from paceline.decide.sentence import verdict_text
from paceline.records import (
    Analysis,
    Answer,
    BucketReady,
    BucketSent,
    Convergence,
    Course,
    Decision,
    DeviceProbe,
    Estimate,
    Failure,
    Finding,
    Fit,
    FittedLine,
    LargestBatch,
    Line,
    LinkProbe,
    MemoryForecast,
    MemoryUse,
    Point,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    Scaling,
    State,
    Threshold,
    Verdict,
)

__all__ = ["ANALYSIS_FORMAT", "analysis_data", "analysis_from", "estimate_data"]

ANALYSIS_FORMAT = 2

_POINT = ("id", "workers", "nodes", "per_worker_batch", "global_batch", "scaling", "backend")
_QUANTITIES = tuple(f.name for f in fields(Profile) if f.type == "Estimate | None")
_PROJECTED = ("time_s", "step_s", "throughput_per_s", "speedup", "efficiency_ratio", "time_to_accuracy_s")

Data = Mapping[str, object]


def analysis_data(analysis: Analysis) -> dict[str, object]:
    """The Analysis as dicts, lists, strings and finite numbers, in the documented order."""
    return {
        "format": ANALYSIS_FORMAT,
        "verdict": _verdict_data(analysis.verdict),
        "brief": plain_data(analysis.brief),
        "baseline": analysis.baseline,
        "points": [_profile_data(profile) for profile in analysis.points],
        "findings": [_plain(finding) for finding in analysis.findings],
        "fit": None if analysis.fit is None else _fit_data(analysis.fit),
        "projections": [_plain(projection) for projection in analysis.projections],
        "refusals": [_plain(refusal) for refusal in analysis.refusals],
        "recommendations": [_plain(recommendation) for recommendation in analysis.recommendations],
        "convergence": plain_data(analysis.convergence),
        "thresholds": [_plain(threshold) for threshold in analysis.thresholds],
        "failures": [_plain(failure) for failure in analysis.failures],
        "decision": plain_data(analysis.decision),
        "links": plain_data(analysis.links),
        "devices": plain_data(analysis.devices),
        "courses": plain_data(analysis.courses),
        "memory": plain_data(analysis.memory),
        "largest_batches": plain_data(analysis.largest_batches),
        "answers": plain_data(analysis.answers),
        "source": _finite(analysis.source),
    }


def analysis_from(data: Data) -> Analysis:
    """The Analysis that `analysis_data` wrote; refuses a format it does not know."""
    if data.get("format", ANALYSIS_FORMAT) != ANALYSIS_FORMAT:
        raise StudyError(
            f"analysis.json has format {data.get('format')!r}, this Paceline reads {ANALYSIS_FORMAT}",
            hint="delete analysis.json: it is rebuilt from the runs",
        )
    try:
        return _analysis(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StudyError(
            f"analysis.json cannot be read: {type(error).__name__} {error}",
            hint="delete analysis.json: it is rebuilt from the runs",
        ) from None


def estimate_data(quantity: Estimate | None) -> dict[str, object] | None:
    """{value, low, high, n}, or None where the quantity is unknown."""
    if quantity is None or not math.isfinite(quantity.value):
        return None
    return {
        "value": quantity.value,
        "low": _finite(quantity.low),
        "high": _finite(quantity.high),
        "n": quantity.n,
    }


def _profile_data(profile: Profile) -> dict[str, object]:
    point = profile.point
    data: dict[str, object] = {name: getattr(point, name) for name in _POINT}
    data |= {"state": profile.state, "reason": profile.reason, "trials": profile.trials, "unit": profile.unit}
    data |= {name: estimate_data(getattr(profile, name)) for name in _QUANTITIES}
    data |= {
        "epochs": _finite(profile.epochs),
        "varied": dict(point.varied),
        "variant": point.variant,
        "buckets": [[bucket.size_bytes, bucket.ready_s] for bucket in profile.buckets],
        "backward_end_s": _finite(profile.backward_end_s),
        "bucket_cap_bytes": _finite(profile.bucket_cap_bytes),
        "own_s_by_worker": _finite(profile.own_s_by_worker),
        "timeline": plain_data(profile.timeline),
        "strategy": profile.strategy,
        "replicas": profile.replicas,
        "memory": plain_data(profile.memory),
    }
    return data


def _verdict_data(verdict: Verdict) -> dict[str, object]:
    """The record, and its sentence for those who only read."""
    return {"text": verdict_text(verdict), **cast(dict[str, object], plain_data(verdict))}


def _fit_data(fit: Fit) -> dict[str, object]:
    return {
        "parameters": {name: estimate_data(value) for name, value in fit.parameters.items()},
        "unidentified": list(fit.unidentified),
        "held_out_error": _finite(fit.held_out_error),
        "explanation": fit.explanation,
        "lines": plain_data(fit.lines),
    }


def _plain(
    record: Finding | Projection | Refusal | Recommendation | Threshold | Failure,
) -> dict[str, object]:
    """A flat record, its Estimates written out, in the order of its fields."""
    data: dict[str, object] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        data[field.name] = estimate_data(value) if isinstance(value, Estimate) else _finite(value)
    return data


def _finite(value: object) -> object:
    """The same data with tuples as lists and numbers that are not finite as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# ---------------------------------------------------------------- and back


def _analysis(data: Data) -> Analysis:
    fit, convergence, decision = data.get("fit"), data.get("convergence"), data.get("decision")
    baseline = data.get("baseline")
    return Analysis(
        verdict=record_from(Verdict, data["verdict"]),
        brief=tuple(record_from(Line, item) for item in _items(data.get("brief"))),
        points=tuple(_profile(item) for item in _items(data["points"])),
        findings=tuple(record_from(Finding, item) for item in _items(data["findings"])),
        baseline=None if baseline is None else str(baseline),
        source=cast(Mapping[str, object], data.get("source") or {}),
        fit=None if fit is None else _fit(cast(Data, fit)),
        projections=tuple(record_from(Projection, item) for item in _items(data.get("projections"))),
        refusals=tuple(record_from(Refusal, item) for item in _items(data.get("refusals"))),
        recommendations=tuple(
            record_from(Recommendation, item) for item in _items(data.get("recommendations"))
        ),
        convergence=None if convergence is None else record_from(Convergence, convergence),
        thresholds=tuple(record_from(Threshold, item) for item in _items(data.get("thresholds"))),
        failures=tuple(record_from(Failure, item) for item in _items(data.get("failures"))),
        decision=None if decision is None else record_from(Decision, decision),
        links=tuple(record_from(LinkProbe, item) for item in _items(data.get("links"))),
        devices=tuple(record_from(DeviceProbe, item) for item in _items(data.get("devices"))),
        courses=tuple(record_from(Course, item) for item in _items(data.get("courses"))),
        memory=tuple(record_from(MemoryForecast, item) for item in _items(data.get("memory"))),
        largest_batches=tuple(
            record_from(LargestBatch, item) for item in _items(data.get("largest_batches"))
        ),
        answers=tuple(record_from(Answer, item) for item in _items(data.get("answers"))),
    )


def _profile(data: Data) -> Profile:
    varied = cast(Mapping[str, str], data.get("varied") or {})
    point = Point(
        id=str(data["id"]),
        workers=_int(data["workers"]),
        nodes=_int(data["nodes"]),
        per_worker_batch=_int_or_none(data.get("per_worker_batch")),
        global_batch=_int_or_none(data.get("global_batch")),
        scaling=_scaling(data.get("scaling", "weak")),
        backend=_text_or_none(data.get("backend")),
        varied=tuple((str(key), str(value)) for key, value in varied.items()),
        variant=str(data.get("variant", "as_is")),
    )
    if data["state"] not in get_args(State):
        raise ValueError(f"state {data['state']!r}")
    buckets = cast(Sequence[Sequence[float]], data.get("buckets") or ())
    quantities: Any = {name: _estimate(data.get(name)) for name in _QUANTITIES}
    return Profile(
        point=point,
        state=cast(State, data["state"]),
        reason=_text_or_none(data.get("reason")),
        trials=_int(data.get("trials", 0)),
        unit="GPU" if data.get("unit") == "GPU" else "worker",
        epochs=_float_or_none(data.get("epochs")),
        buckets=tuple(BucketReady(int(size), float(ready)) for size, ready in buckets),
        backward_end_s=_float_or_none(data.get("backward_end_s")),
        bucket_cap_bytes=_float_or_none(data.get("bucket_cap_bytes")),
        own_s_by_worker=tuple(_float(own) for own in _items(data.get("own_s_by_worker"))),
        timeline=tuple(record_from(BucketSent, item) for item in _items(data.get("timeline"))),
        strategy=_text_or_none(data.get("strategy")),
        replicas=_int_or_none(data.get("replicas")),
        memory=None if data.get("memory") is None else record_from(MemoryUse, data["memory"]),
        **quantities,
    )


def _fit(data: Data) -> Fit:
    parameters = {
        name: quantity
        for name, item in cast(Data, data["parameters"]).items()
        if (quantity := _estimate(item)) is not None
    }
    errors = cast(Data, data["held_out_error"])
    return Fit(
        parameters=parameters,
        unidentified=tuple(str(name) for name in cast(Sequence[object], data["unidentified"])),
        held_out_error={name: _float_or_none(error) for name, error in errors.items()},
        explanation=str(data.get("explanation", "")),
        lines=tuple(record_from(FittedLine, item) for item in _items(data.get("lines"))),
    )


def _scaling(value: object) -> Scaling:
    if value not in get_args(Scaling):
        raise ValueError(f"scaling {value!r}")
    return cast(Scaling, value)


def _estimate(value: object) -> Estimate | None:
    if value is None:
        return None
    data = cast(Data, value)
    return Estimate(
        _float(data["value"]),
        _float_or_none(data.get("low")),
        _float_or_none(data.get("high")),
        _int(data.get("n", 1)),
    )


def _items(value: object) -> Sequence[Data]:
    return cast(Sequence[Data], value or ())


def _int(value: object) -> int:
    return int(cast(int, value))


def _int_or_none(value: object) -> int | None:
    return None if value is None else _int(value)


def _float(value: object) -> float:
    return float(cast(float, value))


def _float_or_none(value: object) -> float | None:
    return None if value is None else _float(value)


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
