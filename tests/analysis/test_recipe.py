"""Recipes: each parses and plans in both sizes, asks what it can answer, and one is run to its answers."""

import json
import re
import sys
from dataclasses import replace

import pytest

from paceline.analysis.json_file import analysis_data, analysis_from
from paceline.analysis.question import Ask
from paceline.analysis.recipe import PRESETS
from paceline.analysis.recipe_answers import QUESTIONS, learnt
from paceline.analysis.study import study_analysis
from paceline.decide.options import Prices
from paceline.plan.trials import plan_study
from paceline.records import (
    AccuracyCurve,
    Analysis,
    Comparison,
    Convergence,
    Decision,
    Estimate,
    Goal,
    Point,
    Profile,
    Recommendation,
    Refusal,
)
from paceline.report.handin.text import text_report
from paceline.store.recipe_file import read_recipe, recipe_names
from paceline.store.study_file import read_study, study_text
from tests.measure.test_profiles import both, study
from tests.support.desk import desk
from tests.support.report_sample import told

LABS = ("caltech", "cifar-resnet18", "deepwide", "fruit", "large-batch", "mnist", "steering", "vit-backends")
MOST_LAPTOP_TRIALS = 20  # about eight seconds each on two cores


def test_every_lab_has_its_recipe():
    assert recipe_names() == LABS


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", LABS)
def test_every_recipe_is_a_study_that_plans_and_survives_its_file(name, preset, tmp_path):
    study = read_recipe(name).studies[preset]
    plan = plan_study(study)
    assert plan.trials
    (tmp_path / "study.toml").write_text(study_text(study))
    assert read_study(tmp_path / "study.toml") == study
    if preset == "laptop":
        assert len(plan.trials) <= MOST_LAPTOP_TRIALS
        assert max(study.workers) == 2 or name == "deepwide"


@pytest.mark.parametrize("name", LABS)
def test_the_lab_preset_is_at_least_as_large_as_the_laptop(name):
    laptop, lab = (read_recipe(name).studies[preset] for preset in PRESETS)
    assert max(lab.workers) >= max(laptop.workers)
    assert len(plan_study(lab).points) >= len(plan_study(laptop).points)


def profile(workers, *, batch=32, varied=(), scaling="weak", state="ok", **quantities):
    point = Point(f"w{workers}-b{batch}", workers, 1, batch, batch * workers, scaling, "gloo", varied)
    step = Estimate(0.1) if state == "ok" else None
    return Profile(point, state, None if state == "ok" else "no memory left", 1, step, **quantities)


def analysed(*points, **rest):
    return Analysis(told("v"), points, (), **rest)


def answers(name, analysis):
    recipe = read_recipe(name)
    _, *told, _ = learnt(recipe, analysis, recipe.studies["laptop"])
    return {ask: "\n".join(answer.lines) for ask, answer in zip(recipe.asks, told, strict=True)}


def test_what_was_not_measured_is_not_answered():
    for name in LABS:
        told = answers(name, analysed())
        own = {
            ask: re.sub("(?m)^recorded, .*$", "", text) for ask, text in told.items()
        }  # others measured that
        numbers = {ask for ask, text in own.items() if re.search(r"\d+(\.\d+)? (s|ms|x|B)\b", text)}
        assert not numbers


def test_bytes_are_said_to_be_the_same_only_where_they_are():
    moved = {"exchanged_bytes_per_step": Estimate(1e6)}
    same = analysed(*(profile(2, batch=b, **moved) for b in (32, 128)))
    assert "the same at every batch" in answers("vit-backends", same)["bytes"]
    other = analysed(profile(2, **moved), profile(2, batch=128, exchanged_bytes_per_step=Estimate(2e6)))
    assert "the same at every batch" not in answers("vit-backends", other)["bytes"]


def test_nccl_is_not_claimed_where_it_was_not_compared():
    text = answers("vit-backends", analysed(profile(2, wire_s=Estimate(0.01))))["backends"]
    assert "gloo: 10.0 ms of network" in text
    assert "NCCL was not compared" in text


def test_a_cell_that_ran_out_of_memory_is_a_cell_of_the_map():
    cells = [(("--depth", "3"), ("--width", "8")), (("--depth", "12"), ("--width", "8"))]
    fits, lost = profile(1, varied=cells[0]), profile(1, varied=cells[1], state="oom")
    told = answers("deepwide", analysed(fits, lost))
    assert told["grid"].splitlines() == ["depth 3: width 8: 100 ms", "depth 12: width 8: oom"]
    assert "depth 12, width 8: no memory left" in told["memory"]


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_map_of_one_training_a_cell_says_so(seeds):
    best = Estimate(20.0, None, None, seeds)
    found = Convergence(metric="val_psnr", comparisons=(trained(1, metric=best)[0],))
    told = answers(
        "deepwide", analysed(profile(1, varied=(("--depth", "3"), ("--width", "8"))), convergence=found)
    )
    assert ("one training a cell" in told["grid"]) == (seeds == 1)


