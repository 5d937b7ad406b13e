"""What workers that compute at the same time tell of waiting for the slowest: truths that were put in come out."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.cli.text.probe import probe_lines
from paceline.core.errors import PacelineError
from paceline.links.probe import probe_from
from paceline.predict.jitter import (
    _MORE_WORKERS_POWER,
    _ONE_BURST_SD,
    Jitter,
    jitter_lines,
    jitter_of,
    jitter_rows,
    variation,
)
from paceline.records import Estimate, JitterProbe, Setting
from paceline_agent.probe import steady as probe_steady
from tests.predict.test_ring import LINK, STEP_S, late_pair, predicted, profile

PIECE_S = 0.01


def computed(workers=2, pieces=4000, own=0.0, common=0.0, seed=0):
    """Workers whose pieces differ by themselves, and together, from piece to piece."""
    random = np.random.default_rng(seed)
    alike = random.normal(0.0, common, pieces)
    series = PIECE_S * (1 + alike + random.normal(0.0, own, (workers, pieces)))
    return JitterProbe(workers, workers, tuple(map(tuple, series)))


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("length", [1, 10])
def test_what_is_each_workers_own_is_told_and_what_is_common_is_not(workers, length):
    found = jitter_of([computed(workers, own=0.1, common=0.2)], length * PIECE_S)
    assert found.at_once == pytest.approx(0.1 / length**0.5, rel=0.1)
    assert found.alone == pytest.approx(np.hypot(0.1, 0.2) / length**0.5, rel=0.1)


def test_hosts_that_keep_a_speed_for_seconds_differ_more_at_once_than_alone():
    speeds = np.repeat(np.random.default_rng(1).choice([1.0, 1.4], (2, 20)), 200, axis=1)
    found = jitter_of([JitterProbe(2, 2, tuple(map(tuple, PIECE_S * speeds)))], 10 * PIECE_S)
    assert found.at_once > 0.1
    assert found.alone < 0.02


def test_a_host_that_is_always_slower_is_waited_for():
    slow = tuple(tuple(PIECE_S * factor for _ in range(100)) for factor in (1.0, 1.2))
    found = jitter_of([JitterProbe(2, 2, slow)], 5 * PIECE_S)
    assert found.at_once == pytest.approx(0.1 / 1.1 / 0.589, rel=0.01)
    assert found.alone == pytest.approx(0.0, abs=1e-9)


def test_steps_longer_than_the_probe_are_judged_by_an_eighth_of_it():
    probe = computed(pieces=160, own=0.1)
    assert jitter_of([probe], 1000.0) == jitter_of([probe], 20 * PIECE_S)


def bursts(workers=2, count=400, pieces=100, anew=0.1, own=0.02, seed=0):
    """Workers that get a speed with every burst, and keep it to its end."""
    random = np.random.default_rng(seed)
    speeds = np.repeat(random.normal(1.0, anew, (workers, count)), pieces, axis=1)
    series = PIECE_S * (speeds + random.normal(0.0, own, speeds.shape))
    return JitterProbe(workers, workers, tuple(map(tuple, series)), pieces)


@pytest.mark.parametrize("workers", [2, 8])
@pytest.mark.parametrize("length", [1, 20, 100, 3000])
def test_who_gets_another_speed_after_every_pause_differs_at_once_by_that_however_long_a_step_is(
    workers, length
):
    found = jitter_of([bursts(workers)], length * PIECE_S)
    assert found.at_once == pytest.approx(np.hypot(0.1, 0.02 / min(length, 100) ** 0.5), rel=0.1)
    assert found.alone == pytest.approx(0.02 / min(length, 100) ** 0.5, rel=0.1)
    assert variation(found, found.alone) == pytest.approx(found.at_once)  # whose steps alone show none of it


def test_few_bursts_are_less_sure():
    few, many = (jitter_of([bursts(count=count)], PIECE_S) for count in (4, 400))
    assert (few.sd, many.sd) == pytest.approx((0.38, 0.038))
    assert jitter_of([bursts(count=4), bursts(count=4)], PIECE_S).sd == pytest.approx(0.38 / 2**0.5)
    drawn = [jitter_of([bursts(count=16, own=0.0, seed=seed)], PIECE_S).at_once for seed in range(200)]
    assert np.std(drawn) / np.mean(drawn) == pytest.approx(
        jitter_of([bursts(count=16)], PIECE_S).sd, rel=0.15
    )
    shaky, sure = (
        predicted(profile((0.01, 0.3)), 8, jitter=(bursts(count=count, seed=3),)) for count in (4, 400)
    )
    assert shaky.high / shaky.low > sure.high / sure.low


def kept(workers=2, count=40, lasting=0.0, anew=0.05, seed=0):
    """Workers that get a speed with every burst, around one that each keeps."""
    random = np.random.default_rng(seed)
    speeds = 1 + random.normal(0.0, lasting, (workers, 1)) + random.normal(0.0, anew, (workers, count))
    series = PIECE_S * np.repeat(speeds, 10, axis=1)
    return JitterProbe(workers, workers, tuple(map(tuple, series)), 10)


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_what_workers_keep_is_as_unsure_as_they_are_few(workers):
    found = [jitter_of([kept(workers, lasting=0.1, anew=0.005, seed=seed)], 0.1) for seed in range(400)]
    drawn = [each.at_once for each in found]
    assert np.std(drawn) / np.mean(drawn) == pytest.approx(np.median([each.sd for each in found]), rel=0.15)


def test_what_workers_keep_is_no_surer_for_more_probes_of_them_and_what_is_redrawn_is():
    def sd(times, lasting):
        return jitter_of([kept(lasting=lasting, anew=0.02, seed=4)] * times, 0.1).sd

    assert 0.6 < sd(1, 0.2) < 0.76
    assert sd(4, 0.2) == pytest.approx(sd(1, 0.2), rel=0.01)
    assert (sd(1, 0.0), sd(4, 0.0)) == pytest.approx((0.76 / 40**0.5, 0.76 / 160**0.5), rel=0.1)


def test_a_worker_that_is_slower_all_the_time_is_named_and_widens_what_is_foreseen():
    alike, apart = (
        JitterProbe(2, 2, (series[0], tuple(longer * s for s in series[1])), 10)
        for longer in (1.0, 1.15)
        for series in [kept(anew=0.01, seed=1).pieces_s]
    )
    assert len(jitter_lines([alike])) == 1
    assert jitter_lines([apart])[1].startswith("worker 1 computed 7.")
    wide, narrow = (predicted(profile((0.01, 0.3)), 8, jitter=(probe,)) for probe in (apart, alike))
    assert wide.high / wide.low > 1.1 * narrow.high / narrow.low


@given(st.integers(1, 50), st.integers(8, 60), st.floats(1e-4, 100.0))
def test_whatever_a_burst_and_a_step_there_is_an_answer(burst, pieces, step_s):
    found = jitter_of([JitterProbe(2, 2, (tuple([PIECE_S] * pieces),) * 2, burst)], step_s)
    assert found.at_once == pytest.approx(0.0, abs=1e-9)
    assert found.alone == pytest.approx(0.0, abs=1e-9)


@given(st.integers(0, 40), st.integers(0, 40), st.floats(1e-4, 100.0))
def test_whatever_the_lengths_there_is_an_answer_or_none(first, second, step_s):
    series = tuple(tuple([PIECE_S] * count) for count in (first, second))
    found = jitter_of([JitterProbe(2, 1, series)], step_s)
    assert (found is None) == (min(first, second) < 8)
    assert found is None or (
        found.at_once == pytest.approx(0.0, abs=1e-9) and found.alone == pytest.approx(0.0, abs=1e-9)
    )


def test_the_probe_on_the_most_nodes_counts_and_repeated_ones_are_averaged():
    inside, calm, rough = (
        replace(computed(own=own), nodes=nodes) for nodes, own in ((1, 0.5), (2, 0.04), (2, 0.08))
    )
    found = jitter_of([inside, calm, rough], PIECE_S)
    assert found.at_once == pytest.approx(0.06, rel=0.1)
    assert jitter_of([], PIECE_S) is None


def test_what_a_script_differs_by_beyond_the_machine_is_its_own():
    machine = Jitter(at_once=0.04, alone=0.05)
    assert variation(machine, None) == 0.04
    assert variation(machine, 0.05) == pytest.approx(0.04)
    assert variation(machine, 0.13) == pytest.approx(np.hypot(0.04, 0.12))
    assert variation(machine, 0.025) == pytest.approx(0.02)  # a calmer minute, or a step that mostly sleeps
    assert variation(Jitter(0.03, 0.0), 0.04) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("steps", "own"), [(0.015, 0.02), (0.03, 0.04), (0.05, 0.04), (0.06, 0.04), (0.1, 0.0894)]
)
def test_what_drifts_and_what_a_pause_changes_is_not_the_scripts_own(steps, own):
    assert variation(Jitter(at_once=0.04, alone=0.03, paused=0.06), steps) == pytest.approx(own, rel=0.01)


def test_a_drift_over_several_bursts_is_seen_over_several_bursts_alone():
    drift = np.repeat(1 + 0.1 * np.sin(np.arange(400) / 2), 100)  # bursts of a second, six seconds around
    probe = bursts(anew=0.0)
    series = tuple(tuple(np.array(one) * drift) for one in probe.pieces_s)
    found = jitter_of([replace(probe, pieces_s=series)], 50 * PIECE_S)
    assert found.alone < 0.01
    assert 0.03 < found.paused < 0.08
    assert jitter_of([computed(own=0.1)], PIECE_S).paused == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("nodes", [4, 8])
def test_an_exchange_that_lasts_waits_for_the_slowest_s_first_bucket_only(nodes):
    """4 MB leave at 0.15 s and are sent until after backward: who is slow after that makes nobody wait. Drawn."""
    one = replace(profile((4.0, 0.15), (0.01, 0.3)), step_noise_s=Estimate(0.001))
    slowest = np.random.default_rng(6).normal(1.0, 0.1, (40_000, nodes)).max(axis=1).mean()
    ring_s = 2 * (nodes - 1) / nodes * 4.01 / 10 + 0.0005
    counted_s = STEP_S - 0.3 + 0.15  # after backward, forward, and until the first bucket is ready
    found = predicted(one, nodes, jitter=(bursts(anew=0.1, own=0.0),))
    assert found.value == pytest.approx(counted_s * slowest + ring_s, rel=0.01)


@pytest.mark.parametrize("nodes", [4, 8])
def test_a_projection_waits_for_what_workers_differ_by_at_once(nodes):
    """One worker's steps differ by 8 %, of which 3 % are its own: the truth is drawn."""
    one = replace(profile((0.01, 0.3)), step_noise_s=Estimate(0.08 * STEP_S))
    seen = computed(own=0.03 * 40**0.5, common=(0.08**2 - 0.03**2) ** 0.5 * 40**0.5, pieces=20_000)
    draw = np.random.default_rng(2).normal(STEP_S, 0.03 * STEP_S, (4000, nodes))
    blind, told = predicted(one, nodes), predicted(one, nodes, jitter=(seen,))
    assert told.value == pytest.approx(draw.max(axis=1).mean() + 2 * (nodes - 1) * 0.0005, rel=0.01)
    assert told.value < blind.value
    assert told.high - told.low < blind.high - blind.low


