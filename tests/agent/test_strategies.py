"""Whatever library communicates, its waits are found: real processes over gloo, sleep stands for computation.

One launch tells most laws: lateness on worker 1 in every step, and the bytes that its network needs. `make test` holds
one strategy of each way in; all of them are slow.
"""

from __future__ import annotations

import pytest

from tests.support.trial import assert_agent_changes_no_weight, warm_parts

pytestmark = pytest.mark.alone

LATE_S = 0.04
LAYER = 64 * 64 + 64  # numbers in one of the two layers
WHOLE = 2 * LAYER * 4  # bytes of all gradients
ACTIVATION = 8 * 64 * 4
QUICK = ("ddp", "ddp_unused", "hand_overlapped", "fsdp2", "tp", "zero1", "pp_gpipe", "functional")

BYTES = {
    "ddp": WHOLE,
    "ddp_static": WHOLE,
    "ddp_unused": WHOLE,
    "ddp_checkpointing": WHOLE,
    "ddp_no_sync": WHOLE,
    "ddp_hook": WHOLE / 2,
    "ddp_python_reducer": WHOLE,
    "ddp_compiled": WHOLE,
    "replicate": WHOLE,
    "zero1": 2 * WHOLE,  # reduced, and the updated weights broadcast
    "fsdp2": 3 * WHOLE,  # gathered for forward and for backward, reduced
    "fsdp2_no_reshard": 2 * WHOLE,
    "fsdp2_accumulation": 5 * WHOLE,  # gathered four times, reduced once
    "hsdp": 3.5 * WHOLE,  # and what half the workers hold, reduced over both halves
    "fsdp1": 2 * WHOLE,
    "tp": ACTIVATION,
    "sp": 3 * ACTIVATION,
    "pp_gpipe": 2 * ACTIVATION,
    "pp_1f1b": 2 * ACTIVATION,
    "hand_flat": WHOLE,
    "hand_each": WHOLE,
    "hand_overlapped": WHOLE,
    "hand_future": WHOLE,
    "coalesced": WHOLE,
    "send_recv": 2 * WHOLE,  # sent and received
    "batched_p2p": 2 * WHOLE,
    "direct": WHOLE,
    "functional": WHOLE,
    "gathered": 2 * WHOLE,
    "horovod": WHOLE,
    "accelerate": WHOLE,
}
TWICE = ("ddp_no_sync", "fsdp2_accumulation")  # two forwards in a step, each of them late


def some(names, quick=QUICK):
    return [pytest.param(n, marks=() if n in quick else pytest.mark.slow) for n in names]


def parts_of(folder, kind, *asked):
    return warm_parts(folder, "strategies.py", kind, *asked, workers=4 if kind == "hsdp" else 2)


@pytest.mark.parametrize("kind", some(BYTES))
def test_a_late_worker_is_waited_for_and_named_and_bytes_are_exact(tmp_path, kind):
    """Beyond what workers wait for one another when nothing is injected."""
    quiet = parts_of(tmp_path / "quiet", kind)
    late = parts_of(tmp_path / "late", kind, "--late", str(LATE_S))
    times = 2 if kind in TWICE else 1
    assert late.straggle_s - quiet.straggle_s == pytest.approx(times * LATE_S, rel=0.1)
    assert late.wire_s - quiet.wire_s == pytest.approx(0.0, abs=0.1 * LATE_S)
    assert late.bubble_s - quiet.bubble_s == pytest.approx(0.0, abs=0.1 * LATE_S)
    assert late.slowest_worker == 1
    assert late.unseen == quiet.unseen == ()
    assert late.exchanged_bytes_per_step == BYTES[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fsdp2", "fsdp2_no_reshard", "hsdp", "sp"])
def test_lateness_that_alternates_inside_a_step_is_no_network(tmp_path, kind):
    """Worker 0 is late in forward, worker 1 in backward: each waits for the other once. Of four workers two are
    never late, and wait for both."""
    quiet = parts_of(tmp_path / "quiet", kind)
    turns = parts_of(tmp_path / "turns", kind, "--late", str(LATE_S), "--turns")
    times = 2 if kind == "hsdp" else 1
    assert turns.straggle_s - quiet.straggle_s == pytest.approx(times * LATE_S, rel=0.1)
    assert turns.wire_s - quiet.wire_s == pytest.approx(0.0, abs=0.1 * LATE_S)


SLOW_WAIT_S = 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "waits"),
    [("hand_flat", 1), ("hand_each", 4), ("hand_overlapped", 4), ("fsdp2", 6), ("fsdp1", 2), ("gathered", 2)],
)
def test_a_network_that_is_slow_for_all_is_network(tmp_path, monkeypatch, kind, waits):
    quiet = parts_of(tmp_path / "quiet", kind)
    monkeypatch.setenv("PACELINE_TEST_SLOW_WAIT_S", str(SLOW_WAIT_S))
    slow = parts_of(tmp_path / "slow", kind)
    assert slow.wire_s - quiet.wire_s == pytest.approx(waits * SLOW_WAIT_S, rel=0.1, abs=0.002)
    assert slow.slowest_worker is None