def test_the_largest_cell_that_fits_is_told_with_whose_memory_it_is():
    cell = profile(1, peak_memory_bytes=Estimate(3.7e8))
    told = answers("deepwide", analysed(cell, source={"workers": {"device": ["cpu"]}}))["memory"]
    assert told == "the largest that fits: 1 worker, 32 per worker, 370 MB at its peak, torch itself included"
    assert answers("deepwide", analysed(cell))["memory"].endswith("370 MB at its peak")


def test_sixteen_workers_are_refused_with_what_would_help():
    refusal = Refusal(16, "more-workers-than-cores", "a node has 2 cores", "measure 4 workers")
    text = answers("caltech", analysed(profile(1), refusals=(refusal,)))["project"]
    assert text.splitlines()[0] == "16 workers: no prediction, a node has 2 cores; measure 4 workers"


@pytest.mark.parametrize("ask", [None, Ask(), Ask(samples=50_000), Ask(prices=Prices(per_worker_hour=2.0))])
def test_whoever_asks_for_something_else_still_gets_what_the_recipe_projects(ask):
    """`report` and `analyze` ask with a price or nothing at all; `show` asks nothing: 16 workers in each."""
    asked = study()
    recipe = replace(read_recipe("caltech"), project=(16,))
    found = study_analysis(asked, both(0.1, 0.105), {}, ask=ask, recipe=recipe)
    told = [p.workers for p in found.projections] + [r.workers for r in found.refusals]
    assert set(told) == {16}


def test_other_counts_that_are_asked_for_replace_those_of_the_recipe():
    recipe = replace(read_recipe("caltech"), project=(16,))
    found = study_analysis(study(), both(0.1, 0.105), {}, ask=Ask(project_to=(4,)), recipe=recipe)
    assert {p.workers for p in (*found.projections, *found.refusals)} == {4}


def trained(workers, *, values=(0.5, 0.8), stable=None, censored=False, seconds=10.0, **rest):
    """A configuration of two seeds, ten epochs of one second each after `seconds` of start-up."""
    point = f"w{workers}-b32"
    c = Comparison(
        point, workers, 32, 32 * workers, None, None, (f"{workers} workers",), 2, 0, 0, 0, None, None, None,
        Estimate(max(values), max(values) - 0.01, max(values) + 0.01, 2),
        None if stable is None else Estimate(stable, stable, None if censored else stable, 2),
        censored, None, None, None, None,
    )  # fmt: skip
    epochs = tuple(float(k) for k in range(1, 11))
    curves = [
        AccuracyCurve(
            point, f"{point}-{seed}", seed, "ok", epochs, epochs, (max(values),) * 10, None, None, s
        )
        for seed, s in ((1, 10.0 + seconds), (2, 10.1 + seconds))
    ]
    return replace(c, **rest), curves


def told_of(name, *made, **convergence):
    comparisons, curves = zip(*made, strict=True)
    found = Convergence(
        metric="val_accuracy",
        comparisons=comparisons,
        curves=tuple(curve for own in curves for curve in own),
        **convergence,
    )
    return answers(name, analysed(profile(1), convergence=found))


def test_a_plateau_that_was_not_reached_is_a_lower_bound():
    told = told_of("caltech", trained(1, stable=10.0, censored=True), trained(2, stable=4.0))
    assert told["plateau"] == "1 workers: still getting better after epoch 10\n2 workers: epoch 4"
    assert told["fastest"] == "1 workers: not stable in 10.0 s\n2 workers: 4.00 s of training"


def test_two_configurations_that_are_as_fast_are_not_told_apart():
    told = told_of("caltech", trained(1, stable=4.0), trained(2, stable=4.0))
    assert told["fastest"].endswith("1 workers and 2 workers do not differ clearly")
    told = told_of("caltech", trained(1, stable=8.0), trained(2, stable=4.0))
    assert told["fastest"].endswith("first: 2 workers")


def test_turnaround_counts_what_no_worker_shortens():
    told = told_of("fruit", trained(1, seconds=10.0), trained(2, seconds=30.0))["turnaround"].splitlines()
    assert "training 10.0 s, 1.00 s an epoch" in told[0]
    assert told[2] == (
        "training was 25% of that at 2 workers: more workers shorten this part only; "
        "with 27 times the data it would be 90%, if the rest stayed"
    )


