"""What computing takes longer, or less, for having waited before: truths that were put in come out, and a real one."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analysis.outlook import outlook
from paceline.analysis.question import Ask, Cluster
from paceline.cli.text.probe import probe_lines
from paceline.predict.after_wait import (
    AfterWait,
    after_wait,
    after_wait_lines,
    after_wait_rows,
    after_wait_text,
)
from paceline.predict.jitter import Jitter
from paceline.predict.whatif import change_from
from paceline.records import Estimate, JitterProbe, Setting
from tests.predict.test_ring import LINK, STEP_S, predicted, profile
from tests.support.limited import limited, needs_limit

PIECE_S = 0.01


def paused(after_s=(), workers=2, count=400, pieces=100, noise=0.02, seed=0):
    """Bursts whose first pieces take so much longer, and all of which differ by noise."""
    random = np.random.default_rng(seed)
    series = PIECE_S * (1 + random.normal(0.0, noise, (workers, count, pieces)))
    series[:, :, : len(after_s)] += np.array(after_s)
    return JitterProbe(workers, workers, tuple(map(tuple, series.reshape(workers, -1))), pieces)


@pytest.mark.parametrize("step_s", [0.02, 0.2, 0.9, 30.0])
def test_a_limit_that_was_not_used_is_worth_the_same_in_steps_of_any_length(step_s):
    found = after_wait([paused((-0.006, -0.002))], step_s)
    assert found.seconds == pytest.approx(-0.008, abs=0.0005)
    assert found.sd_s < 0.0005


def test_a_core_that_has_to_wake_costs_more_the_longer_the_step_until_it_is_awake():
    awaking = paused([0.001] * 20)
    costs = [after_wait([awaking], step_s).seconds for step_s in (0.05, 0.1, 0.2, 0.4)]
    assert costs == pytest.approx([0.005, 0.01, 0.02, 0.02], abs=0.0005)


def test_noise_is_not_taken_for_an_effect():
    """What is told of nothing lies within what it says it may be off by: so often as a normal deviation does."""
    found = [after_wait([paused(count=20, seed=seed)], 0.2) for seed in range(100)]
    off = np.array([each.seconds / each.sd_s for each in found])
    assert abs(off.mean()) < 0.3
    assert 0.75 < off.std() < 1.25


def test_a_short_probe_says_less_and_less_surely():
    short, long = (after_wait([paused([0.001] * 10, noise=0.3, count=count)], 0.1) for count in (4, 400))
    assert short.sd_s > 3 * long.sd_s
    told = [
        after_wait([paused([0.001] * 10, noise=0.3, count=4, seed=seed)], 0.1).seconds for seed in range(200)
    ]
    assert 0.0 < np.mean(told) < 0.008  # drawn to nothing: 3% of a step is what is believed before
    assert long.seconds == pytest.approx(0.01, abs=0.002)


def test_several_probes_are_averaged_and_those_of_the_most_nodes_count():
    inside = replace(paused([0.005]), nodes=1)
    found = after_wait([inside, paused([0.001], seed=1), paused([0.003], seed=2)], 0.1)
    assert found.seconds == pytest.approx(0.002, abs=0.0003)


def test_who_never_waited_tells_nothing():
    without = replace(paused(), burst=None)
    assert after_wait([without], 0.1) is None
    assert after_wait([], 0.1) is None
    assert after_wait_rows([without]) == []
    assert after_wait_lines([without]) == ()


@given(st.integers(1, 50), st.integers(0, 60), st.floats(1e-4, 100.0))
def test_whatever_a_burst_and_a_step_there_is_an_answer_or_none(burst, pieces, step_s):
    found = after_wait([JitterProbe(2, 2, (tuple([PIECE_S] * pieces),) * 2, burst)], step_s)
    assert (found is None) == (pieces < 8 or burst < 2 or pieces < 2 * burst)
    assert found is None or (found.seconds, found.sd_s) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_a_training_that_mostly_sleeps_is_changed_by_its_share():
    machine, probe = Jitter(at_once=0.04, alone=0.05), paused((-0.008,))
    busy, calm = (after_wait([probe], 0.2, jitter=machine, steps_ratio=ratio) for ratio in (0.07, 0.01))
    assert busy == after_wait([probe], 0.2)
    assert calm.seconds == pytest.approx(busy.seconds / 5)
    assert calm.sd_s == pytest.approx(busy.sd_s / 5)


# ---------------------------------------------------------------- in a projection

UNEVEN = replace(
    profile((0.01, 0.3)), step_noise_s=Estimate(0.0034 * STEP_S)
)  # as the machine: 2% of a piece


@pytest.mark.parametrize("after_s", [(-0.003,) * 4, (0.005,) * 4])
def test_several_workers_wait_in_every_step_and_one_does_not(after_s):
    with_it, without = paused(after_s), paused()
    for nodes in (2, 8):
        changed = (
            predicted(UNEVEN, nodes, jitter=(with_it,)).value
            - predicted(UNEVEN, nodes, jitter=(without,)).value
        )
        assert changed == pytest.approx(sum(after_s), rel=0.1)
    alone = [predicted(UNEVEN, 1, jitter=(probe,)).value for probe in (with_it, without)]
    assert alone[0] == pytest.approx(alone[1], rel=0.001)


def test_nccl_keeps_a_device_busy_while_it_waits():
    one = replace(UNEVEN, point=replace(UNEVEN.point, backend="nccl"))
    link = replace(LINK, backend="nccl")
    told, blind = (predicted(one, 4, (link,), jitter=(paused(after),)) for after in ((-0.005,) * 4, ()))
    assert told.value == pytest.approx(blind.value, rel=0.005)


def test_of_several_micro_steps_only_the_first_has_waited():
    accumulate = change_from(["accumulate=4"])
    times = [
        predicted(UNEVEN, 4, change=accumulate, jitter=(paused(after),)).value
        for after in ((-0.003,) * 4, ())
    ]
    assert times[0] - times[1] == pytest.approx(-0.012, rel=0.2)


def test_a_probe_that_is_not_sure_widens_the_interval():
    """Few bursts and many, of a machine and a training that are equally rough."""
    rough = replace(UNEVEN, step_noise_s=Estimate(0.0156 * STEP_S))
    found = (predicted(rough, 4, jitter=(paused(noise=0.1, count=count),)) for count in (400, 8))
    sure, shaky = (np.log(each.high / each.low) for each in found)
    assert shaky > 1.1 * sure


def test_what_waiting_changes_is_said_where_it_counts():
    ask = Ask(at=((Setting(4, 4, 8), ()),))
    probe, still = paused((-0.008,), noise=0.0), paused()
    told, silent = (
        outlook(
            [UNEVEN], cluster=Cluster(backend="gloo", probes=(LINK,), jitter=(each,)), ask=ask
        ).fit.explanation
        for each in (probe, still)
    )
    assert ". Computing takes 8.00 ms less after a wait (probed)" in told
    assert "after a wait" not in silent
    steps = "8.00 ms less in steps of 50.0 ms and 8.00 ms less in steps of 500 ms"
    line = f"after a wait, computing takes {steps} than without one"
    assert after_wait_lines([paused((-0.008,), noise=0.0)]) == (line,)
    assert line in list(probe_lines((), (), [paused((-0.008,), noise=0.0)]))
    assert after_wait_lines([still]) == ()
    assert [row["step_s"] for row in after_wait_rows([probe])] == [0.05, 0.5]
    assert after_wait_text(AfterWait(0.02, 0.001), 0.4) == "20.0 ms longer"
    assert after_wait_text(AfterWait(0.02, 0.02), 0.4) is None
    assert after_wait_text(AfterWait(0.001, 0.0), 0.4) is None
    assert after_wait_text(None, 0.4) is None


# ---------------------------------------------------------------- a real one

WORK = """
import json, sys, time, torch
from paceline_agent.probe import steady as probe_steady
torch.set_num_threads(1)
run = probe_steady.piece(torch.device("cpu"))
calls = probe_steady.calls_of(run)
pieces = probe_steady.pieces_of(run, calls, 3.2)  # many bursts of 0.4 s
series = probe_steady.series(run, calls, pieces, 30.0, bool)
once = sum(series) / len(series)
row = max(1, round(0.15 / once))
def block():
    return sum(run(calls) for _ in range(row))
waited, without = [], []
for _ in range(20):
    time.sleep(0.04)
    waited.append(block())
    block()
    without.append(block())
print(json.dumps({"series": series, "pieces": pieces, "step_s": row * once, "waited": waited, "without": without}))
"""


@pytest.mark.slow
@pytest.mark.alone
@needs_limit
def test_under_a_cpu_limit_the_probe_foretells_what_steps_take_less_after_a_wait():
    """A quarter of a core: the same steps are timed with a wait before each and without one, beside the probe."""
    with limited(0.25) as words:
        ended = subprocess.run(
            [*words, sys.executable, "-c", WORK], capture_output=True, text=True, check=True
        )
    said = json.loads(ended.stdout)
    series = tuple(said["series"])
    told = after_wait([JitterProbe(2, 2, (series, series), said["pieces"])], said["step_s"])
    true_s = np.mean(said["waited"]) - np.mean(said["without"])
    off_s = np.hypot(*(np.std(said[name]) / 20**0.5 for name in ("waited", "without")))
    assert told.seconds < -2 * told.sd_s
    assert abs(told.seconds - true_s) < 3 * np.hypot(told.sd_s, off_s)
