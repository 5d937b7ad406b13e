"""How much a step consumes, whoever feeds it: real processes over gloo at 1 and 2 workers."""

from __future__ import annotations

import pytest

from paceline.analysis.study import study_analysis
from paceline.records import Study, Workload
from tests.support.trial import SCRIPTS, run_points
from tests.support.warm import WarmLauncher


def analysed(folder, script, kind, *, workers=(1, 2)):
    workload = Workload("script", str(SCRIPTS / script), (kind,))
    study = Study(workload, workers=workers, repeats=1, steps=12, warmup=4, timeout_s=120.0)
    analysis = study_analysis(study, run_points(folder, study, WarmLauncher()), {})
    return {profile.point.workers: profile for profile in analysis.points}, {f.id for f in analysis.findings}


@pytest.mark.parametrize(
    ("kind", "batches", "scaling", "said"),
    [
        ("plain", (8, 16), "weak", set()),
        ("accumulated", (24, 48), "weak", set()),
        ("divided", (32, 32), "strong", set()),
        ("parted", (8, 8), "strong", {"batch-witnesses"}),
        ("views", (8, 16), "weak", {"batch-witnesses"}),
        ("dispatched", (8, 8), "strong", set()),
    ],
)
def test_the_global_batch_is_what_all_workers_consume_together(tmp_path, kind, batches, scaling, said):
    at, found = analysed(tmp_path, "batches.py", kind)
    assert tuple(at[n].point.global_batch for n in (1, 2)) == batches
    assert at[2].point.scaling == scaling
    for profile in at.values():
        assert profile.throughput_per_s.value == pytest.approx(
            profile.point.global_batch / profile.step_s.value, rel=0.01
        )
    witnesses = {
        "batch-differs",
        "batch-unseen",
        "batch-varies",
        "batch-witnesses",
        "same-data",
        "no-exchange",
    }
    assert found & witnesses == said


def test_ids_are_tokens_padded_or_packed(tmp_path):
    for kind in ("padded", "packed"):
        at, _ = analysed(tmp_path / kind, "batches.py", kind, workers=(2,))
        assert at[2].tokens_per_s.value * at[2].step_s.value == pytest.approx(2 * 96, rel=0.01)
    at, _ = analysed(tmp_path / "plain", "batches.py", "plain", workers=(1,))
    assert at[1].tokens_per_s is None


def test_what_enters_is_seen_where_the_outermost_module_is_never_called(tmp_path):
    at, _ = analysed(tmp_path, "batches.py", "inner", workers=(1,))
    assert at[1].point.global_batch == 8


UNSOUND = {
    "no-exchange",
    "replicas-differ",
    "same-data",
    "batch-differs",
    "batch-witnesses",
    "exchange-every-micro-step",
}


def test_pairs_that_hold_a_copy_together_are_two_replicas(tmp_path):
    at, found = analysed(tmp_path, "strategies.py", "fsdp2_tp", workers=(4,))
    assert found & UNSOUND == set()
    assert (at[4].strategy, at[4].replicas, at[4].point.global_batch) == ("fsdp2 + tp", 2, 16)


@pytest.mark.parametrize(
    ("kind", "strategy", "copies", "batch"),
    [
        ("tp", "tp", 1, 8 // 4),
        ("sp", "tp + sp", 1, 8 // 4),
        ("pp_gpipe", "pp", 1, 8),
        pytest.param("pp_1f1b", "pp", 1, 8, marks=pytest.mark.slow),
        ("fsdp1", "fsdp1", 2, 16),
        ("hand_shares", "hand-written", 2, 16),
        ("fsdp2", "fsdp2", 2, 16),
        ("fsdp2_accumulation", "fsdp2", 2, 32),
        pytest.param("send_recv", "hand-written", 2, 16, marks=pytest.mark.slow),
        pytest.param("zero1", "zero1", 2, 16, marks=pytest.mark.slow),
    ],
)
def test_workers_are_one_training_whatever_is_spread_over_them(tmp_path, kind, strategy, copies, batch):
    at, found = analysed(tmp_path, "strategies.py", kind, workers=(2,))
    assert found & UNSOUND == set()
    assert (at[2].strategy, at[2].replicas, at[2].point.global_batch) == (strategy, copies, batch)
    assert at[2].throughput_per_s.value == pytest.approx(batch / at[2].step_s.value, rel=0.01)


def test_workers_without_exchange_are_still_several_trainings(tmp_path):
    _, found = analysed(tmp_path, "strategies.py", "separate", workers=(2,))
    assert {"no-exchange", "replicas-differ"} <= found
