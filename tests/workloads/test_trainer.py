"""Laws of the trainer that one process can show: rates, optimizers, checkpoints, resuming, refusing."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from paceline_workloads.training import checkpoint
from paceline_workloads.training.evaluation import own_chunks
from paceline_workloads.training.learner import learn, learner
from paceline_workloads.training.learning_rate import RatePlan, peak, rate, rate_of_step
from paceline_workloads.training.optimizers import optimizer
from paceline_workloads.training.trainer import _check, train
from tests.scripts import equal_training as tiny
from tests.support.desk import environment


def plan(**changed):
    usual = {
        "lr": 0.1,
        "base_batch": 32,
        "global_batch": 32,
        "rule": "none",
        "schedule": "constant",
        "warmup_samples": 0.0,
        "total_samples": 9600.0,
    }
    return RatePlan(**{**usual, **changed})


# ---------------------------------------------------------------- learning rate


@pytest.mark.parametrize(("rule", "expected"), [("none", 0.1), ("linear", 0.4), ("sqrt", 0.2)])
def test_a_rule_scales_the_rate_with_the_global_batch(rule, expected):
    assert peak(plan(rule=rule, global_batch=128)) == pytest.approx(expected)


@pytest.mark.parametrize("rule", ["none", "linear", "sqrt"])
def test_at_the_base_batch_every_rule_is_the_rate_itself(rule):
    assert peak(plan(rule=rule)) == 0.1


@pytest.mark.parametrize("schedule", ["constant", "cosine", "step"])
@pytest.mark.parametrize("batch", [48, 160, 480])
def test_the_area_under_a_schedule_does_not_depend_on_the_global_batch(schedule, batch):
    """In samples: all steps together do the same, however many workers share them. Steps end where pieces end."""
    plans = [
        plan(schedule=schedule, warmup_samples=960.0, global_batch=size, base_batch=size)
        for size in (32, batch)
    ]
    areas = [sum(rate_of_step(k, p) * p.global_batch for k in range(9600 // p.global_batch)) for p in plans]
    assert areas[1] == pytest.approx(areas[0], rel=1e-3)


def test_warm_up_rises_from_zero_in_a_straight_line_to_the_peak():
    rising = plan(warmup_samples=1000.0)
    assert [rate(s, rising) for s in (0, 250, 500, 1000, 5000)] == pytest.approx([0, 0.025, 0.05, 0.1, 0.1])


def test_cosine_ends_at_zero_and_step_drops_twice():
    assert rate(9600, plan(schedule="cosine")) == pytest.approx(0.0)
    assert rate(4800, plan(schedule="cosine")) == pytest.approx(0.05)
    dropped = [rate(s, plan(schedule="step")) for s in (4799, 4800, 7199, 7200)]
    assert dropped == pytest.approx([0.1, 0.01, 0.01, 0.001])


# ---------------------------------------------------------------- optimizers


def stepped(name, weight, gradient, **settings):
    layer = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weight]))
    usual = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "capturable": False}
    chosen = optimizer(name, layer, **{**usual, **settings})
    layer.weight.grad = torch.tensor([gradient])
    chosen.step()
    return layer.weight.detach().flatten().tolist()


def test_a_lars_step_is_a_share_of_the_weights_norm_whatever_the_gradients_norm():
    """|w| = 5: the step is 0.1 · 0.001 · 5 along the gradient, whose own length does not matter."""
    for length in (1.0, 1000.0):
        moved = stepped("lars", [3.0, 4.0], [length, 0.0])
        assert moved == pytest.approx([3.0 - 0.0005, 4.0])


def test_a_lamb_step_is_a_share_of_the_weights_norm():
    """The first Adam direction is ±1 in each place, of length √2: 0.1 · 5 / √2 in each."""
    moved = stepped("lamb", [3.0, 4.0], [1.0, -1.0])
    assert moved == pytest.approx([3.0 - 0.5 / math.sqrt(2), 4.0 + 0.5 / math.sqrt(2)], rel=1e-4)


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_a_layer_that_is_zero_still_moves(name):
    assert stepped(name, [0.0, 0.0], [1.0, 1.0])[0] < -0.01


@pytest.mark.parametrize("name", ["sgd", "adamw", "lars", "lamb"])
def test_biases_are_not_decayed(name):
    layer = nn.Linear(2, 1)
    before = layer.bias.detach().clone()
    chosen = optimizer(name, layer, lr=0.1, momentum=0.0, weight_decay=0.5, capturable=False)
    layer.weight.grad, layer.bias.grad = torch.zeros(1, 2), torch.zeros(1)
    chosen.step()
    assert torch.equal(layer.bias.detach(), before)


# ---------------------------------------------------------------- evaluation


@pytest.mark.parametrize("samples", [0, 1, 7, 10, 1003])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_chunks_of_all_workers_hold_every_sample_once(samples, workers):
    held = [own_chunks(samples, rank=r, workers=workers, size=10) for r in range(workers)]
    assert sorted(i for chunks in held for chunk in chunks for i in chunk) == list(range(samples))


# ---------------------------------------------------------------- checkpoints


def run(folder, *words):
    asked = tiny.asked("--global-batch", "16", "--checkpoint", str(folder), *words, workers=1)
    return train(tiny.task(norm=True), asked, tiny.alone())


@pytest.mark.parametrize("name", ["sgd", "adam", "lamb"])
def test_a_resumed_training_is_bit_for_bit_one_that_never_stopped(tmp_path, name):
    words = ("--optimizer", name, "--schedule", "cosine", "--warmup-epochs", "1", "--epochs", "4")
    whole = run(tmp_path / "whole", *words)
    run(tmp_path / "parts", *words, "--max-steps", "10")  # two epochs of five steps
    parts = run(tmp_path / "parts", *words, "--resume")
    for one, other in zip(whole.plain.state_dict().values(), parts.plain.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_a_training_killed_inside_an_epoch_goes_on_bit_for_bit_from_there(tmp_path):
    """Batch statistics, dropout and the epoch's mean loss included."""

    def dropping(words):
        asked = tiny.asked("--global-batch", "16", "--epochs", "3", "--keep", "9", *words, workers=1)
        task = tiny.task(norm=True)
        network = lambda: nn.Sequential(nn.Dropout(0.3), tiny.network(norm=True))  # noqa: E731 - as a task has it
        return train(replace(task, network=network), asked, tiny.alone()).plain.state_dict()

    def losses(path):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return {r["epoch"]: r["train_loss"] for r in records if "train_loss" in r}

    words = {
        name: ("--checkpoint", str(tmp_path / name), "--metrics", str(tmp_path / f"{name}.jsonl"))
        for name in ("whole", "parts")
    }
    whole = dropping((*words["whole"], "--checkpoint-every", "2"))
    dropping((*words["parts"], "--checkpoint-every", "2", "--max-steps", "10"))
    (tmp_path / "parts" / "epoch-000002.pt").unlink()  # as if killed in the fifth step of the second epoch
    newest = checkpoint.latest(tmp_path / "parts")
    parts = dropping((*words["parts"], "--checkpoint-every", "2", "--resume"))
    assert newest.name == "epoch-000001-step-000004.pt"
    assert all(torch.equal(one, other) for one, other in zip(whole.values(), parts.values(), strict=True))
    assert losses(tmp_path / "whole.jsonl") == losses(tmp_path / "parts.jsonl")


