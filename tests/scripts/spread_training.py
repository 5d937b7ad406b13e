"""Train a tiny network under every strategy and keep the weights: torchrun spread_training.py FOLDER [COUNT].

With COUNT, go on from what so many workers have saved there, each strategy from what another one has saved.
"""

import sys
from pathlib import Path

import torch
from tests.scripts import equal_training as tiny
from torch.distributed.tensor import DTensor

from paceline_workloads.data.examples import WithDraws
from paceline_workloads.training.evaluation import evaluate
from paceline_workloads.training.learner import learner
from paceline_workloads.training.trainer import train
from paceline_workloads.training.workers import joined

STRATEGIES = ("ddp", "zero1", "fsdp", "hsdp")
ADAM = ("--optimizer", "adam", "--lr", "0.001")
CASES = {
    "sgd": tiny.CASES["sgd"],
    "adam": tiny.CASES["adam"],
    "lars": tiny.CASES["lars"],
    "lamb": tiny.CASES["lamb"],
    "accumulate": (*tiny.PLAIN, "--accumulate", "2", "--global-batch", "16"),
    "recomputed": (*tiny.PLAIN, "--checkpoint-activations", "--sync-batch-norm"),
    "bf16": (*tiny.CASES["adam"], "--precision", "bf16"),
}
CONTINUED = (*tiny.PLAIN, *ADAM, "--checkpoint-every", "3", "--keep", "9")
AMONG_FOUR = ("adam", "recomputed", "bf16")  # four workers are there for the groups of hsdp
ANOTHER = {"ddp": "hsdp", "zero1": "fsdp", "fsdp": "zero1", "hsdp": "ddp"}


def cases(count):
    return CASES if count < 4 else AMONG_FOUR


def weights(pupil):
    state = pupil.plain.state_dict().items()
    return {name: (v.full_tensor() if isinstance(v, DTensor) else v).clone() for name, v in state}


def trained(case, strategy, workers):
    words = (*CASES[case], "--strategy", strategy)
    return weights(
        train(tiny.task(norm=case == "recomputed"), tiny.asked(*words, workers=workers.count), workers)
    )


def saved(folder, strategy, workers):
    """A training whose checkpoint after three of six steps is all that is left."""
    words = (*CONTINUED, "--strategy", strategy, "--checkpoint", str(folder / strategy))
    train(tiny.task(), tiny.asked(*words, workers=workers.count), workers)
    if workers.first:
        for later in ("epoch-000000-step-000006.pt", "epoch-000001.pt"):
            (folder / strategy / later).unlink()


def resumed(folder, strategy, workers):
    """The weights after the other three steps."""
    words = (*CONTINUED, "--resume", "--strategy", strategy, "--checkpoint", str(folder))
    return weights(train(tiny.task(), tiny.asked(*words, workers=workers.count), workers))


def judged(strategy, workers):
    """The metrics of a network that nobody has trained."""
    pupil = learner(tiny.task(), tiny.asked("--strategy", strategy, workers=workers.count), workers)
    test = WithDraws(tiny.task().data.test, draws=1, seed=9, device=torch.device("cpu"))
    return evaluate(tiny.task(), pupil.plain, test, workers)


def main():
    torch.set_num_threads(1)
    folder, before = Path(sys.argv[1]), sys.argv[2:]
    kept = {}
    with joined("cpu") as workers:
        for strategy in STRATEGIES:
            for case in cases(workers.count):
                kept[case, strategy] = trained(case, strategy, workers)
            kept["judged", strategy] = judged(strategy, workers)
            saved(folder / f"saved-{workers.count}", strategy, workers)
            for count in before:
                place = folder / f"saved-{count}" / ANOTHER[strategy]
                kept["resumed", strategy] = resumed(place, strategy, workers)
        if workers.first:
            torch.save(kept, folder / f"{workers.count}.pt")


if __name__ == "__main__":
    main()
