"""One quantity, one number: sentence, cards, thresholds, advice, table, chart and projection of one Analysis agree.

Over studies made by hypothesis: up to four counts, launches that differ by up to 20%, steps that scale well, badly,
backwards, or better than they can. And over every example table.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask
from paceline.analysis.study import study_analysis
from paceline.analysis.table import table_analysis
from paceline.cli.text.answer import analysis_text
from paceline.core.units import estimate_text, is_unusable, range_text
from paceline.decide.sentence import verdict_text
from paceline.measure.comparable import SUPERLINEAR_RATIO
from paceline.measure.doubling import doublings
from paceline.records import Analysis, Estimate, Link, Point, Profile
from paceline.report.handin.lab_text import lab_markdown
from paceline.report.handin.latex import latex_report
from paceline.report.handin.markdown import markdown_report
from paceline.report.handin.text import text_report
from paceline.table.read import read_table
from tests.measure.test_profiles import points, study
from tests.support.samples import steady

COUNTS = (1, 2, 4, 8)
TABLES = sorted((Path(__file__).parents[2] / "src" / "paceline" / "data" / "labs").glob("*.csv"))


@st.composite
def analyses(draw) -> Analysis:
    """Weak scaling at 1 to 4 counts, 1 to 4 launches each: seconds of a step per count, and how launches differ."""
    counts = COUNTS[: draw(st.integers(1, 4))]
    asked = study(workers=counts)
    at = points(asked)
    luck = st.floats(1.0, draw(st.sampled_from((1.0, 1.002, 1.02, 1.2))))
    results = [
        steady(n, step_s * draw(luck), point=at[n], repeat=repeat, wait_s=wait * step_s if n > 1 else 0.0)
        for n in counts
        for step_s, wait in [(draw(st.floats(0.04, 0.4)), draw(st.sampled_from((0.0, 0.02, 0.3))))]
        for repeat in range(1, draw(st.integers(1, 4)) + 1)
    ]
    return study_analysis(asked, results, {})


@given(analyses())
@settings(max_examples=40)
def test_sentence_cards_and_thresholds_give_one_answer(analysis):
    verdict = analysis.verdict
    gains = [line for line in analysis.thresholds if line.id == "gain-per-doubling"]
    steps = doublings(analysis.points)
    assert len(gains) == len(steps)
    if verdict.compared is None:
        return
    paid = [
        line for line, step in zip(gains, steps, strict=True) if step.after.point.workers <= verdict.workers
    ]
    assert all(line.holds for line in paid)
    assert (verdict.answer == "use") == bool(paid)
    following = gains[len(paid)] if len(paid) < len(gains) else None
    assert (following is None) == (verdict.next_gain is None)
    card = analysis.brief[0]
    assert card.answer.startswith(f"{verdict.workers}")
    if following is not None:
        assert following.value == verdict.next_gain.value
        assert following.holds is (False if verdict.next_decided else None)
        said = range_text(verdict.next_gain, unit="x")
        assert said in following.message
        assert said in card.answer


@given(analyses())
@settings(max_examples=40)
def test_the_speed_up_of_the_sentence_is_that_of_the_table(analysis):
    verdict = analysis.verdict
    if verdict.compared is None:
        return
    (row,) = [p for p in analysis.points if p.point.workers == verdict.compared]
    assert (verdict.gain, verdict.efficiency_ratio) == (row.speedup, row.efficiency_ratio)
    assert analysis.baseline == next(
        p.point.id for p in analysis.points if p.point.workers == verdict.baseline
    )
    assert row.efficiency_ratio.value <= SUPERLINEAR_RATIO or "over-100" in {r.id for r in verdict.limits}


@given(analyses())
@settings(max_examples=40)
def test_what_cannot_be_is_never_advice(analysis):
    """More than 105% efficient and not by noise: no answer, and both settings are named.

    Where a setting ran once nothing tells its noise: a Baseline that was slow by 5% is luck, more is not."""
    beyond = [
        p
        for p in analysis.points
        if (e := p.efficiency_ratio)
        and (
            e.value > SUPERLINEAR_RATIO * 1.051
            if e.low is None
            else e.value > SUPERLINEAR_RATIO and e.low > 1.0
        )
    ]
    if beyond:
        assert analysis.verdict.answer == "no_answer"
        assert analysis.verdict.reasons[0].id == "super-linear"
        text = verdict_text(analysis.verdict)
        assert beyond[-1].point.id in text
        assert analysis.points[0].point.id in text


def one_number(analysis: Analysis) -> None:
    """Every projected setting has one time and one speed-up, wherever it is said."""
    told = {(p.workers, p.nodes, p.per_worker_batch): p for p in analysis.projections}
    lines = [line for line in (analysis.fit.lines if analysis.fit else ()) if line.method == "paceline"]
    for line in lines:
        at = dict(zip(line.workers, line.speedup, strict=True))
        for ahead in analysis.projections:
            if ahead.baseline == line.baseline and ahead.speedup and ahead.workers in at:
                assert at[ahead.workers] == pytest.approx(ahead.speedup.value, rel=1e-6)
    for option in analysis.decision.options if analysis.decision else ():
        ahead = told.get((option.workers, option.nodes, option.per_worker_batch))
        if option.measured or ahead is None:
            continue
        said = ahead.time_to_accuracy_s or ahead.time_s
        scale = option.time_s.value / said.value
        assert option.time_s.low == pytest.approx(scale * said.low, rel=1e-6)
        assert option.time_s.high == pytest.approx(scale * said.high, rel=1e-6)


@given(analyses())
@settings(max_examples=15)
def test_what_is_projected_has_one_number_in_a_study(analysis):
    one_number(analysis)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_what_is_projected_has_one_number_in_every_example(path):
    one_number(of_table(path))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_our_fit_begins_where_the_measured_baseline_is(path):
    """One training was run once here, and runs differ by up to a tenth: no fit goes through every point."""
    analysis = of_table(path)
    own = {p.point.id: p for p in analysis.points}
    for line in analysis.fit.lines if analysis.fit else ():
        first = own[line.baseline].speedup
        if line.method == "paceline":
            assert line.speedup[0] == pytest.approx(first.value if first else 1.0, rel=0.1)


def of_table(path: Path) -> Analysis:
    return table_analysis(read_table(path.read_text(encoding="utf-8")), ask=Ask())


@pytest.mark.parametrize("links", [{}, {"inside": Link(1e-5, 2e8)}], ids=["fitted", "declared"])
def test_the_held_out_error_is_that_of_the_law_in_use(links):
    """What is printed of the law is what asking it to predict the largest count gives, links and all."""
    seen = [
        Profile(
            Point(f"w{n}", n, 1, 32, 32 * n),
            "ok",
            None,
            step_s=Estimate(step_s, step_s * 0.99, step_s * 1.01, 3),
            exchanged_bytes_per_step=Estimate(1e7),
        )
        for n, step_s in ((1, 0.1), (2, 0.15), (4, 0.22))
    ]
    printed = outlook(seen, links=links).fit.held_out_error["paceline"]
    asked = outlook(seen, links=links, ask=Ask(fit_up_to=2, project_to=(4,)))
    (ahead,) = asked.projections
    assert printed == pytest.approx(abs(ahead.time_s.value / 0.22 - 1.0), abs=0.01)


def test_an_interval_wider_than_half_its_value_is_printed_nowhere(tmp_path):
    """Runs of 2 workers differ twofold: no speed-up, no efficiency, no gain is a number anywhere."""
    asked = study()
    at = points(asked)
    times = {1: (0.1, 0.1, 0.1), 2: (0.07, 0.13, 0.26)}
    analysis = study_analysis(
        asked,
        [steady(n, s, point=at[n], repeat=r) for n, own in times.items() for r, s in enumerate(own, 1)],
        {},
    )
    (row,) = [p for p in analysis.points if p.point.workers == 2]
    assert is_unusable(row.speedup)
    forms = [analysis_text(analysis, folder=tmp_path), text_report(analysis), markdown_report(analysis)]
    for text in (*forms, latex_report(analysis, figures=None), lab_markdown(analysis, figures=None)):
        assert "unusable" in text or "runs differ too much" in text
        for ratio in (row.speedup, row.efficiency_ratio, analysis.verdict.next_gain):
            assert estimate_text(ratio) not in text
            assert range_text(ratio) not in text