def test_workers_that_exchange_nothing_wait_for_nobody(tmp_path):
    parts = parts_of(tmp_path, "separate", "--late", str(LATE_S))
    assert parts.wire_s == parts.straggle_s == parts.exchanged_bytes_per_step == 0.0
    assert parts.slowest_worker is None


@pytest.mark.parametrize("kind", some(BYTES))
def test_weights_are_bit_identical_with_and_without_the_agent(tmp_path, kind):
    assert_agent_changes_no_weight(tmp_path, "strategies.py", kind, workers=4 if kind == "hsdp" else 2)


MUTATIONS = [
    ("hand_flat", "ProcessGroup.allreduce"),
    ("direct", "ProcessGroup.allreduce"),
    ("hand_overlapped", "Work.wait"),
    ("hand_future", "Future.wait"),
    ("coalesced", "ProcessGroup.allreduce_coalesced"),
    ("fsdp2", "ProcessGroup._allgather_base"),
    ("fsdp2", "ProcessGroup.all_gather_single"),
    ("fsdp2", "ProcessGroup.reduce_scatter_single"),
    ("zero1", "ProcessGroup.broadcast"),
    ("send_recv", "ProcessGroup.send"),
    ("send_recv", "ProcessGroup.recv"),
    ("batched_p2p", "ProcessGroup.send"),
    ("functional", "_c10d_functional.all_reduce"),
    ("functional", "_c10d_functional.wait_tensor"),
    ("sp", "_c10d_functional.reduce_scatter_tensor"),
    ("sp", "_c10d_functional.all_gather_into_tensor"),
    ("ddp", "logger"),
    ("ddp_hook", "ProcessGroup.allreduce"),
]


@pytest.mark.parametrize(
    ("kind", "lost"),
    [pytest.param(*m, marks=() if n % 6 == 0 else pytest.mark.slow) for n, m in enumerate(MUTATIONS)],
)
def test_without_one_of_the_watched_methods_the_parts_are_unknown_and_never_smaller(
    tmp_path, monkeypatch, kind, lost
):
    """The backend has counted what nobody saw, or somebody waited for what nobody saw being issued."""
    monkeypatch.setenv("PACELINE_TEST_UNWATCHED", lost)
    parts = parts_of(tmp_path, kind, "--late", str(LATE_S))
    if parts.unseen:
        assert parts.compute_s is parts.wire_s is parts.straggle_s is parts.bubble_s is parts.hidden_s is None
        assert parts.slowest_worker is None
    else:  # this torch sends it by another name
        assert parts.straggle_s == pytest.approx(LATE_S, rel=0.25)
        assert lost.startswith("ProcessGroup._") or lost.endswith("_single")


ON_DEVICE = ("ddp", "hand_overlapped", "hand_streams", "fsdp2", "tp", "zero1", "functional", "send_recv")


@pytest.mark.parametrize("kind", some(ON_DEVICE, quick=("ddp", "hand_streams", "tp")))
def test_on_a_device_events_tell_the_waits_and_nothing_synchronises(tmp_path, monkeypatch, kind):
    """On a device that refuses to be waited for while something is measured: that would be a problem of the agent's."""
    monkeypatch.setenv("PACELINE_TEST_FAKE_CUDA", "1")
    quiet = parts_of(tmp_path / "quiet", kind)
    late = parts_of(tmp_path / "late", kind, "--late", str(LATE_S))
    assert late.unseen == quiet.unseen == ()
    assert late.straggle_s - quiet.straggle_s == pytest.approx(LATE_S, rel=0.1)
    assert late.wire_s - quiet.wire_s == pytest.approx(0.0, abs=0.1 * LATE_S)
    assert late.slowest_worker == 1
