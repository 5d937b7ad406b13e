"""Train a tiny network in many ways and keep the weights: torchrun equal_training.py FOLDER."""

import sys
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from paceline_workloads import mnist
from paceline_workloads.data.examples import Data, Examples, WithDraws
from paceline_workloads.training.evaluation import evaluate
from paceline_workloads.training.options import options
from paceline_workloads.training.task import Task, class_sums, classification_metrics
from paceline_workloads.training.trainer import train
from paceline_workloads.training.workers import Workers, joined

PLAIN = ("--global-batch", "12", "--max-steps", "6", "--epochs", "1", "--lr", "0.05")
CASES = {
    "sgd": PLAIN,
    "adam": (*PLAIN, "--optimizer", "adam", "--lr", "0.001"),
    "lars": (*PLAIN, "--optimizer", "lars", "--lr", "1.0", "--weight-decay", "0.01"),
    "lamb": (*PLAIN, "--optimizer", "lamb", "--lr", "0.01"),
    "accumulate": (*PLAIN, "--accumulate", "2"),
    "sync-batch-norm": (*PLAIN, "--sync-batch-norm"),
    "local-batch-norm": PLAIN,
    "warm-up": (*PLAIN, "--warmup-epochs", "0.5", "--schedule", "cosine", "--lr-rule", "linear"),
    "fp16-exchange": (*PLAIN, "--exchange", "fp16"),
    "powersgd-exchange": (*PLAIN, "--exchange", "powersgd"),
}


def examples(count, seed):
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=chance)
    images = torch.randint(256, (count, 1, 6, 6), generator=chance) // 2 + 60 * labels.view(-1, 1, 1, 1)
    return Examples(images.byte(), labels)


def network(norm):
    middle = [nn.BatchNorm2d(4)] if norm else []
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), *middle, nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 3)
    )


def noisy(images, labels, draws):
    return images / 255.0 + 0.1 * draws[:, :1].view(-1, 1, 1, 1), labels


def task(norm=False):
    return Task(
        name="tiny",
        data=Data(examples(80, 1), examples(1003, 2), "made for a test", True),
        network=partial(network, norm),
        learning=noisy,
        judging=noisy,
        loss=F.cross_entropy,
        sums=class_sums,
        metrics=classification_metrics,
        draws=1,
        classes=3,
    )


def asked(*words, workers):
    return options(mnist.FLAGS.parse_args(["--device", "cpu", *words]), flags=mnist.FLAGS, workers=workers)


def trained(case, workers):
    """The state of the network after this case."""
    pupil = train(task(norm="batch-norm" in case), asked(*CASES[case], workers=workers.count), workers)
    return {name: value.clone() for name, value in pupil.plain.state_dict().items()}


def judged(workers):
    """The metrics of a fresh network."""
    torch.manual_seed(5)
    chosen = task()
    test = WithDraws(chosen.data.test, draws=1, seed=9, device=torch.device("cpu"))
    return evaluate(chosen, network(False), test, workers)


def alone():
    return Workers(0, 1, torch.device("cpu"))


def main():
    torch.set_num_threads(1)
    with joined("cpu") as workers:
        kept = {case: trained(case, workers) for case in CASES}
        metrics = judged(workers)
        if workers.first:
            torch.save({"weights": kept, "metrics": metrics}, Path(sys.argv[1]) / f"{workers.count}.pt")


if __name__ == "__main__":
    main()
