"""What a reader meets on the page: legends that fit, things said once, units that suit their size."""

from dataclasses import replace

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.records import (
    Analysis,
    Comparison,
    Convergence,
    Decision,
    Estimate,
    Finding,
    Option,
    Point,
    Profile,
    Projection,
    Refusal,
)
from paceline.report.charts.accuracy import accuracy_figures
from paceline.report.charts.decision import decision_figure
from paceline.report.charts.theme import colour
from paceline.report.page import page
from paceline.report.sections import sections
from paceline.report.tables.answers import resource_table
from paceline.report.tables.measured import scaling_table
from tests.support.report_sample import FULL, around, curve, told


@pytest.mark.parametrize(
    ("names", "columns"), [(["gloo", "nccl"], 2), (["x" * 40] * 6, 1), (["a" * 20] * 6, 2)]
)
def test_a_legend_is_no_wider_than_its_chart(names, columns):
    assert colour([f"{i}{name[1:]}" for i, name in enumerate(names)])["legend"]["columns"] == columns


def test_a_legend_leaves_out_what_all_configurations_share():
    def one(rule):
        traits = ("1 worker", "global batch 2048", f"{rule} rule")
        seen = {
            "seeds": 1,
            "reached": 1,
            "diverged": 0,
            "failed": 0,
            "plateau_censored": False,
            "metric": around(0.9),
        }
        unseen = dict.fromkeys(
            ("warmup_epochs", "time_to_target_s", "epochs_to_target", "spent_s", "plateau_epoch", "epoch",
             "difference", "survives", "noise_scale")
        )  # fmt: skip
        return Comparison(rule, 1, 2048, 2048, rule, traits=traits, **seen, **unseen)

    curves = tuple(replace(curve("linear", 1, 0.3), point=rule) for rule in ("linear", "sqrt"))
    found = Convergence(curves=curves, comparisons=(one("linear"), one("sqrt")))
    (figure, *_) = accuracy_figures(Analysis(told("v"), (), (), convergence=found))
    assert "linear rule" in str(figure.spec)
    assert "global batch 2048" not in str(figure.spec)


def _profile(workers):
    return Profile(Point(f"w{workers}", workers), "ok", None, step_s=around(0.1), speedup=around(1.0))


def test_a_count_is_projected_or_refused_and_not_both():
    wide = Projection(8, 1, None, Estimate(1.0, 0.4, 2.0), "step", None, None, None, None, None, "")
    refusals = (
        Refusal(8, "wide-interval", "wide", "measure"),
        Refusal(32, "horizon", "far", "measure"),
        Refusal(32, "batch", "other", "measure"),
    )
    table = scaling_table(
        Analysis(told("v"), (_profile(1), _profile(2)), (), projections=(wide,), refusals=refusals)
    )
    workers = [column.name for column in table.columns].index("workers")
    said = [(row[workers], row[-1]) for row in table.rows if row[-1] != "measured"]
    assert said == [("8", "predicted, a rough guess"), ("32", "no prediction")]


def test_what_is_found_at_several_points_is_one_card():
    findings = tuple(
        Finding("few-launches", "doubt", f"w{n}: only 2 runs", 2, 3, "repeat") for n in (1, 2, 4)
    )
    html = page([("", Analysis(told("v"), (_profile(1),), findings))])
    assert html.count('<span class="name">few-launches</span>') == 1
    assert html.count("only 2 runs.") == 3
    assert html.count("Next: repeat") == 1


def test_one_count_shows_no_parameters_of_a_law():
    alone = replace(FULL, points=FULL.points[:1], projections=())
    shown = {table.id for section in sections(FULL) for table in section.tables}
    assert "fit" in shown
    assert "fit" not in {table.id for section in sections(alone) for table in section.tables}


def test_seconds_are_not_written_as_ten_thousandths_of_an_hour():
    def option(workers, time_s):
        worker_s = around(workers * time_s)
        cost = around(workers * time_s / 3600)
        return Option(workers, 1, 32, True, around(time_s), cost, worker_s, worker_s, True, None)

    choice = Decision("one epoch", "worker-hours", False, (option(1, 6.0), option(2, 4.0)))
    short = Analysis(told("v"), (), (), decision=choice)
    heads = [column.name for column in resource_table(short).columns]
    assert {"GPU-s", "node-s"} <= set(heads)
    assert "worker-seconds" in decision_figure(short).caption
    long = Analysis(
        told("v"), (), (), decision=replace(choice, options=(option(1, 6000.0), option(2, 4000.0)))
    )
    assert "GPU-h" in [column.name for column in resource_table(long).columns]
    assert "worker-hours" in decision_figure(long).caption


def test_an_undecided_threshold_survives_the_file_and_has_a_mark_of_its_own():
    open_one = replace(FULL, thresholds=(replace(FULL.thresholds[0], holds=None),))
    assert analysis_from(analysis_data(open_one)).thresholds[0].holds is None
    assert "not decided:" in page([("", open_one)])