@pytest.mark.parametrize("nodes", [4, 8])
def test_calm_steps_make_others_wait_by_what_they_were_seen_to_differ_by(nodes):
    """Steps that differ by 0.1 and by 0.5 %: the truth is drawn. Where nobody saw them differ, as if by 0.5 %."""
    alike = Estimate(STEP_S, STEP_S - 1e-6, STEP_S + 1e-6, 3)  # launches do not differ
    one = replace(profile((0.01, 0.3)), step_s=alike, compute_s=alike)
    draw = np.random.default_rng(7).normal(0.0, STEP_S, (40_000, nodes)).max(axis=1).mean()
    still, calm = (
        predicted(replace(one, step_noise_s=Estimate(r * STEP_S)), nodes) for r in (0.001, 0.00499)
    )
    assert calm.value - still.value == pytest.approx(0.00399 * draw, rel=0.15)  # 24 draws
    assert predicted(one, nodes).value == pytest.approx(calm.value, rel=1e-4)


def test_more_launches_of_the_profile_foresee_an_unsteady_step_more_surely():
    few = replace(profile((0.01, 0.3)), step_noise_s=Estimate(0.08 * STEP_S), trials=1)
    one, many = (predicted(replace(few, trials=trials), 4) for trials in (1, 16))
    assert many.value == pytest.approx(one.value, rel=0.01)
    assert (many.high - many.low) < 0.8 * (one.high - one.low)


