"""The five labs as tables: what their figures show, and every error in them that a table can show."""

from pathlib import Path

import pytest

from paceline.analysis.question import Ask
from paceline.analysis.table import table_analysis
from paceline.table.read import read_table

_LABS = Path(__file__).parents[2] / "src" / "paceline" / "data" / "labs"


def _lab(name, **ask):
    return table_analysis(read_table((_LABS / f"{name}.csv").read_text()), ask=Ask(**ask))


def _ids(analysis, level=None):
    return {f.id for f in analysis.findings if level is None or f.level == level}


def _point(analysis, name):
    return next(p for p in analysis.points if p.point.id == name)


def test_steering_time_is_flat_because_most_of_it_is_start_up():
    analysis = _lab("steering")
    assert {"fixed-cost", "flat-in-workers", "fewer-updates"} <= _ids(analysis)
    fixed = next(f for f in analysis.findings if f.id == "fixed-cost")
    assert fixed.value == pytest.approx(420 / 480)
    possible = analysis.fit.parameters[
        "fixed_s"
    ]  # two totals cannot tell start-up from slow steps: both stay open
    assert possible.low < 100 < 400 < possible.high


def test_fruit_is_faster_on_two_workers_than_two_workers_allow():
    analysis = _lab("fruit")
    assert {"super-linear", "lr-not-warmed"} <= _ids(analysis)
    assert _point(analysis, "w2-b32").speedup.value == pytest.approx(20 / 11)


def test_caltech_contradicts_itself_in_four_ways():
    analysis = _lab("caltech", project_to=(16,))
    assert {"super-linear", "epochs-exceed-job"} <= _ids(analysis, "void")
    assert {"same-on-every-device", "plateau-censored", "accuracy-inside-noise", "lr-not-warmed"} <= _ids(
        analysis
    )
    assert next(f for f in analysis.findings if f.id == "epochs-exceed-job").value == pytest.approx(
        6270 / 5910
    )


def test_caltech_projects_16_v100_with_an_interval_and_refuses_the_t4_that_do_not_belong_together():
    analysis = _lab("caltech", project_to=(16,))
    (v100,) = analysis.projections
    assert v100.explanation.startswith("V100")
    assert v100.time_s.low < 22 < v100.time_s.high  # the author's own guess
    assert v100.time_s.low < 26 < v100.time_s.high  # a fixed part and a part that is shared
    assert v100.time_to_accuracy_s is not None
    assert {r.rule for r in analysis.refusals} == {"not-comparable"}
    assert {r.series for r in analysis.recommendations} == {"V100"}
    assert all(r.sentences.startswith("V100: ") for r in analysis.recommendations)


def test_mnist_steps_say_six_workers_where_two_are_printed():
    analysis = _lab("mnist")
    wrong = next(f for f in analysis.findings if f.id == "steps-disagree")
    assert wrong.value == pytest.approx(6.0, abs=0.02)
    assert _point(analysis, "w2-n1-b128").speedup.value == pytest.approx(1.20, abs=0.01)
    assert _point(analysis, "w4-n1-b128").efficiency_ratio.value == pytest.approx(0.56, abs=0.01)
    assert "no-best-accuracy" in _ids(analysis)


def test_vit_sends_the_same_bytes_at_every_batch():
    analysis = _lab("vit-bytes")
    assert {"same-bytes-every-step", "steps-not-divided", "latency-bound"} <= _ids(analysis)


def test_cifar_exchange_by_subtraction_is_not_exchange():
    analysis = _lab("cifar-resnet18")
    assert "parts-exceed-whole" in _ids(analysis, "void")
    assert {"exchange-grows-with-batch", "bandwidth-does-not-follow", "scaling"} <= _ids(analysis)
    per_step = [f for f in analysis.findings if f.id == "exchange-grows-with-batch"]
    assert per_step[0].value == pytest.approx(212 / 22.2, rel=0.02)


def test_cifar_strong_scaling_is_told_from_weak():
    analysis = _lab("cifar-resnet18")
    assert _point(analysis, "w4-b8").point.scaling == "strong"
    assert _point(analysis, "w4-b8").speedup.value == pytest.approx(1.125, abs=0.005)
    assert _point(analysis, "w4-b512").point.scaling == "weak"
    assert _point(analysis, "w4-b512").speedup.value == pytest.approx(3.625, abs=0.005)


@pytest.mark.parametrize(("batch", "truth"), [(32, 79.637), (128, 63.705), (512, 58.438)])
def test_cifar_fitted_on_1_and_2_workers_predicts_4_within_5_percent_and_its_interval(batch, truth):
    text = (_LABS / "cifar-resnet18.csv").read_text().splitlines()
    weak = "\n".join(line for line in text if not line.startswith(("2,16", "4,8,")))
    analysis = table_analysis(read_table(weak), ask=Ask(fit_up_to=2))
    (found,) = [p for p in analysis.projections if p.per_worker_batch == batch]
    assert found.time_s.value == pytest.approx(truth, rel=0.05)
    assert found.time_s.low < truth < found.time_s.high


def test_every_baseline_is_shown_beside_ours_at_the_held_out_count():
    errors = _lab("cifar-resnet18").fit.held_out_error
    assert set(errors) == {"paceline", "last", "log-log", "amdahl", "gustafson", "usl", "pollux"}
    assert errors["paceline"] < errors["amdahl"]
    assert errors["usl"] is None  # two counts do not determine it


def test_a_batch_measured_at_one_count_leaves_what_is_projected_at_others_alone():
    weak = ["gpus,per_gpu_batch,step_ms,params"]
    weak += [
        f"{n},{b},{(10 + b) * (1.06 if n > 1 else 1) + 3 * (n - 1)},11000000"
        for n in (1, 2)
        for b in (32, 128, 512)
    ]

    def projected(rows):
        analysis = table_analysis(read_table("\n".join(rows)), ask=Ask(project_to=(4,)))
        return {p.per_worker_batch: p.time_s.value for p in analysis.projections}

    without, with_one_more = projected(weak), projected([*weak, "2,16,29,11000000"])
    assert with_one_more[32] == pytest.approx(without[32], rel=0.01)
    assert with_one_more[128] == pytest.approx(without[128], rel=0.01)
