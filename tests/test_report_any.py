"""Whatever an analysis holds, it is rendered: no value, however odd, costs anybody the report."""

import json
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paceline.records import (
    STATES,
    Analysis,
    BucketReady,
    Convergence,
    Estimate,
    Failure,
    Finding,
    Fit,
    Point,
    Profile,
    Projection,
    Recommendation,
    Refusal,
    Threshold,
)
from paceline.report import draw
from paceline.report.latex import latex_report
from paceline.report.markdown import markdown_report
from paceline.report.page import page
from paceline.report.sections import sections
from paceline.report.text import text_report
from paceline.report.tidy import tidy_csv

QUANTITIES = [field.name for field in fields(Profile) if field.type == "Estimate | None"]
FARTHEST = 1e30  # beyond anything that is counted in seconds, bytes or samples

numbers = st.one_of(
    st.sampled_from([0.0, -1.0, 1e-300, 1e-9, 0.5, 1.0, 3.0, 1e9, FARTHEST]), st.floats(-FARTHEST, FARTHEST)
)
texts = st.text(max_size=8)
maybe_text = st.none() | texts
counts = st.integers(1, 5000)
estimates = st.builds(Estimate, numbers, st.none() | numbers, st.none() | numbers, st.integers(1, 9))
maybe = st.none() | estimates
points = st.builds(
    Point,
    id=texts,
    workers=counts,
    nodes=st.integers(1, 9),
    per_worker_batch=st.none() | counts,
    global_batch=st.none() | counts,
    scaling=st.sampled_from(["weak", "strong"]),
    backend=maybe_text,
    varied=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
)
profiles = st.builds(
    Profile,
    point=points,
    state=st.sampled_from(STATES),
    reason=maybe_text,
    trials=st.integers(0, 9),
    **dict.fromkeys(QUANTITIES, maybe),
    buckets=st.lists(st.builds(BucketReady, st.integers(0, 10**9), numbers), max_size=3).map(tuple),
    backward_end_s=st.none() | numbers,
)
projections = st.builds(
    Projection,
    counts,
    st.integers(1, 9),
    st.none() | counts,
    estimates,
    st.sampled_from(["step", "epoch", "job", "sample"]),
    maybe,
    maybe,
    maybe,
    maybe,
    maybe,
    texts,
)
analyses = st.builds(
    Analysis,
    verdict=texts,
    points=st.lists(profiles, max_size=6).map(tuple),
    findings=st.lists(
        st.builds(
            Finding,
            texts,
            st.sampled_from(["note", "doubt", "void"]),
            texts,
            st.none() | numbers,
            st.none() | numbers,
            maybe_text,
        ),
        max_size=2,
    ).map(tuple),
    baseline=maybe_text,
    source=st.dictionaries(texts, st.none() | texts | st.lists(texts, max_size=2), max_size=3),
    fit=st.none()
    | st.builds(
        Fit,
        st.dictionaries(texts, estimates, max_size=2),
        st.lists(texts, max_size=2).map(tuple),
        st.dictionaries(texts, st.none() | numbers, max_size=2),
        texts,
    ),
    projections=st.lists(projections, max_size=3).map(tuple),
    refusals=st.lists(st.builds(Refusal, counts, texts, texts, texts), max_size=2).map(tuple),
    recommendations=st.lists(
        st.builds(
            Recommendation,
            texts,
            st.none() | counts,
            st.none() | counts,
            maybe_text,
            maybe,
            maybe,
            texts,
            texts,
        ),
        max_size=2,
    ).map(tuple),
    convergence=st.none() | st.builds(Convergence, maybe, st.booleans(), maybe, maybe),
    thresholds=st.lists(st.builds(Threshold, texts, texts, numbers, numbers, st.booleans()), max_size=2).map(
        tuple
    ),
    failures=st.lists(
        st.builds(Failure, texts, counts, st.sampled_from(STATES), maybe_text, numbers, texts), max_size=2
    ).map(tuple),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(analyses)
@example(
    Analysis(
        "a speed-up is known and no efficiency",
        (
            Profile(Point("one", 1), "ok", None, speedup=Estimate(1.0)),
            Profile(Point("two", 2), "ok", None, speedup=Estimate(1.7)),
        ),
        (),
    )
)
def test_any_analysis_has_sections_whose_charts_are_finite_data(analysis):
    for section in sections(analysis):
        for figure in section.figures:
            json.dumps(figure.spec, allow_nan=False)
        for table in section.tables:
            assert all(len(row) == len(table.columns) for row in table.rows)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(analyses)
def test_any_analysis_has_every_form(analysis):
    assert text_report(analysis).isascii()
    assert markdown_report(analysis).startswith("# ")
    assert latex_report(analysis, figures="f").startswith("%")
    assert tidy_csv([("s", analysis)]).startswith("study,")


@pytest.mark.skipif(not draw.can_draw(), reason="vl-convert is not installed: pip install 'paceline[report]'")
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(analyses, analyses)
def test_any_analyses_have_a_page(one, other):
    assert page([("", one)]).endswith("</html>")
    assert page([("a", one), ("a", other)]).endswith("</html>")
