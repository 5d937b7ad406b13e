"""Decisions: fastest, cheapest, knee, deadline, budget, Pareto, energy, next measurement; failures at scale."""

import json
import random
from pathlib import Path

import pytest

from paceline.analysis.cluster import cluster_from, price_from
from paceline.analysis.question import Ask
from paceline.analysis.table import table_analysis
from paceline.cli.main import exit_code
from paceline.cli.verbs.advise import advise
from paceline.cli.verbs.analyze import analyze
from paceline.cli.verbs.project import project
from paceline.core.errors import UsageError
from paceline.data import shipped
from paceline.decide.recommend import Prices
from paceline.predict.baselines import baseline_times, held_out_error
from paceline.predict.reliability import Checkpointing, checkpoint_interval_s, failure_rate, goodput_ratio
from paceline.source.declared import prices_of
from paceline.table.read import read_table

_GOOD = "workers,job_s\n1,8000\n2,4100\n4,2200\n8,1250\n"
_BAD = "workers,job_s\n1,8000\n2,7000\n4,6500\n8,6400\n"


def _advice(text, **prices):
    analysis = table_analysis(read_table(text), ask=Ask(project_to=(16,), prices=Prices(**prices)))
    return {r.goal: r for r in analysis.recommendations}


def test_one_worker_is_the_cheapest_and_the_knee_follows_what_a_doubling_gains():
    good, bad = _advice(_GOOD), _advice(_BAD)
    assert good["cheapest"].workers == bad["cheapest"].workers == 1
    assert good["knee"].workers >= 8
    assert bad["knee"].workers == 1


def test_a_deadline_is_met_as_cheaply_as_possible_and_a_budget_as_fast():
    found = _advice(_GOOD, per_worker_hour=1.0, deadline_s=4500.0, budget=2.6)
    assert found["deadline"].workers == 2
    assert found["budget"].workers in (4, 8)
    assert _advice(_GOOD, deadline_s=1.0)["deadline"].workers is None


def test_a_deadline_without_the_time_of_a_training_is_not_answered():
    found = _advice("workers,batch,step_s\n1,32,0.1\n2,32,0.11\n4,32,0.12\n", deadline_s=100.0)
    assert found["deadline"].condition == "not answered"


def test_the_number_of_epochs_makes_a_training_of_the_time_of_one():
    table = "workers,batch,epoch_s\n1,32,100\n2,32,55\n4,32,30\n"
    asked = _advice(table, deadline_s=4000.0, budget=3.0, per_worker_hour=1.0)
    assert "--epochs" in asked["deadline"].text
    assert "--epochs" in asked["budget"].text
    assert "--price" in _advice(table, budget=3.0, epochs=90.0)["budget"].text
    found = _advice(table, deadline_s=4000.0, budget=3.0, per_worker_hour=1.0, epochs=90.0)
    assert found["deadline"].workers == 4  # 90 × 30 s; 90 × 55 s would be too late
    assert found["budget"].workers == 2  # 2 × 90 × 55 s cost 2.75; 4 × 90 × 30 s would cost 3.00, even odds
    assert "per training of 90 epochs" in found["fastest"].text


def test_more_workers_than_help_leave_the_pareto_set():
    assert "8" not in _advice("workers,job_s\n1,100\n2,60\n4,55\n8,80\n")["pareto"].text.split(":")[1]


def test_energy_is_counted_where_power_is_known():
    found = _advice(_GOOD, worker_watts=300.0)["energy"]
    assert found.workers == 1
    assert found.cost.value == pytest.approx(300 * 8000 / 3.6e6, rel=0.05)


def test_the_next_measurement_says_what_it_would_change():
    analysis = table_analysis(read_table("workers,batch,step_s\n1,32,0.1\n2,32,0.12\n4,32,0.13\n"))
    found = next(r for r in analysis.recommendations if r.goal == "next-measurement")
    assert found.workers == 8
    assert found.gain.value > 1.0


