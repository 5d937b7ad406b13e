"""A lost, late or absent rank is named to the others in seconds; nobody waits for ever."""

import json

from tests.horovod.test_calls import SCRIPTS
from tests.support.warm import run_ranks

FAULTS = SCRIPTS / "horovod_faults.py"


def test_a_killed_rank_is_an_error_on_the_others():
    (code, output), (killed, _) = run_ranks(2, FAULTS, "killed", timeout_s=30)
    assert killed == -9
    assert code == 3, output
    assert "rank 1 has gone" in output


def test_the_loss_of_rank_0_is_an_error_on_the_others():
    (killed, _), (code, output) = run_ranks(2, FAULTS, "first killed", timeout_s=30)
    assert (killed, code) == (-9, 3), output
    assert "after the loss" in output


def test_a_rank_that_has_shut_down_is_named():
    (code, output), (left, _) = run_ranks(2, FAULTS, "left", timeout_s=30)
    assert (code, left) == (3, 0), output
    assert "rank 1 has shut down" in output


def test_a_stalled_rank_is_named_and_awaited():
    (code, output), (late, late_output) = run_ranks(
        2, FAULTS, "late", timeout_s=30, HOROVOD_STALL_CHECK_TIME_SECONDS=1
    )
    assert (code, late) == (0, 0), output + late_output
    assert "allreduce.gradient has waited 1 s for rank 1" in output
    assert "got 2.0" in output


def test_a_rank_that_never_comes_is_an_error_where_that_is_asked_for():
    (code, output), _ = run_ranks(2, FAULTS, "never", timeout_s=30, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=1)
    assert code == 3, output
    assert "rank 1 did not come in 1 s" in output


def test_the_timeline_is_a_chrome_trace_of_rank_0(tmp_path):
    trace = tmp_path / "trace.json"
    asked = {"HOROVOD_TIMELINE": trace, "HOROVOD_TIMELINE_MARK_CYCLES": 1}
    for code, output in run_ranks(2, FAULTS, "trained", timeout_s=30, **asked):
        assert code == 0, output
    events = [event for event in json.loads(trace.read_text()) if event]
    assert events[0]["args"]["start_time_since_epoch_in_micros"] > 0
    rows = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    spans = [(rows[e["pid"]], e["name"]) for e in events if e["ph"] == "X"]
    assert spans.count(("allreduce.gradient 0", "ALLREDUCE")) == 2
    assert spans.count(("allreduce.gradient 1", "NEGOTIATE_ALLREDUCE")) == 1
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    cycles = [event["ts"] for event in events if event["name"] == "CYCLE_START"]
    assert len(cycles) * 2 == len(spans)  # each collective has its negotiation, and begins one
    assert cycles == sorted(cycles)
