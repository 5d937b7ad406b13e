"""N workers at global batch B are one worker at batch B; every worker count judges alike."""

import pytest
import torch

from tests.scripts import equal_training as tiny
from tests.support.desk import SCRIPTS
from tests.support.warm import run_ranks


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What two and what three workers came to."""
    folder = tmp_path_factory.mktemp("equal")
    for workers in (2, 3):
        for code, output in run_ranks(workers, SCRIPTS / "equal_training.py", folder):
            assert code == 0, output
    return {int(path.stem): torch.load(path, weights_only=True) for path in folder.glob("*.pt")}


@pytest.fixture(scope="module")
def alone():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield {case: tiny.trained(case, tiny.alone()) for case in tiny.CASES}
    torch.set_num_threads(threads)


def farthest(one, other):
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("case", ["sgd", "adam", "lars", "lamb", "accumulate", "sync-batch-norm", "warm-up"])
def test_workers_at_one_global_batch_train_as_one_worker_does(alone, together, case, workers):
    fresh = tiny.task(norm="batch-norm" in case)
    torch.manual_seed(0)
    assert farthest(alone[case], fresh.network().state_dict()) > 1e-3, "nothing was learned"
    assert farthest(alone[case], together[workers]["weights"][case]) < 1e-6


def test_without_shared_statistics_batch_normalisation_makes_workers_differ(alone, together):
    assert farthest(alone["local-batch-norm"], together[2]["weights"]["local-batch-norm"]) > 1e-4


@pytest.mark.parametrize("case", ["fp16-exchange", "powersgd-exchange"])
def test_a_compressed_exchange_changes_the_weights_a_little(alone, together, case):
    assert 1e-8 < farthest(alone[case], together[2]["weights"][case]) < 1e-2


@pytest.mark.parametrize("workers", [2, 3])
def test_any_worker_count_judges_bit_for_bit_alike(together, workers):
    """1,003 samples divide neither by two nor by three, nor into chunks."""
    assert together[workers]["metrics"] == tiny.judged(tiny.alone())
