"""Whatever the strategy, N workers train as one does, judge alike, and go on where others have stopped."""

import shutil

import pytest
import torch
from torch import nn

from paceline_workloads.training.spread import recomputing
from tests.scripts import equal_training as tiny
from tests.scripts import spread_training as spread
from tests.support.desk import SCRIPTS
from tests.support.warm import run_ranks
from tests.workloads.test_trainer_workers import farthest

SPREAD = ("zero1", "fsdp", "hsdp")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two workers have trained and saved under every strategy, and four went on."""
    folder = tmp_path_factory.mktemp("spread")
    for command in ((2,), (4, 2)):
        for code, output in run_ranks(command[0], SCRIPTS / "spread_training.py", folder, *command[1:]):
            assert code == 0, output
    return folder


@pytest.fixture(scope="module")
def together(folder):
    return {count: torch.load(folder / f"{count}.pt", weights_only=True) for count in (2, 4)}


@pytest.fixture(scope="module")
def alone():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield {case: spread.trained(case, "ddp", tiny.alone()) for case in spread.CASES}
    torch.set_num_threads(threads)


@pytest.mark.parametrize("strategy", spread.STRATEGIES)
@pytest.mark.parametrize(
    ("workers", "case"),
    [(count, case) for count in (2, 4) for case in spread.cases(count) if case != "bf16"],
)
def test_workers_train_as_one_worker_does_under_every_strategy(alone, together, workers, case, strategy):
    torch.manual_seed(0)
    fresh = tiny.task(norm=case == "recomputed").network().state_dict()
    assert farthest(alone[case], fresh) > 1e-3, "nothing was learned"
    assert farthest(alone[case], together[workers][case, strategy]) < 1e-6


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("strategy", SPREAD)
def test_in_half_precision_strategies_differ_by_nothing_but_the_order_of_a_sum(together, strategy, workers):
    """One worker is no reference here: its gradients are rounded once per step, those of N workers N times."""
    kept = together[workers]
    assert farthest(kept["bf16", "ddp"], kept["bf16", strategy]) < 1e-6
    assert farthest(kept["bf16", "ddp"], kept["adam", "ddp"]) > 1e-6, "precision changed nothing"


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("strategy", spread.STRATEGIES)
def test_every_strategy_judges_bit_for_bit_as_one_worker_does(together, strategy, workers):
    """1,003 samples are five chunks: with four workers, three of them have none in the second round."""
    assert together[workers]["judged", strategy] == spread.judged("ddp", tiny.alone())


@pytest.mark.parametrize("strategy", spread.STRATEGIES)
def test_four_workers_go_on_where_two_stopped_under_another_strategy(alone, together, strategy):
    assert farthest(alone["adam"], together[4]["resumed", strategy]) < 1e-6


@pytest.mark.parametrize("strategy", spread.STRATEGIES)
def test_one_worker_goes_on_where_four_stopped_under_any_strategy(alone, folder, tmp_path, strategy):
    shutil.copytree(folder / "saved-4" / strategy, tmp_path / strategy)
    assert farthest(alone["adam"], spread.resumed(tmp_path / strategy, "ddp", tiny.alone())) < 1e-6


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 2)],
        [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True)), nn.Linear(4, 2)],
    ],
    ids=["single layers", "blocks"],
)
def test_what_is_computed_again_gives_the_same_gradients_and_running_statistics(layers):
    """Computed twice, a batch must not count twice, and dropout must drop the same."""
    network, batch = nn.Sequential(*layers), torch.randn(8, 4)
    start = {name: value.clone() for name, value in network.state_dict().items()}

    def after_one_step():
        torch.manual_seed(3)
        network.zero_grad()
        network(batch).square().sum().backward()
        return [p.grad.clone() for p in network.parameters()] + [b.clone() for b in network.buffers()]

    plain = after_one_step()
    network.load_state_dict(start)
    recomputing(network)
    assert all(torch.equal(a, b) for a, b in zip(plain, after_one_step(), strict=True))


def test_computing_again_keeps_fewer_activations():
    """Nine layers in three turns: three inputs are kept, and within one turn what that one saves."""
    network = nn.Sequential(*(nn.Tanh() for _ in range(9)))

    def kept():
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
            network(torch.randn(4, requires_grad=True))
        return len(set(saved))

    assert kept() == 9
    recomputing(network)
    assert kept() == 3


@pytest.mark.parametrize(
    ("words", "workers", "said"),
    [
        (("--strategy", "hsdp"), 3, "hsdp needs groups of one size, and there are 3 workers"),
        (("--strategy", "fsdp", "--exchange", "fp16"), 2, "--exchange fp16 needs whole weights"),
        (("--strategy", "hsdp", "--channels-last"), 2, "--channels-last needs whole weights"),
        (("--strategy", "fsdp", "--lr-rule", "adascale"), 2, "--lr-rule adascale needs whole weights"),
        (("--strategy", "zero1", "--cuda-graph"), 2, "--cuda-graph captures a step of ddp, not of zero1"),
    ],
)
def test_a_strategy_that_does_not_go_with_another_option_is_refused(words, workers, said):
    with pytest.raises(SystemExit, match=said):
        tiny.asked(*words, workers=workers)