def test_baselines_reproduce_the_curves_they_are_named_after():
    workers = [1.0, 2.0, 4.0]
    amdahl = [100 * (0.1 + 0.9 / n) for n in workers]
    assert baseline_times(workers, amdahl, [8.0])["amdahl"][0] == pytest.approx(100 * (0.1 + 0.9 / 8))
    usl = [100 * (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1)) / n for n in workers]
    assert baseline_times(workers, usl, [8.0])["usl"][0] == pytest.approx(100 * (1 + 0.35 + 0.56) / 8)
    power = [100 * n**-0.8 for n in workers]
    assert baseline_times(workers, power, [8.0])["log-log"][0] == pytest.approx(100 * 8**-0.8)
    assert baseline_times(workers, power, [8.0])["last"][0] == pytest.approx(power[-1] / 2)


def test_a_baseline_that_two_counts_do_not_determine_is_unknown():
    assert baseline_times([1.0, 2.0], [10.0, 6.0], [4.0])["usl"] is None
    assert set(held_out_error([1.0, 2.0], [10.0, 6.0]).values()) == {None}


def test_goodput_at_16384_workers_is_what_a_simulation_gives():
    rate = 419 / (16_384 * 54 * 24)
    plan = Checkpointing(60.0, 600.0)
    assert goodput_ratio(16_384, plan, rate_per_hour=rate) == pytest.approx(
        _simulated(16_384, plan, rate), abs=0.02
    )
    assert goodput_ratio(1, plan, rate_per_hour=rate) > 0.99
    assert 0.4 < goodput_ratio(100_000, plan, rate_per_hour=rate) < 0.7


def _simulated(workers, plan, rate_per_hour):
    """Work done over time spent, failures as they come."""
    chance = random.Random(1)
    mean = 3600.0 / (rate_per_hour * workers)
    interval = checkpoint_interval_s(workers, plan, rate_per_hour=rate_per_hour)
    done = spent = 0.0
    left = chance.expovariate(1 / mean)
    while done < 4000 * interval:
        if left >= interval + plan.write_s:
            done, spent, left = (
                done + interval,
                spent + interval + plan.write_s,
                left - interval - plan.write_s,
            )
            continue
        spent += left
        left = chance.expovariate(1 / mean)
        while left < plan.restart_s:
            spent += left
            left = chance.expovariate(1 / mean)
        spent, left = spent + plan.restart_s, left - plan.restart_s
    return done / spent


def test_own_failures_move_the_rate():
    many = failure_rate(failures=50, worker_hours=1e5)
    assert failure_rate().value < many.value < 50 / 1e5
    assert many.low < many.value < many.high


@pytest.mark.parametrize(
    ("text", "worker", "node", "currency"),
    [
        ("2.5/gpu-h", 2.5, None, ""),
        ("2.5", 2.5, None, ""),
        ("40/node-h", None, 40.0, ""),
        ("EUR 2.5/worker-h", 2.5, None, "EUR"),
        ("2.5 EUR/gpu-hour", 2.5, None, "EUR"),
        ("$40 / node-h", None, 40.0, "$"),
    ],
)
def test_prices_are_read_as_they_are_written(text, worker, node, currency):
    found = price_from(text)
    assert (found.per_worker_hour, found.per_node_hour, found.currency) == (worker, node, currency)


def test_a_price_in_the_cluster_file_counts_until_one_is_given():
    cluster = cluster_from({"cluster": {"price": "EUR 2.5/gpu-h"}}, shipped("links"))
    declared, given = prices_of(None, None, None, None, cluster), prices_of("3", None, None, None, cluster)
    assert (declared.per_worker_hour, declared.currency) == (2.5, "EUR")
    assert (given.per_worker_hour, given.currency) == (3.0, "")


def test_a_report_counts_in_the_price_that_is_given(tmp_path, capsys):
    table = tmp_path / "times.csv"
    table.write_text(_GOOD)
    assert exit_code(["report", str(table), "--text", "--price", "EUR 3.6/gpu-h"]) == 0
    said = capsys.readouterr().out
    assert "cost (EUR)" in said
    assert "8.00" in said  # 8,000 s on one worker
    assert "no price was given" not in said