def test_a_loss_is_judged_beside_its_baselines():
    beside = (
        ("test_mse", Estimate(0.06)),
        ("test_ridge_mse", Estimate(0.04)),
        ("mean_angle_mse", Estimate(0.3)),
        ("ridge_mse", Estimate(0.1)),
        ("val_correlation", Estimate(1.0)),
    )
    good = trained(1, values=(0.05,), beside=beside)
    bad = trained(2, values=(0.2,), beside=beside, difference=Estimate(-0.15, -0.2, -0.1, 2), epoch=10.0)
    comparisons, curves = zip(good, bad, strict=True)
    found = Convergence(
        metric="val_mse", rises=False, comparisons=comparisons, curves=(*curves[0], *curves[1])
    )
    told = answers("steering", analysed(convergence=found))["loss"].splitlines()
    assert told[0] == "1 workers: best val_mse 0.050 (0.040-0.060), last val_correlation 1.00"
    assert told[1].endswith(
        "0.1500 (0.1000 to 0.2000) worse than the first after epoch 10: these seeds cannot tell"
    )
    assert told[2] == (
        "to beat: mean_angle_mse 0.300, ridge_mse 0.100; "
        "better than each on the data that judge every epoch: 1 workers"
    )
    assert told[3] == "1 workers, held out and judged once: test_mse 0.0600, test_ridge_mse 0.0400"


def test_the_rule_of_every_batch_is_said_and_their_condition_once():
    rules = [
        Recommendation("lr-rule", n, 32, "sqrt", None, None, "measured on x, 6 epochs", f"{n} w")
        for n in (1, 2)
    ]
    text = answers("fruit", analysed(profile(1), recommendations=tuple(rules)))["rule"]
    assert text.splitlines() == ["1 w", "2 w", "(measured on x, 6 epochs)"]


@pytest.mark.parametrize(
    ("difference", "survives", "words"),
    [
        (
            Estimate(0.15, 0.1, 0.2, 3),
            "survives",
            "0.1500 (0.1000 to 0.2000) better than the first after epoch 5: surely",
        ),
        (Estimate(-0.15, -0.2, -0.1, 3), "worse", "worse than the first after epoch 5: surely"),
        (
            Estimate(0.001, -0.002, 0.004, 3),
            "survives",
            "better than the first after epoch 5: the same within the margin",
        ),
        (
            Estimate(0.1, -0.2, 0.4, 3),
            "cannot tell",
            "better than the first after epoch 5: these seeds cannot tell",
        ),
    ],
)
def test_a_difference_is_called_sure_only_where_its_interval_says_so(difference, survives, words):
    other = trained(2, difference=difference, survives=survives, epoch=5.0)
    assert told_of("fruit", trained(1), other)["accuracy"].splitlines()[1].endswith(words)


@pytest.mark.parametrize("name", LABS)
def test_every_recipe_that_asks_for_accuracy_trains_on_a_laptop_too(name):
    recipe = read_recipe(name)
    assert "accuracy" not in recipe.asks or recipe.studies["laptop"].goal is not None


def test_what_others_recorded_answers_too_and_is_marked():
    own, recorded = (
        answers("steering", analysed(profile(1)))["time"].splitlines()[0],
        answers("steering", analysed(profile(1)))["time"].splitlines()[1:],
    )
    assert own == "not measured"
    assert all(line.startswith("recorded, a lab with 2 to 8 GPUs: ") for line in recorded)
    assert any("8 GPUs, 32 per GPU, gpu DGX: 0.941x the rate of 4" in line for line in recorded)


def test_sixteen_workers_are_predicted_from_the_recorded_table_with_their_baseline():
    text = answers("caltech", analysed(profile(1)))["project"]
    assert "16 GPUs: speed-up 3." in text
    assert "against 4 (predicted, 90% interval)" in text


def test_steps_and_bytes_of_an_epoch_follow_the_data_that_were_seen():
    seen = Decision("one epoch", "worker-hours", False, (), samples_per_epoch=6400)
    points = [profile(2, batch=32, exchanged_bytes_per_step=Estimate(1e6))]
    assert answers("mnist", analysed(*points, decision=seen))["steps"].endswith("100 at a global batch of 64")
    assert (
        "1.00 MB per step and worker, 100 MB in an epoch of 100 steps"
        in (answers("vit-backends", analysed(*points, decision=seen))["bytes"])
    )


def test_utilisation_is_that_of_all_cores_of_the_machine():
    busy = profile(1, cpu_ratio=Estimate(0.5), exposed_s=Estimate(0.01))
    text = answers("mnist", analysed(busy))["utilisation"]
    assert text == "1 worker, 32 per worker: 50% of the cores busy, 10% of a step waiting for others"


def test_counts_that_are_refused_for_one_reason_are_said_once():
    refusals = tuple(Refusal(n, "more-workers-than-cores", "too few cores", f"measure {n}") for n in (4, 8))
    text = answers("steering", analysed(refusals=refusals))["project"]
    assert text == "4 and 8 workers: no prediction, too few cores; measure 4"


