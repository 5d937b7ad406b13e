"""Trainings compared by time to a target: curves, censored times, diverged seeds, noise, and measured advice."""

import math
from dataclasses import replace

import numpy as np
import pytest

from paceline.cli.text.accuracy import comparison_lines
from paceline.converge.advice import accuracy_advice, accuracy_verdict
from paceline.converge.comparison import accuracy_convergence, accuracy_curve, metric_of, rises_by_name
from paceline.converge.epochs import noise_scale
from paceline.converge.noise_scale import gradient_blocks
from paceline.core.errors import UsageError
from paceline.decide.sentence import verdict_text
from paceline.measure.profiles import Launches
from paceline.plan.trials import plan_study, points_of, trial_args
from paceline.records import (
    Goal,
    GradientNorm,
    Mark,
    Point,
    Sample,
    Study,
    Trial,
    TrialResult,
    WorkerRecord,
    Workload,
)

GOAL = Goal(target=0.9, metric="val_accuracy", epochs=5, seeds=3)


def step(k, end_s):
    return Sample(k, end_s, 1.0, 0.0, 0.0, None, 8, None, 1, False, 0.0)


def training(point, seed, accuracy, *, epoch_s=10.0, state="ok", name="val_accuracy", epochs=True):
    """A training whose first step began at second 100 and that was judged every epoch_s seconds."""
    marks = []
    for number, value in enumerate(accuracy, start=1):
        end_s = 100.0 + number * epoch_s
        marks += [Mark("epoch", number, number, end_s)] if epochs else []
        marks.append(Mark(name, value, number, end_s))
    worker = WorkerRecord(0, point.workers, (step(2, 101.0),), {}, tuple(marks))
    trial = Trial(f"{point.id}-{seed}", point, seed, ())
    return TrialResult(trial, state, None if state == "ok" else "lost", (worker,), 60.0)


