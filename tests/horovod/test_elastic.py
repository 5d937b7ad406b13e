"""Elastic training goes on from its last commit after a worker is lost, and processes every sample once."""

import subprocess
import sys

from paceline_horovod.torch.elastic import ElasticSampler
from tests.horovod.test_calls import SCRIPTS


def test_a_sampler_deals_out_what_is_left():
    sampler = ElasticSampler(range(6), shuffle=False)
    sampler.record_batch(0, 2)
    sampler.reset()
    assert list(sampler) == [2, 3, 4, 5]
    other = ElasticSampler(range(6), shuffle=False)
    other.load_state_dict(sampler.state_dict())
    assert list(other) == [2, 3, 4, 5]
    sampler.set_epoch(1)
    assert len(sampler) == 6


def test_shuffling_differs_by_epoch_and_repeats_by_seed():
    one, two = ElasticSampler(range(50), seed=3), ElasticSampler(range(50), seed=3)
    assert list(one) == list(two)
    assert sorted(one) == list(range(50))
    two.set_epoch(1)
    assert list(one) != list(two)


def test_after_the_loss_of_a_worker_training_goes_on_from_the_last_commit(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    script = ["-m", "paceline_horovod", str(SCRIPTS / "horovod_elastic.py"), str(tmp_path)]
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    done = subprocess.run([*launcher, *rendezvous, *script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "steps 6" in done.stdout  # 24 samples / (2 workers × 4), twice, none lost and none repeated
    assert done.stdout.count("reset") == 2
    lines = [line.split() for r in (0, 1) for line in (tmp_path / f"seen-{r}.txt").read_text().splitlines()]
    for epoch in "01":
        assert sorted(int(i) for line in lines if line[1] == epoch for i in line[2:]) == list(range(24))
    assert {line[0] for line in lines} == {"0", "1"}