def test_answers_are_part_of_the_analysis_and_of_every_report():
    recipe = read_recipe("mnist")
    analysis = replace(
        analysed(profile(1)), answers=learnt(recipe, analysed(profile(1)), recipe.studies["laptop"])
    )
    assert analysis_from(json.loads(json.dumps(analysis_data(analysis)))).answers == analysis.answers
    assert "What was asked" in text_report(analysis)
    assert "How many steps has an epoch?" in text_report(analysis)


def test_the_exchange_is_told_apart_and_the_remedy_follows_it():
    waits = {"wire_s": Estimate(0.04), "straggle_s": Estimate(0.01), "exposed_s": Estimate(0.05)}
    told = answers("cifar-resnet18", analysed(profile(2, compute_s=Estimate(0.05), **waits)))
    assert "compute 50.0 ms, network 40.0 ms, waiting for the slowest 10.0 ms" in told["exchange"]
    assert "50% of a step is comm wait; a larger batch or --accumulate" in told["remedies"]


def test_computing_beside_a_neighbour_is_compared_with_computing_alone():
    alone, beside = (
        profile(1, compute_s=Estimate(0.05, 0.04, 0.06, 3)),
        profile(2, compute_s=Estimate(0.06, 0.06, 0.06, 3)),
    )
    text = answers("cifar-resnet18", analysed(alone, beside))["exchange"]
    assert text.endswith("computing takes 1.2x (1.0-1.5x) that of one worker alone")


def test_every_question_has_words_and_an_answer():
    asked = {ask for name in LABS for ask in read_recipe(name).asks}
    assert asked == set(QUESTIONS)


def test_recipes_are_listed_shown_and_refused_by_name(tmp_path):
    listed = desk("recipe", "list", cwd=tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(LABS)
    shown = desk("recipe", "show", "mnist", cwd=tmp_path)
    (tmp_path / "study.toml").write_text(shown.stdout)
    assert read_study(tmp_path / "study.toml") == read_recipe("mnist").studies["laptop"]
    shown = desk("recipe", "show", "mnist", "--data", "digits", cwd=tmp_path)
    assert f'args = ["--samples", "6000", "--data", "{tmp_path / "digits"}"]' in shown.stdout
    lost = desk("recipe", "run", "imagenet", cwd=tmp_path)
    assert lost.returncode == 1
    assert "there is no recipe 'imagenet'" in lost.stderr


def test_what_cannot_train_is_refused_before_anything_is_written(tmp_path):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    lost = desk("recipe", "run", "mnist", "--python", str(bare), cwd=tmp_path)
    assert lost.returncode == 1
    assert "has no torch" in lost.stderr
    assert "Traceback" not in lost.stderr
    lost = desk("recipe", "run", "steering", "--data", "nowhere", cwd=tmp_path)
    assert "there are no data at" in lost.stderr
    assert not list(tmp_path.glob("paceline-recipe-*"))


def test_a_folder_that_holds_another_study_is_not_taken_over(tmp_path):
    held = replace(read_recipe("mnist").studies["laptop"], directory=str(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.toml").write_text(study_text(held))
    lost = desk("recipe", "run", "fruit", "--out", "mine", cwd=tmp_path)
    assert lost.returncode == 1
    assert "mine holds another study: its recipe and workload" in lost.stderr
    assert read_study(tmp_path / "mine" / "study.toml") == held


def test_a_study_that_names_a_recipe_answers_it_wherever_it_is_run_and_read(tmp_path):
    whole = read_recipe("fruit").studies["laptop"]
    small = replace(whole, workers=(1,), vary=(), repeats=1, goal=Goal(epochs=1, seeds=1), steps=10, warmup=1)
    (tmp_path / "study.toml").write_text(study_text(small))
    done = desk("study", "study.toml", cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    told = done.stdout.partition("What was asked")[2]
    assert "generated patches" in told
    assert "1 worker, global batch 128: too few epochs to say" in told
    assert re.search(r"from start to end; training [0-9.]+ m?s", told)
    (folder,) = [path.parent for path in tmp_path.rglob("analysis.json")]
    shown = json.loads(desk("show", str(folder), "--json", cwd=tmp_path).stdout)
    assert shown["answers"] == json.loads((folder / "analysis.json").read_text())["answers"]
    assert "What was asked" in (folder / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", LABS)
def test_a_recipe_answers_every_question(name, tmp_path):
    done = desk("recipe", "run", name, cwd=tmp_path, timeout=1200)
    assert done.returncode == 0, done.stderr
    told = done.stdout.partition("What was asked")[2]
    answers = {line.strip() for line in told.splitlines()}
    assert "not measured" not in answers  # what an unanswered question gets
    if name == "deepwide":
        assert re.search(r"depth 12: .*width 32: oom$", told, re.MULTILINE)
        assert told.count("dB") == 8