def point(rule, *, workers=2, batch=256, warmup="0"):
    varied = (("--lr-rule", rule), ("--warmup-epochs", warmup))
    return Point(f"w{workers}-{rule}-{warmup}", workers, 1, batch // workers, batch, varied=varied)


def launches(at, *results):
    return Launches(at, results, ())


SQRT, LINEAR, NONE = point("sqrt"), point("linear"), point("none")


def measured():
    """sqrt reaches the target at epoch 2, without a rule at 4, linear loses two seeds of three."""
    return [
        launches(NONE, *(training(NONE, s, [0.5, 0.7, 0.8, 0.91], epoch_s=10 + s) for s in (1, 2, 3))),
        launches(SQRT, *(training(SQRT, s, [0.8, 0.92], epoch_s=10 + s) for s in (1, 2, 3))),
        launches(
            LINEAR,
            training(LINEAR, 1, [0.6, 0.7, 0.91]),
            training(LINEAR, 2, [0.1], state="diverged"),
            training(LINEAR, 3, [0.1, 0.1, 0.1, 0.1, 0.1]),
        ),
    ]


def test_time_and_epochs_to_the_target_are_those_of_the_first_evaluation_that_reached_it():
    curve = accuracy_curve(training(SQRT, 1, [0.5, 0.9, 0.8, 0.95]), "val_accuracy", GOAL)
    assert (curve.epochs_to_target, curve.time_to_target_s) == (2.0, 20.0)
    assert curve.wall_s == (10.0, 20.0, 30.0, 40.0)


def test_a_falling_metric_is_reached_from_above():
    goal = Goal(target=0.3, metric="val_mse", rises=False)
    curve = accuracy_curve(training(SQRT, 1, [0.5, 0.2], name="val_mse"), "val_mse", goal)
    assert curve.epochs_to_target == 2.0


def test_without_marked_epochs_an_epoch_is_the_nth_evaluation():
    curve = accuracy_curve(training(SQRT, 1, [0.1, 0.2, 0.3], epochs=False), "val_accuracy", GOAL)
    assert curve.epochs == (1.0, 2.0, 3.0)


def test_configurations_come_the_fastest_first_with_their_seeds():
    found = accuracy_convergence(GOAL, measured())
    assert [c.point for c in found.comparisons] == [SQRT.id, NONE.id, LINEAR.id]
    sqrt, none, linear = found.comparisons
    assert (sqrt.reached, sqrt.seeds, sqrt.diverged) == (3, 3, 0)
    assert sqrt.time_to_target_s.value == 24.0  # epochs of 11, 12, 13 s
    assert sqrt.time_to_target_s.low < 24.0 < sqrt.time_to_target_s.high
    assert none.epochs_to_target.value == 4.0
    assert (linear.reached, linear.diverged, linear.failed) == (1, 1, 0)


def test_a_time_that_most_seeds_never_had_is_unknown_and_says_how_long_they_tried():
    linear = accuracy_convergence(GOAL, measured()).comparisons[-1]
    assert linear.time_to_target_s is None
    assert linear.spent_s == 50.0


def test_a_time_that_one_seed_never_had_has_no_upper_end():
    seeds = [training(SQRT, 1, [0.95]), training(SQRT, 2, [0.5, 0.95]), training(SQRT, 3, [0.5] * 5)]
    (only,) = accuracy_convergence(GOAL, [launches(SQRT, *seeds)]).comparisons
    assert (only.time_to_target_s.value, only.time_to_target_s.low, only.time_to_target_s.high) == (
        20.0,
        10.0,
        None,
    )


def test_metrics_are_compared_at_the_last_epoch_that_every_training_has():
    found = accuracy_convergence(GOAL, measured())
    sqrt = found.comparisons[0]
    assert sqrt.epoch == 2.0
    assert sqrt.difference.value == pytest.approx(0.92 - 0.7)
    assert sqrt.survives == "survives"
    assert next(c for c in found.comparisons if c.point == NONE.id).difference is None  # the first itself


def test_the_verdict_names_the_fastest_its_lead_and_what_was_lost():
    text = verdict_text(accuracy_verdict(accuracy_convergence(GOAL, measured())))
    assert text.startswith(
        "Fastest to val_accuracy ≥ 0.9: 2 workers, global batch 256, sqrt rule, warm-up 0, in 24 s"
    )
    assert "2.0" in text
    assert "1 of 3 configurations did not reach it on every seed, 1 diverged." in text


def test_when_nothing_reached_the_target_the_verdict_says_how_far_it_came():
    short = [launches(SQRT, training(SQRT, 1, [0.5, 0.8]))]
    text = verdict_text(accuracy_verdict(accuracy_convergence(GOAL, short)))
    assert text.startswith(
        "No configuration reached val_accuracy ≥ 0.9 within 5 epochs; the best came to 0.8"
    )


def test_advice_on_a_rule_is_the_measured_one_with_its_evidence_and_condition():
    found = accuracy_convergence(GOAL, measured())
    advice = accuracy_advice(found, [NONE, SQRT, LINEAR], what="mnist", data="generated digits")
    rule = next(a for a in advice if a.goal == "lr-rule")
    assert rule.lr_rule == "sqrt"
    assert "linear rule without warm-up diverged on 1 of 3 seeds" in rule.text
    assert "measured on mnist (generated digits), 5 epochs, 3 seeds each" in rule.condition
    assert rule.gain.low > 1.0


def test_advice_does_not_choose_between_rules_that_cannot_be_told_apart():
    noisy = [
        launches(NONE, *(training(NONE, s, [0.95], epoch_s=t) for s, t in ((1, 10), (2, 30), (3, 20)))),
        launches(SQRT, *(training(SQRT, s, [0.95], epoch_s=t) for s, t in ((1, 11), (2, 28), (3, 18)))),
    ]
    found = accuracy_convergence(GOAL, noisy)
    rule = accuracy_advice(found, [NONE, SQRT], what="mnist", data=None)[-1]
    assert "no clear difference to" in rule.text


EVERY_EPOCH = Goal(metric="val_accuracy", epochs=5, seeds=3)


def test_without_a_target_the_best_rule_is_named_with_those_it_cannot_be_told_from():
    groups = [
        launches(NONE, *(training(NONE, s, [0.90 + 0.01 * s]) for s in (1, 2, 3))),
        launches(SQRT, *(training(SQRT, s, [0.91 + 0.01 * s]) for s in (1, 2, 3))),
        launches(LINEAR, *(training(LINEAR, s, [0.50 + 0.01 * s]) for s in (1, 2, 3))),
    ]
    found = accuracy_convergence(EVERY_EPOCH, groups)
    (rule,) = accuracy_advice(found, [NONE, SQRT, LINEAR], what="mnist", data=None)
    assert rule.lr_rule == "sqrt"
    assert rule.text.endswith("the best of 3; no clear difference to no rule without warm-up")
    (rule,) = accuracy_advice(
        accuracy_convergence(EVERY_EPOCH, groups[1:]), [SQRT, LINEAR], what="mnist", data=None
    )
    assert rule.text.endswith("the best of 2, surely")


def test_where_no_rule_reached_the_target_the_one_that_came_closest_is_told():
    groups = [
        launches(at, *(training(at, s, [value]) for s in (1, 2, 3)))
        for at, value in ((NONE, 0.5), (SQRT, 0.8))
    ]
    advice = accuracy_advice(accuracy_convergence(GOAL, groups), [NONE, SQRT], what="mnist", data=None)
    assert [(a.goal, a.lr_rule) for a in advice] == [("lr-rule", "sqrt")]


def test_intervals_stay_within_what_a_metric_can_be():
    groups = [launches(NONE, *(training(NONE, s, [x], name="val_mse") for s, x in ((1, 0.001), (2, 0.1))))]
    goal = Goal(metric="val_mse", rises=False, epochs=1, seeds=2)
    assert accuracy_convergence(goal, groups).comparisons[0].metric.low == 0.0
    groups = [launches(NONE, *(training(NONE, s, [x]) for s, x in ((1, 0.8), (2, 1.0))))]
    assert accuracy_convergence(EVERY_EPOCH, groups).comparisons[0].metric.high == 1.0


def test_a_plateau_lies_within_the_epochs_that_were_trained():
    late, early = [0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9], [0.9] * 8
    groups = [launches(NONE, training(NONE, 1, late), training(NONE, 2, early))]
    stable = accuracy_convergence(EVERY_EPOCH, groups).comparisons[0].plateau_epoch
    assert 1.0 <= stable.low <= stable.value <= stable.high <= 8.0


def test_what_else_was_marked_stands_beside_the_metric_as_it_was_last():
    result = training(NONE, 1, [0.5, 0.6])
    marks = (*result.workers[0].marks, Mark("ridge", 0.3, 1, 110.0), Mark("ridge", 0.2, 2, 120.0))
    result = replace(result, workers=(replace(result.workers[0], marks=marks),))
    (one,) = accuracy_convergence(EVERY_EPOCH, [launches(NONE, result)]).comparisons
    assert [(name, value.value) for name, value in one.beside] == [("ridge", 0.2)]


def test_no_advice_on_rules_where_only_one_was_trained():
    found = accuracy_convergence(GOAL, [launches(SQRT, training(SQRT, 1, [0.95]))])
    assert accuracy_advice(found, [SQRT], what="mnist", data=None) == ()


def test_nothing_is_said_of_trainings_that_were_never_evaluated():
    assert accuracy_convergence(GOAL, [launches(SQRT, training(SQRT, 1, []))]) is None


def test_the_table_shows_every_configuration_and_what_became_of_it():
    text = "\n".join(comparison_lines(accuracy_convergence(GOAL, measured())))
    assert "1 of 3, 1 diverged" in text
    assert "> 50.0 s" in text
    assert text.index("sqrt rule") < text.index("no rule") < text.index("linear rule")


def test_what_is_surely_better_than_the_first_is_not_called_the_same():
    better = launches(SQRT, *(training(SQRT, s, [0.8 + 0.001 * s]) for s in (1, 2, 3)))
    first = launches(NONE, *(training(NONE, s, [0.7 + 0.001 * s]) for s in (1, 2, 3)))
    alike = launches(LINEAR, *(training(LINEAR, s, [0.7 + 0.001 * s]) for s in (3, 2, 1)))
    lines = list(comparison_lines(accuracy_convergence(GOAL, [first, better, alike])))
    (table,) = (line for line in lines if "sqrt" in line)
    rows = {word: line for line in table.splitlines() for word in ("sqrt", "linear") if word in line}
    assert rows["sqrt"].rstrip().endswith("better")
    assert rows["linear"].rstrip().endswith("same")


@pytest.mark.parametrize(
    ("marks", "asked", "expected"),
    [
        (["train_loss", "val_accuracy", "val_loss"], None, "val_accuracy"),
        (["loss/test"], None, "loss/test"),
        (["train_acc", "val_acc"], None, "val_acc"),
        (["val_acc"], "val_acc=([0-9.]+)", "val_acc"),
        (["val_acc"], "top1", None),
        ([], None, None),
    ],
)
def test_the_metric_that_counts_is_the_one_asked_for_or_the_accuracy(marks, asked, expected):
    record = WorkerRecord(0, 1, (), {}, tuple(Mark(name, 0.5, 1, 1.0) for name in marks))
    result = TrialResult(Trial("t", SQRT, 1, ()), "ok", None, (record,), 1.0)
    assert metric_of(Goal(metric=asked), [result]) == expected


@pytest.mark.parametrize(
    ("name", "rises"),
    [("val_accuracy", True), ("val_mse", False), ("Loss/test", False), ("f1", True), ("psnr", True)],
)
def test_losses_and_errors_fall_and_everything_else_rises(name, rises):
    assert rises_by_name(name) is rises


# ---------------------------------------------------------------- noise


def simulated(*, workers, each, steps, square=4.0, variance=200.0, size=200, seed=0):
    """Workers that read the gradients G + ε / √b of synthetic samples."""
    random = np.random.default_rng(seed)
    truth = np.full(size, math.sqrt(square / size))
    norms = [[] for _ in range(workers)]
    for k in range(steps):
        own = truth + random.normal(0.0, math.sqrt(variance / size / each), (workers, size))
        mean_square = float(np.sum(own.mean(0) ** 2))
        for worker in range(workers):
            norms[worker].append(GradientNorm(k, float(np.sum(own[worker] ** 2)), mean_square, each))
    return [WorkerRecord(i, workers, (), {}, (), tuple(own)) for i, own in enumerate(norms)]


@pytest.mark.parametrize(("workers", "each"), [(2, 16), (4, 8), (8, 64)])
def test_a_known_noise_scale_is_recovered(workers, each):
    blocks = gradient_blocks(simulated(workers=workers, each=each, steps=400))
    found = noise_scale(blocks.square, blocks.variance, batch=blocks.global_batch)
    assert found.value == pytest.approx(50.0, rel=0.15)


def test_its_interval_covers_the_truth_about_nine_times_in_ten():
    covered = 0
    for seed in range(60):
        blocks = gradient_blocks(simulated(workers=2, each=16, steps=80, seed=seed))
        found = noise_scale(blocks.square, blocks.variance, batch=blocks.global_batch)
        covered += found.low <= 50.0 <= found.high
    assert covered >= 48


def test_steps_that_not_every_worker_read_are_left_out():
    first, second = simulated(workers=2, each=16, steps=40)
    fewer = replace(second, gradients=second.gradients[:20])
    assert gradient_blocks([first, fewer]) == gradient_blocks(
        [replace(first, gradients=first.gradients[:20]), fewer]
    )


def test_few_readings_say_nothing():
    assert gradient_blocks(simulated(workers=2, each=16, steps=4)) is None


# ---------------------------------------------------------------- what is asked


def asked(**changed):
    usual = {"workload": Workload("workload", "mnist", batch_flag="--batch-size"), "per_worker_batch": (64,)}
    return Study(**{**usual, "goal": GOAL, "repeats": 3, **changed})


def test_every_repeat_of_a_training_is_a_seed_with_its_target_and_budget():
    trials = plan_study(asked(workers=(2,))).trials
    assert [t.args for t in trials] == [
        ("--batch-size", "64", "--seed", str(seed), "--epochs", "5", "--target", "0.9") for seed in (1, 2, 3)
    ]


def test_the_price_of_a_training_is_its_budget_of_steps():
    known = asked(workers=(2,), repeats=1, goal=replace(GOAL, train_samples=12_800))
    assert plan_study(known).wall_s == pytest.approx(8.0 + 5 * 100 * 0.1)


@pytest.mark.parametrize(("rule", "rate"), [("none", "0.1"), ("linear", "0.4"), ("sqrt", "0.2")])
def test_a_script_is_told_the_rate_that_a_rule_gives(rule, rate):
    script = Workload("script", "train.py", (), batch_flag="--batch", lr_flag="--lr", seed_flag="--seed")
    study = asked(workload=script, workers=(1, 4), lr=0.1, vary=(("--lr-rule", (rule,)),))
    largest = points_of(study)[-1]
    assert trial_args(study, largest, repeat=2) == ("--batch", "64", "--lr", rate, "--seed", "2")


def test_a_rule_that_a_script_cannot_follow_is_refused():
    script = Workload("script", "train.py", (), batch_flag="--batch", lr_flag="--lr")
    study = asked(workload=script, lr=0.1, vary=(("--lr-rule", ("adascale",)),))
    with pytest.raises(UsageError, match="adascale needs our trainer"):
        plan_study(study)
