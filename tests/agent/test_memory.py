"""What a worker's memory holds, against what can be counted by hand: real processes over gloo."""

import pytest

from tests.support.trial import trial
from tests.support.warm import WarmLauncher

WIDTH, BATCH = 64, 8
LAYER = (WIDTH * WIDTH + WIDTH) * 4  # bytes of one of the two layers of strategies.py
WEIGHTS = 2 * LAYER


def uses(folder, script, *args, **asked):
    told = {"workers": 2, "steps": 10, "warmup": 5, "launcher": WarmLauncher(), **asked}
    found = trial(folder, script, *args, **told)
    assert found.state == "ok", f"{found.reason}\n{found.log_tail}"
    assert not any(worker.manifest["problems"] for worker in found.workers)
    return [worker.memory for worker in found.workers]


@pytest.mark.parametrize(
    ("kind", "weights", "gradients", "buckets"),
    [
        ("ddp", WEIGHTS, WEIGHTS, WEIGHTS),  # buckets are copies, unless gradients are views of them
        ("fsdp2", WEIGHTS // 2, WEIGHTS // 2, None),
        ("tp", WEIGHTS // 2, WEIGHTS // 2, None),
    ],
)
def test_a_worker_has_its_share_of_weights_and_gradients_to_the_byte(
    tmp_path, kind, weights, gradients, buckets
):
    for use in uses(tmp_path, "strategies.py", kind):
        if kind == "tp":  # biases of the second layer are whole on every worker
            assert weights <= use.parameters_bytes <= weights + 2 * WIDTH * 4
            continue
        assert (use.parameters_bytes, use.gradients_bytes, use.buckets_bytes) == (weights, gradients, buckets)


def test_the_memory_that_a_script_keeps_for_backward_is_found_to_the_byte(tmp_path):
    """known_memory.py keeps 40 MB per sample for backward and 10 MB of weights; DDP's buckets hold gradients."""
    for workers in (1, 2):
        for use in uses(tmp_path / str(workers), "known_memory.py", "--batch-size", "3", workers=workers):
            assert use.parameters_bytes == use.gradients_bytes == 10_000_000
            assert use.activations_bytes == pytest.approx(3 * 40_000_000, abs=200)
            # the gradient and what it is the product of, beside DDP's bucket
            peak = 150_000_000 + (10_000_000 if workers == 2 else 0)
            assert use.peak_bytes == pytest.approx(peak, abs=200)
            assert 0 <= use.held_bytes - use.peak_bytes < 200_000_000


def test_what_is_computed_again_is_not_kept(tmp_path):
    """Checkpointing keeps less when backward begins; what it computes again counts in backward's peak."""
    vit = "-m paceline_workloads.vit"
    words = ("--batch-size", "8")
    (plain,) = uses(tmp_path / "plain", vit, *words, workers=1)
    (again,) = uses(tmp_path / "again", vit, *words, "--checkpoint-activations", workers=1)
    assert again.activations_bytes < 0.3 * plain.activations_bytes
    assert again.activations_bytes < again.backward.total_bytes < plain.backward.total_bytes
    assert (
        again.optimizer_bytes == plain.optimizer_bytes == pytest.approx(2 * plain.parameters_bytes, rel=0.01)
    )


def test_where_memory_cannot_be_looked_at_nothing_is_said(tmp_path):
    assert uses(tmp_path / "short", "strategies.py", "ddp", warmup=3) == [None, None]
    assert uses(tmp_path / "compiled", "strategies.py", "ddp_compiled") == [None, None]
