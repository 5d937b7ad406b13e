"""The five lines under the verdict: each says an answer, or that there is none, and how far it carries."""

from dataclasses import replace

import pytest

from paceline.analysis.table import table_analysis
from paceline.decide.brief import brief
from paceline.decide.sentence import verdict_text
from paceline.decide.verdict import verdict
from paceline.records import Analysis, Estimate, Finding, Profile, Refusal
from paceline.report.advice import advice
from paceline.report.charts.grid import grid_figures
from paceline.report.charts.points import bus_figure
from paceline.report.charts.scaling import scaling_figures
from paceline.report.charts.steps import split_figure
from paceline.report.tables.answers import projection_table
from paceline.report.tables.measured import scaling_table
from paceline.table.read import read_table
from tests.support.report_sample import FULL, OOM, WEAK, around, measured, projected, told

TIMED = replace(FULL, points=WEAK, convergence=None, recommendations=())


def brief_of(analysis):
    """The lines of a reader's questions, with the verdict that follows from these points and findings."""
    known = {"projections": analysis.projections, "advice": analysis.recommendations}
    answer = verdict(analysis.points, analysis.findings, **known)
    return brief(
        answer,
        analysis.points,
        analysis.findings,
        refusals=analysis.refusals,
        convergence=analysis.convergence,
        **known,
    )


def lines(analysis):
    return {line.question: line for line in brief_of(analysis)}


def test_five_questions_have_one_line_each():
    assert list(lines(FULL)) == [
        "Workers", "Batch, learning rate", "What holds it back", "On more workers", "Accuracy",
    ]  # fmt: skip


def test_the_lines_are_about_the_curve_of_the_verdict_and_give_its_numbers():
    found = lines(TIMED)
    assert found["Workers"].answer.startswith("8: every doubling up to it pays")
    assert found["Batch, learning rate"].answer.startswith("64 per worker, 512 in all")
    assert found["What holds it back"].answer.startswith("the network: 7.0 ms (6.6-7.3 ms) of each step")
    assert found["On more workers"].answer.startswith("32: speed-up 19.2 ± 3.8")


def test_what_was_not_measured_is_said_to_be_unknown():
    found = lines(replace(TIMED, points=WEAK[:1], projections=(), refusals=()))
    assert {line.standing for name, line in found.items() if name != "Batch, learning rate"} == {"unknown"}
    assert "paceline project" in found["On more workers"].answer
    assert "--to-accuracy" in found["Accuracy"].answer


def test_a_count_that_failed_is_named_with_its_end_and_not_called_refused():
    lost = Profile(replace(WEAK[1].point, id="w2"), "hung", "no step for 20 s", trials=1)
    refused = tuple(Refusal(n, "one-count", "nothing was seen", "measure") for n in (2, 4))
    found = lines(replace(TIMED, points=(WEAK[0], lost), projections=(), refusals=refused))
    assert found["Workers"].answer == "1 measured; 2 hung"
    assert found["On more workers"].answer.startswith("4: no prediction")


def test_a_projection_of_an_order_of_magnitude_is_doubtful_in_line_chart_and_caption():
    far = replace(projected(16, 0.7), time_s=Estimate(0.1, 0.05, 0.2, 4))
    vague = replace(TIMED, projections=(far,), refusals=())
    line = lines(vague)["On more workers"]
    assert line.standing == "doubtful"
    assert "a rough guess" in line.answer
    speedup = scaling_figures(vague)[0]
    assert "At 16 workers the prediction is a rough guess." in speedup.how
    assert "'rough guess'" in str(speedup.spec)
    assert lines(TIMED)["On more workers"].standing == "known"


def test_parts_that_contradict_one_another_are_marked_where_they_are_drawn():
    wrong = Finding("split-contradicts", "doubt", "compute takes less than alone", 0.5, 1.0, None, "w2-b64")
    doubted = replace(TIMED, points=WEAK[:2], findings=(wrong,))
    assert lines(doubted)["What holds it back"].standing == "doubtful"
    shown = split_figure(doubted)
    assert "2 workers (?)" in str(shown.spec)
    assert "1 worker (?)" not in str(shown.spec)
    assert "(?): the step could not be split reliably" in shown.how


@pytest.mark.parametrize("analysis", [Analysis(told("Nothing."), (), ()), replace(FULL, points=(OOM,))])
def test_without_a_measurement_the_verdict_stands_alone(analysis):
    assert brief_of(analysis) == ()


def test_measurements_that_cannot_be_used_have_no_lines():
    void = Finding("same-data", "void", "cannot be", None, None, None)
    assert brief_of(replace(FULL, findings=(void,))) == ()


def test_the_recommended_configuration_says_what_became_of_its_accuracy():
    line = lines(FULL)["Accuracy"]
    assert line.answer.startswith("3 of 3 seeds reached 0.9; survives against the first configuration")
    assert line.standing == "known"