def test_resuming_with_another_global_batch_is_refused(tmp_path):
    run(tmp_path, "--epochs", "1")
    asked = tiny.asked("--global-batch", "8", "--checkpoint", str(tmp_path), "--resume", workers=1)
    with pytest.raises(SystemExit, match="global batch 16, not 0 and 8"):
        train(tiny.task(norm=True), asked, tiny.alone())


def test_only_the_last_checkpoints_are_kept(tmp_path):
    for epoch in range(1, 6):
        checkpoint.save(tmp_path, epoch, {"x": torch.ones(1) * epoch}, keep=2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["epoch-000004.pt", "epoch-000005.pt"]
    assert checkpoint.load(checkpoint.latest(tmp_path))["epoch"] == 5


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04cut short"])
def test_a_damaged_checkpoint_is_named_not_a_traceback(tmp_path, content):
    (tmp_path / "epoch-000001.pt").write_bytes(content)
    with pytest.raises(SystemExit, match=r"epoch-000001\.pt"):
        checkpoint.load(tmp_path / "epoch-000001.pt")


SAVER = """
import sys, torch
from pathlib import Path
from paceline_workloads.training import checkpoint
folder = Path(sys.argv[1])
big = torch.arange(30_000_000)
for epoch in range(1, 1000):
    checkpoint.save(folder, epoch, {"big": big, "mark": epoch}, keep=2)
    print(epoch, flush=True)
"""


def test_a_kill_in_the_middle_of_a_save_loses_nothing_that_was_committed(tmp_path):
    saver = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(tmp_path)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        committed = int(saver.stdout.readline())
        half = tmp_path / f".epoch-{committed + 1:06d}.part"
        until = time.monotonic() + 60
        while not (half.exists() and half.stat().st_size > 1_000_000):
            assert time.monotonic() < until, "no save was seen under way"
    finally:
        os.kill(saver.pid, signal.SIGKILL)
        saver.communicate()
    newest = checkpoint.load(checkpoint.latest(tmp_path))
    assert newest["mark"] == newest["epoch"] >= committed
    assert torch.equal(newest["big"], torch.arange(30_000_000))


# ---------------------------------------------------------------- what is said, what is refused


def test_metrics_are_json_lines_and_the_target_ends_the_training(tmp_path):
    path = tmp_path / "m.jsonl"
    run(tmp_path / "c", "--epochs", "50", "--target", "0.2", "--metrics", str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["record"] for line in lines] == ["start", "epoch", "end"]
    assert lines[0]["global_batch"] == 16
    assert lines[1]["samples"] == 80
    assert lines[1]["val_accuracy"] >= 0.2


def test_a_lost_loss_ends_the_training_with_its_learning_rate(tmp_path):
    with pytest.raises(SystemExit, match=r"the loss is nan after .* learning rate 1e\+30"):
        run(tmp_path, "--lr", "1e30", "--epochs", "3")


@pytest.mark.parametrize(
    ("words", "workers", "said"),
    [
        (("--global-batch", "10"), 3, "does not divide among 3 workers"),
        (("--batch-size", "0"), 1, "--batch-size 0 is less than 1"),
        (("--lr", "nan"), 1, "--lr nan is not a positive number"),
        (("--resume",), 1, "--resume needs to know from where"),
    ],
)
def test_options_that_cannot_be_are_refused(words, workers, said):
    with pytest.raises(SystemExit, match=said):
        tiny.asked(*words, workers=workers)


@pytest.mark.parametrize("workers", [1, 81])
def test_a_batch_or_a_worker_count_larger_than_the_data_is_refused(workers):
    asked = tiny.asked("--batch-size", "81" if workers == 1 else "1", workers=workers)
    with pytest.raises(SystemExit, match="takes 81 samples and there are 80"):
        _check(tiny.task(), asked, workers=workers)


# ---------------------------------------------------------------- exchange


@pytest.mark.parametrize("compiled", [False, True])
def test_accumulated_backwards_are_exchanged_once_also_inside_compile(monkeypatch, compiled):
    """What compile returns hides the DDP module; gradients must still wait for the last backward."""

    class Hiding(nn.Module):
        def __init__(self, network):
            super().__init__()
            self.inner = network

        def forward(self, images):
            return self.inner(images)

    monkeypatch.setattr(torch, "compile", Hiding)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        asked = tiny.asked("--accumulate", "3", *(["--compile"] if compiled else []), workers=1)
        pupil = learner(tiny.task(), asked, tiny.alone())
        exchanged = []

        def counted(state, bucket):
            exchanged.append(bucket.index())
            return default_hooks.allreduce_hook(torch.distributed.group.WORLD, bucket)

        pupil.exchange.register_comm_hook(None, counted)
        inputs, targets = tiny.examples(12, 1).batch(torch.arange(12))
        learn(pupil, [(inputs, targets, torch.zeros(12, 1))] * 3)
        assert exchanged == [0]
    finally:
        torch.distributed.destroy_process_group()