def pair(waited_s, late_s=0.0):
    """A training of two workers on two nodes, that wait so long for each other: late_s for one that is always late."""
    step_s = STEP_S + waited_s + 0.0005
    return replace(
        late_pair(late_s),
        step_s=Estimate(step_s, step_s - 0.001, step_s + 0.001, 3),
        exposed_s=Estimate(step_s - STEP_S),
        straggle_s=Estimate(waited_s, 0.98 * waited_s, 1.02 * waited_s, 3),
    )


def projected(profiles, nodes, **more):
    ask = Ask(at=((Setting(nodes, nodes, 8), ()),))
    found = outlook(profiles, cluster=Cluster(backend="gloo", probes=(LINK,), **more), ask=ask)
    return found.projections[0], found.fit


@pytest.mark.parametrize("nodes", [4, 8])
def test_what_two_workers_of_a_training_waited_for_each_other_tells_of_more(nodes):
    """Steps of both differ by 10 % at once: the truth is drawn. A probe that saw less does not count."""
    draw = np.random.default_rng(4).normal(STEP_S, 0.1 * STEP_S, (40_000, 8))
    waited_s = draw[:, :2].max(axis=1).mean() - STEP_S
    one = replace(profile((0.01, 0.3)), step_noise_s=Estimate(0.02 * STEP_S))
    found, fit = projected([one, pair(waited_s)], nodes, jitter=(computed(own=0.01),))
    assert found.time_s.value == pytest.approx(draw[:, :nodes].max(axis=1).mean(), rel=0.02)
    assert "waiting for the slowest is the limit" in found.explanation
    assert "at the same moment (in this training)" in fit.explanation
    _, blind = projected([one], nodes, jitter=(computed(own=0.01),))
    assert "Workers differ by 0.2% at the same moment (probed)" in blind.explanation