@pytest.mark.parametrize("text", ["", "cheap", "-2", "2.5/month", "EUR 2.5 USD/gpu-h"])
def test_what_is_not_a_price_is_refused(text):
    with pytest.raises(UsageError):
        price_from(text)


def test_every_hardware_constant_carries_its_source_and_date():
    for name in ("gpus", "links"):
        for row in shipped(name).values():
            assert row["source"]
            assert row["date"] == "2026-11-15"


def test_a_cluster_file_becomes_beliefs_about_links():
    data = {
        "cluster": {"workers_per_node": 4, "parameters": 10},
        "links": {"between": {"kind": "infiniband", "gbit_per_s": 200}},
    }
    found = cluster_from(data, shipped("links"))
    assert found.between.bytes_per_s == pytest.approx(0.8 * 25e9)
    assert found.gradient_bytes == 40
    assert found.inside is None


@pytest.mark.parametrize(
    "data",
    [{"clutser": {}}, {"links": {"inside": {"kind": "rope"}}}, {"cluster": {"workers_per_node": 0}},
     {"links": {"between": {"kind": "tcp", "gbit_per_s": -1}}}, {"links": {"between": {"measured": True}}}],
)  # fmt: skip
def test_a_wrong_cluster_file_is_refused(data):
    with pytest.raises(UsageError):
        cluster_from(data, shipped("links"))


def test_analyze_prints_json_with_the_documented_keys(tmp_path: Path, capsys):
    table, at = tmp_path / "t.csv", tmp_path / "at.csv"
    table.write_text("workers,nodes,per_worker_batch,step_s\n1,1,32,0.1\n2,1,32,0.101\n4,1,32,0.102\n")
    at.write_text("workers,nodes,per_worker_batch\n8,1,32\n8,2,32\n")
    analyze(table, at=at, json=True)
    found = json.loads(capsys.readouterr().out)
    (projection,) = found["projections"]
    assert {"workers", "nodes", "per_worker_batch", "time_s", "step_s", "throughput_per_s", "speedup",
            "efficiency_ratio", "time_to_accuracy_s", "explanation"} <= set(projection)  # fmt: skip
    assert set(projection["time_s"]) == {"value", "low", "high", "n"}
    assert projection["time_to_accuracy_s"] is None
    assert [set(r) for r in found["refusals"]] == [{"workers", "rule", "reason", "would_help"}]
    assert set(found["fit"]) >= {"parameters", "unidentified", "held_out_error"}


def test_analyze_project_and_advise_speak(tmp_path: Path, capsys):
    table, cluster = tmp_path / "t.csv", tmp_path / "cluster.toml"
    table.write_text("workers,per_worker_batch,step_s,params\n1,32,0.096,11000000\n2,32,0.106,11000000\n")
    cluster.write_text('[cluster]\nworkers_per_node = 4\n[links.between]\nkind = "tcp"\ngbit_per_s = 25\n')
    analyze(table)
    assert "Understood:\n  'workers': number of workers" in capsys.readouterr().out
    project(table, workers="8,512", cluster=cluster, what_if=["link=2x"])
    text = capsys.readouterr().out
    assert "What if: link=2x" in text
    assert "the speed without the change" in " ".join(text.split())
    assert "no prediction for 512 workers" in text
    advise(table, price="2.5/gpu-h", workers="4")
    assert "  cheapest           1 worker: 3.00 ms per sample" in capsys.readouterr().out


def test_an_order_of_magnitude_is_never_recommended_but_its_measurement_is():
    analysis = table_analysis(read_table("workers,epochs,job_s\n4,10,480\n8,10,510\n"))
    wide = {r.workers for r in analysis.refusals if r.rule == "wide-interval"}
    advice = {r.goal: r.workers for r in analysis.recommendations}
    assert wide == {16, 32}
    assert advice["fastest"] == advice["cheapest"] == advice["knee"] == 4
    assert advice["next-measurement"] == 16