def test_one_count_with_projections_has_a_chart_of_them():
    one = replace(TIMED, points=WEAK[:1])
    speedup, efficiency = scaling_figures(one)
    assert "Diamonds, dashed: predicted" in speedup.how
    assert efficiency.id == "efficiency-weak"


def test_projections_of_several_lines_say_which_line_they_continue():
    other = [measured(n, 0.7, backend="gloo") for n in (1, 2)]
    other = [replace(p, point=replace(p.point, id=f"{p.point.id}-gloo")) for p in other]
    both = replace(
        TIMED,
        points=(*(replace(p, point=replace(p.point, backend="nccl")) for p in WEAK), *other),
        projections=(projected(16, 0.7), replace(projected(16, 0.5), baseline="w1-b64-gloo")),
    )
    table = projection_table(both)
    assert table.columns[0].name == "line"
    assert [row[0] for row in table.rows] == ["nccl", "gloo"]
    assert projection_table(TIMED).columns[0].name == "workers"
    assert "the baseline of each line" in scaling_table(both).caption
    assert "relative to w1-b64." in scaling_table(TIMED).caption


def test_a_measured_gain_shows_its_interval_and_one_that_may_be_none_is_doubtful():
    first = replace(FULL.recommendations[0], condition="measured; time only")
    sure, unsure = (replace(first, gain=gain) for gain in (around(1.6), Estimate(1.7, 0.9, 3.0, 2)))
    (told,) = advice(replace(FULL, recommendations=(sure,)))
    assert (told.gain, told.standing) == ("With its 90% interval: 1.60x (1.52-1.68x) the speed.", "")
    assert advice(replace(FULL, recommendations=(unsure,)))[0].standing == "doubtful"
    foreseen = replace(first, condition="if the links are as declared", measured=False)
    assert advice(replace(FULL, recommendations=(foreseen,)))[0].standing == "projected"


def test_a_sentence_begins_with_a_capital_unless_with_a_name():
    said = Finding("slow", "note", "neither slower nor dearer")
    assert said.sentence == "Neither slower nor dearer"
    assert replace(said, point="large").sentence == "large: neither slower nor dearer"
    advised = replace(FULL.recommendations[0], text="2 workers", why="")
    assert replace(advised, series="fp32").sentences == "fp32: 2 workers"


def test_of_configurations_whose_names_begin_alike_the_recommended_one_is_told():
    first, *rest = FULL.convergence.comparisons
    long = replace(
        first, point="w1-b64-5", traits=("1 worker", "warm-up 5"), lr_rule="sqrt", warmup_epochs=5.0
    )
    trained = replace(FULL.convergence, comparisons=(first, long, *rest))
    advised = replace(
        FULL.recommendations[0], goal="lr-rule", text="1 worker, warm-up 5: the best of 2", point="w1-b64-5"
    )
    found = lines(replace(FULL, convergence=trained, recommendations=(advised,)))
    assert (
        found["Batch, learning rate"].answer == "64 per worker; rule for the rate: sqrt, 5 epochs of warm-up"
    )


def test_computing_that_takes_longer_only_within_its_interval_is_doubtful():
    one, two = (
        replace(p, wire_s=around(0.0), straggle_s=around(0.0), compute_s=Estimate(value, low, high, 3))
        for p, value, low, high in zip(WEAK, (0.03, 0.04), (0.01, 0.039), (0.09, 0.041), strict=False)
    )
    line = lines(replace(TIMED, points=(one, two)))["What holds it back"]
    assert line.answer.startswith("computing takes 40.0 ms (39.0-41.0 ms) instead of 30 ms (10-90 ms)")
    assert line.standing == "doubtful"


def test_a_table_of_several_batches_names_the_one_that_its_verdict_is_about():
    rows = ["1,32,100,gloo", "2,32,110,gloo", "1,64,150,gloo", "2,64,160,gloo"]
    table = "\n".join(["workers,per_worker_batch,step_ms,backend", *rows])
    assert "(weak scaling, 64 per worker)" in verdict_text(table_analysis(read_table(table)).verdict)
    alone = "\n".join(["workers,per_worker_batch,step_ms", "1,32,100", "2,32,110"])
    assert "(weak scaling)" in verdict_text(table_analysis(read_table(alone)).verdict)


def test_cells_of_a_grid_that_differ_little_have_nearly_one_colour():
    points = tuple(measured(n, 0.9, batch=batch) for n in (1, 2) for batch in (32, 64))
    (step, *_) = grid_figures(replace(TIMED, points=points))
    assert step.spec["layer"][0]["encoding"]["color"]["scale"]["zero"] is True
    assert "the darker, the larger" in step.caption


def test_an_interval_that_does_not_fit_is_said_to_be_cut_off():
    wild = replace(WEAK[1], bus_bytes_per_s=Estimate(1e9, 1e8, 9e9, 2))
    assert "cut off" in bus_figure(replace(TIMED, points=(WEAK[0], wild, *WEAK[2:]))).how
    assert "cut off" not in bus_figure(TIMED).how
