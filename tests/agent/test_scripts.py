"""Unmodified scripts of every common kind are measured: real processes, gloo, two workers."""

from __future__ import annotations

import shutil

import pytest

from tests.support.trial import measured
from tests.support.warm import WarmLauncher

WARMUP, STEPS, PROFILE = 6, 20, 5  # as tests.support.trial asks; the profile is the study's own
LINEAR_64 = 4 * (64 * 64 + 64)
TWO_LAYERS = LINEAR_64 + 4 * (64 + 1)


@pytest.mark.parametrize(
    ("script", "args", "gradient_bytes"),
    [
        ("-m scripts.plain_ddp", (), TWO_LAYERS),
        ("plain_ddp.py", ("--loader-workers", "2", "--slow-exchange", "0.001"), TWO_LAYERS),
        ("lightning_ddp.py", (), TWO_LAYERS + 2 * 4),  # it reduces two flags of its own per step
        ("accelerate_ddp.py", (), TWO_LAYERS),
        ("amp_ddp.py", (), TWO_LAYERS),
        ("two_optimizers.py", (), 2 * 4 * (32 * 32 + 32)),
        ("by_hand.py", (), LINEAR_64),
    ],
)
def test_a_script_that_exchanges_gradients_shows_their_bytes_and_its_step(
    tmp_path, monkeypatch, script, args, gradient_bytes
):
    """A module is run as Python would run it, a user's comm hook is kept, all workers end at the same step."""
    monkeypatch.setenv("PYTHONPATH", "tests")
    launcher = None if "plain_ddp" in script else WarmLauncher()
    result, split = measured(tmp_path, script, *args, launcher=launcher)
    assert split.exchanged_bytes_per_step == gradient_bytes
    assert split.step_s > 0
    assert split.wire_s is not None
    assert [worker.rank for worker in result.workers] == [0, 1]
    assert {worker.samples[-1].k for worker in result.workers} == {WARMUP + STEPS + PROFILE}
    if script != "by_hand.py":
        assert split.per_worker_batch == (32 if "plain_ddp" in script else 16)
    if "--slow-exchange" in args:
        assert result.workers[1].manifest["ddp_flags"]["comm_hook"] == "delayed_hook"


def test_workers_that_the_script_spawns_itself_are_measured_with_the_users_own_hook(tmp_path):
    result, split = measured(tmp_path, "spawn_ddp.py", "2", start="script")
    assert split.exchanged_bytes_per_step == LINEAR_64 / 2  # its hook sends half precision
    assert result.workers[0].manifest["ddp_flags"]["comm_hook"] == "fp16_compress_hook"


def test_accumulation_exchanges_once_per_step(tmp_path):
    result, split = measured(
        tmp_path, "plain_ddp.py", "--accumulate", "4", "--batch-size", "8", launcher=WarmLauncher()
    )
    sample = result.workers[0].samples[-1]
    assert (sample.backwards, len(sample.exchanges)) == (4, 1)
    assert split.per_worker_batch == 32  # what one step consumes


def test_sharded_training_gives_step_time_memory_and_bytes(tmp_path):
    _, split = measured(tmp_path, "fsdp2.py", launcher=WarmLauncher())
    assert split.step_s > 0
    assert split.peak_memory_bytes > 1e7
    # each of two layers: gathered for forward and for backward at most, reduced once
    assert 2 * LINEAR_64 * 2 <= split.exchanged_bytes_per_step <= 2 * LINEAR_64 * 3
    assert split.wire_s > 0  # on CPU its collectives block, so their waits are seen


def test_a_one_process_script_is_measured_at_one_worker(tmp_path):
    _, split = measured(tmp_path, "alone.py", workers=1, launcher=WarmLauncher())
    assert split.compute_s == split.step_s
    assert split.wire_s == split.straggle_s == 0.0
    assert split.per_worker_batch == 16


def test_workers_that_exchange_nothing_are_measured_and_seen(tmp_path):
    result, split = measured(tmp_path, "alone.py", workers=2, launcher=WarmLauncher())
    assert split.exchanged_bytes_per_step == 0
    prints = {tuple(worker.manifest["batch_fingerprint"]) for worker in result.workers}
    assert len(prints) == 1  # both took the same batches


def test_a_sitecustomize_of_the_users_still_runs(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / "sitecustomize.py").write_text(f"open({str(home / 'ran')!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(home))
    measured(tmp_path, "alone.py", workers=1, start="script")
    assert (home / "ran").exists()


def test_a_compiled_network_is_measured(tmp_path):
    """torch.compile traces what the agent has patched: neither may break the other."""
    if shutil.which("g++") is None:
        pytest.skip("torch.compile on CPU needs a C++ compiler")
    _, split = measured(tmp_path, "plain_ddp.py", "--compile", workers=1, launcher=WarmLauncher())
    assert split.per_worker_batch == 32


def test_what_no_pickle_takes_is_no_trouble(tmp_path):
    result, split = measured(tmp_path, "unpicklable.py", workers=1, start="script", launcher=WarmLauncher())
    assert split.per_worker_batch == 4
    assert result.workers[0].manifest["problems"] == []