@pytest.mark.parametrize("nodes", [4, 8])
def test_one_that_is_always_late_is_not_more_so_among_more(nodes):
    one = replace(profile((0.01, 0.3)), step_noise_s=Estimate(0.001 * STEP_S))
    found, _ = projected([one, pair(0.1 * STEP_S, late_s=0.1 * STEP_S)], nodes)
    assert found.time_s.value == pytest.approx(1.1 * STEP_S, rel=0.02)


# ---------------------------------------------------------------- written, read and said

HEADER = {"record": "header", "format": 1, "workers": 2, "nodes": 1}


def test_pieces_are_read_and_where_there_are_none_it_is_said_why():
    told = probe_from(
        map(json.dumps, [HEADER, {"record": "steady", "calls": 3, "seconds": [[0.01, 0.02], [0.01]]}])
    )
    assert told.jitter == JitterProbe(2, 1, ((0.01, 0.02), (0.01,)))
    mixed = probe_from(
        map(json.dumps, [HEADER, {"record": "steady", "reason": "workers compute on cpu and cuda"}])
    )
    assert mixed.jitter is None
    assert mixed.notes == ("how steadily workers compute was not probed: workers compute on cpu and cuda",)
    assert probe_from([json.dumps(HEADER)]).jitter is None
    paused = {"record": "steady", "calls": 3, "pieces": 2, "seconds": [[0.01] * 4, [0.02] * 4]}
    assert probe_from(map(json.dumps, [HEADER, paused])).jitter.burst == 2
    with pytest.raises(PacelineError, match="bursts of 0 pieces"):
        probe_from(map(json.dumps, [HEADER, paused | {"pieces": 0}]))


def test_what_workers_differ_by_is_said_for_eight_of_them():
    probe = computed(own=0.1)
    (line,) = jitter_lines([probe])
    short, long = (row["at_once_ratio"] for row in jitter_rows([probe]))
    assert f"{short:.1%} in steps of 50.0 ms" in line
    assert f"{1.4341 * long:.1%} longer" in line
    assert list(probe_lines((), (), [probe])) == [line]
    assert jitter_lines(()) == ()
    brief = computed(pieces=100)
    assert [row["step_s"] for row in jitter_rows([brief])] == [0.05]  # of half a second it holds two


@pytest.mark.alone
def test_a_worker_times_pieces_of_about_ten_milliseconds():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as workers have, which share the cores
    run = probe_steady.piece(torch.device("cpu"))
    calls = probe_steady.calls_of(run)
    burst = probe_steady.pieces_of(run, calls, 0.8)
    pieces = probe_steady.series(run, calls, burst, 0.8, bool)
    assert sum(pieces) == pytest.approx(0.8, rel=0.5)
    assert 0.001 < np.median(pieces) < 0.1
    assert len(pieces) % burst == 0
    assert len(pieces) / burst >= 3
    torch.set_num_threads(threads)


@pytest.mark.parametrize("workers", [2, 3, 4, 8, 16])
def test_one_burst_tells_the_slowest_of_several_as_surely_as_the_law_says(workers):
    drawn = np.random.default_rng(0).standard_normal((100_000, workers))
    slowest = drawn.max(axis=1) - drawn.mean(axis=1)
    said = _ONE_BURST_SD / (workers - 1) ** _MORE_WORKERS_POWER
    assert slowest.std() / slowest.mean() == pytest.approx(said, rel=0.05)
