"""Whatever an analysis holds, it is rendered: no value, however odd, costs anybody the report."""

import json
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.records import (
    STATES,
    AccuracyCurve,
    Analysis,
    BucketReady,
    BucketSent,
    Comparison,
    Convergence,
    Course,
    Decision,
    DeviceProbe,
    DeviceRate,
    Estimate,
    Failure,
    Finding,
    Fit,
    FittedLine,
    LinkProbe,
    Option,
    Point,
    ProbeRow,
    Profile,
    Projection,
    Reason,
    Recommendation,
    Refusal,
    Threshold,
    Verdict,
)
from paceline.report.charts import draw
from paceline.report.charts.tidy import tidy_csv
from paceline.report.handin.lab_text import lab_latex, lab_markdown
from paceline.report.handin.latex import latex_report
from paceline.report.handin.markdown import markdown_report
from paceline.report.handin.text import text_report
from paceline.report.page import page
from paceline.report.sections import sections
from tests.support.report_sample import WEAK, told

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
    own_s_by_worker=st.lists(numbers, max_size=3).map(tuple),
    timeline=st.lists(
        st.builds(BucketSent, st.integers(0, 10**9), numbers, numbers, numbers, st.booleans()), max_size=3
    ).map(tuple),
)


def some(strategy):
    return st.lists(strategy, max_size=3).map(tuple)


triple = st.tuples(numbers, numbers, numbers)
lines = st.builds(
    FittedLine, texts, texts, st.tuples(counts, counts, counts), speedup=triple, efficiency_ratio=triple
)
options = st.builds(
    Option, counts, st.integers(1, 9), st.none() | counts, st.booleans(), estimates, estimates, estimates, estimates,
    st.booleans(), st.none() | numbers, st.none() | st.booleans(), st.none() | st.booleans(),
)  # fmt: skip
decisions = st.builds(
    Decision,
    texts,
    texts,
    st.booleans(),
    some(options),
    st.none() | numbers,
    st.none() | numbers,
    st.none() | counts,
)
curves = st.builds(
    AccuracyCurve, texts, texts, st.integers(0, 3), st.sampled_from(STATES), triple, triple,
    st.tuples(st.just(float("nan")) | numbers, numbers, numbers), st.none() | numbers, st.none() | numbers,
)  # fmt: skip
comparisons = st.builds(
    Comparison, texts, counts, st.none() | counts, st.none() | counts, maybe_text, st.none() | numbers, some(texts),
    st.integers(1, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), maybe, maybe, st.none() | numbers,
    maybe, maybe, st.booleans(), st.none() | numbers, maybe, st.sampled_from([None, "survives", "worse"]), maybe,
)  # fmt: skip
trained = st.builds(
    Convergence, maybe, st.booleans(), maybe, maybe, maybe_text, st.booleans(), st.none() | numbers,
    st.none() | counts, some(curves), some(comparisons),
)  # fmt: skip
links = st.builds(
    LinkProbe, st.sampled_from(["inside", "between"]), texts, counts, st.integers(1, 9), estimates, estimates,
    spec=maybe_text, spec_bytes_per_s=st.none() | numbers,
    rows=some(st.builds(ProbeRow, st.just("all_reduce"), counts, counts, st.integers(0, 10**9), estimates, estimates)),
)  # fmt: skip
devices = st.builds(
    DeviceProbe,
    counts,
    texts,
    texts,
    some(st.builds(DeviceRate, texts, estimates, st.none() | numbers)),
    maybe_text,
)
used = st.builds(
    Course, texts, texts, st.integers(0, 9), triple, triple, st.tuples(counts, counts, counts),
    st.tuples(st.none() | numbers, st.none() | numbers), st.tuples(st.none() | counts),
)  # fmt: skip
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
    st.sampled_from([None, "weak", "strong"]),
    maybe_text,
)
analyses = st.builds(
    Analysis,
    verdict=st.builds(
        Verdict,
        st.sampled_from(["use", "stay", "undecided", "no_answer"]),
        counts,
        counts,
        counts,
        maybe,
        maybe,
        st.sampled_from([None, "weak", "strong"]),
        texts,
        reasons=st.lists(st.builds(Reason, texts, texts), min_size=1, max_size=2).map(tuple),
        limits=st.lists(st.builds(Reason, texts, texts), max_size=2).map(tuple),
    ),
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
        told("a speed-up is known and no efficiency"),
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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some(lines), st.none() | trained, st.none() | decisions, some(links), some(devices), some(used))
def test_any_decision_training_probe_and_course_is_rendered_and_read_back(
    drawn, convergence, decision, probed, rates, courses
):
    named = tuple(replace(line, baseline="w1-b64") for line in drawn)
    analysis = Analysis(
        told("v"), WEAK, (), fit=Fit({}, (), {}, "", named), convergence=convergence, decision=decision, links=probed,
        devices=rates, courses=courses,
    )  # fmt: skip
    for section in sections(analysis):
        for figure in section.figures:
            json.dumps(figure.spec, allow_nan=False)
    assert text_report(analysis).isascii()
    assert lab_markdown(analysis, figures=None).startswith("# ")
    assert lab_latex(analysis, figures=None).endswith("\\end{document}\n")
    assert latex_report(analysis, figures="f").startswith("%")
    assert tidy_csv([("s", analysis)]).startswith("study,")
    written = json.dumps(analysis_data(analysis), allow_nan=False)
    assert json.dumps(analysis_data(analysis_from(json.loads(written)))) == written


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
