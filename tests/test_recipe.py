"""Recipes: each parses and plans in both sizes, asks what it can answer, and one is run to its answers."""

import re

import pytest

from paceline.plan import plan_study
from paceline.recipe import PRESETS
from paceline.recipe_learnt import QUESTIONS, learnt
from paceline.records import Analysis, Comparison, Convergence, Estimate, Point, Profile, Refusal
from paceline.store.recipe_file import read_recipe, recipe_names
from paceline.store.study_file import read_study, study_text
from tests.desk import desk

LABS = ("caltech", "cifar-resnet18", "deepwide", "fruit", "mnist", "steering", "vit-backends")
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
    return Analysis("", points, (), **rest)


def answers(name, analysis):
    recipe = read_recipe(name)
    return {ask: text for ask, (_, text) in zip(recipe.asks, learnt(recipe, analysis), strict=True)}


def test_what_was_not_measured_is_not_answered():
    for name in LABS:
        told = answers(name, analysed())
        numbers = {ask for ask, text in told.items() if re.search(r"\d+(\.\d+)? (s|ms|x|B)\b", text)}
        assert not numbers


def test_bytes_are_said_to_be_the_same_only_where_they_are():
    moved = {"exchanged_bytes_per_step": Estimate(1e6)}
    same = analysed(*(profile(2, batch=b, **moved) for b in (32, 128)))
    assert "the same at every batch" in answers("vit-backends", same)["bytes"]
    other = analysed(profile(2, **moved), profile(2, batch=128, exchanged_bytes_per_step=Estimate(2e6)))
    assert "the same at every batch" not in answers("vit-backends", other)["bytes"]


def test_nccl_is_not_claimed_where_it_was_not_compared():
    text = answers("vit-backends", analysed(profile(2, wire_s=Estimate(0.01))))["backends"]
    assert "gloo: 10.0 ms wire time" in text
    assert "NCCL was not compared" in text


def test_a_cell_that_ran_out_of_memory_is_a_cell_of_the_map():
    cells = [(("--depth", "3"), ("--width", "8")), (("--depth", "12"), ("--width", "8"))]
    fits, lost = profile(1, varied=cells[0]), profile(1, varied=cells[1], state="oom")
    told = answers("deepwide", analysed(fits, lost))
    rows = told["grid"].splitlines()
    assert rows[1].split() == ["3", "100", "ms"]
    assert rows[2].split() == ["12", "oom"]
    assert "depth 12, width 8: no memory left" in told["memory"]


def test_sixteen_workers_are_refused_with_what_would_help():
    refusal = Refusal(16, "more-workers-than-cores", "a node has 2 cores", "measure 4 workers")
    text = answers("caltech", analysed(profile(1), refusals=(refusal,)))["project"]
    assert text == "16 workers: refused, a node has 2 cores; measure 4 workers"


def test_a_plateau_that_was_not_reached_is_a_lower_bound():
    c = Comparison(
        "w1", 1, 32, 32, None, None, "1 worker", 1, 0, 0, 0, None, None, None, Estimate(0.8),
        Estimate(8.0, 8.0, None), True, None, None, None, None,
    )  # fmt: skip
    told = answers("caltech", analysed(profile(1), convergence=Convergence(comparisons=(c,))))
    assert told["plateau"] == "1 worker: still getting better after epoch 8"


def test_the_exchange_is_told_apart_and_the_remedy_follows_it():
    waits = {"wire_s": Estimate(0.04), "straggle_s": Estimate(0.01), "exposed_s": Estimate(0.05)}
    told = answers("cifar-resnet18", analysed(profile(2, compute_s=Estimate(0.05), **waits)))
    assert "compute 50.0 ms, wire 40.0 ms, late workers 10.0 ms" in told["exchange"]
    assert "50% of a step is exposed; a larger batch or --accumulate" in told["remedies"]


def test_every_question_has_words_and_an_answer():
    asked = {ask for name in LABS for ask in read_recipe(name).asks}
    assert asked == set(QUESTIONS)


def test_recipes_are_listed_shown_and_refused_by_name(tmp_path):
    listed = desk("recipe", "list", cwd=tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(LABS)
    shown = desk("recipe", "show", "mnist", cwd=tmp_path)
    (tmp_path / "study.toml").write_text(shown.stdout)
    assert read_study(tmp_path / "study.toml") == read_recipe("mnist").studies["laptop"]
    lost = desk("recipe", "run", "imagenet", cwd=tmp_path)
    assert lost.returncode == 1
    assert "there is no recipe 'imagenet'" in lost.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", LABS)
def test_a_recipe_answers_every_question(name, tmp_path):
    done = desk("recipe", "run", name, cwd=tmp_path, timeout=1200)
    assert done.returncode == 0, done.stderr
    told = done.stdout.partition("What was asked")[2]
    assert "not measured" not in told
    if name == "deepwide":
        assert re.search(r"^ +12 .* oom$", told, re.MULTILINE)
        assert told.count("dB") == 8
