"""Floating-point operations of one step, against what can be counted by hand: real processes over gloo."""

from __future__ import annotations

import pytest
import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

from paceline_agent.watch.flops import OBSERVED, Flops
from tests.support.trial import trial
from tests.support.warm import WarmLauncher

LINEAR = 2 * 8 * 64 * 64  # of one product of the batch with a layer
# forward, gradients of both layers' weights, and of what lies between them
STEP = 2 * LINEAR + 2 * LINEAR + LINEAR


def counted(folder, kind, *, script="strategies.py", warmup=4, **asked):
    told = {"workers": 2, "steps": 10, "warmup": warmup, "launcher": WarmLauncher(), **asked}
    found = trial(folder, script, kind, **told)
    assert found.state == "ok", f"{found.reason}\n{found.log_tail}"
    assert not any(worker.manifest["problems"] for worker in found.workers)
    return [(worker.manifest["flops"], worker.manifest["flops_unknown"]) for worker in found.workers]


@pytest.mark.parametrize(
    ("kind", "each"),
    [
        ("ddp", STEP),
        ("fsdp2", STEP),
        ("fsdp2_accumulation", 2 * STEP),
        (
            "ddp_checkpointing",
            STEP + 2 * LINEAR,
        ),  # the first layer's forward twice, and the gradient of its input
        ("tp", STEP // 2),  # each worker has half of every layer
        pytest.param("sp", STEP // 2, marks=pytest.mark.slow),
        pytest.param("fsdp1", STEP, marks=pytest.mark.slow),
        pytest.param("hand_overlapped", STEP, marks=pytest.mark.slow),
    ],
)
def test_every_worker_counts_what_it_computes_itself(tmp_path, kind, each):
    for flops, unknown in counted(tmp_path, kind):
        assert (flops, unknown) == ({"float32": each}, None)


def test_a_stage_of_a_pipeline_counts_its_own_layer(tmp_path):
    """Forward and weights' gradients; the second stage also the gradient of what it was sent."""
    assert [flops for flops, _ in counted(tmp_path, "pp_gpipe")] == [{"float32": n * LINEAR} for n in (2, 3)]


def test_where_nothing_can_be_counted_it_is_null_with_the_reason(tmp_path):
    assert counted(tmp_path / "a", "ddp_compiled") == [(None, "compiled code")] * 2
    assert counted(tmp_path / "b", "ddp", flops=False) == [(None, "not wanted")] * 2
    assert counted(tmp_path / "c", "ddp", warmup=2) == [(None, "too few steps of warm-up")] * 2


@pytest.fixture
def nothing_compiled(monkeypatch):
    """Another test of this process may have compiled something."""
    monkeypatch.setattr("paceline_agent.watch.flops.has_compiled", lambda: False)


def step_of(flops, *calls):
    """The one step that is counted, in this process."""
    flops.step_ended(2)
    for call in calls:
        call()
    flops.step_ended(3)


@pytest.mark.usefixtures("nothing_compiled")
def test_attention_on_cpu_counts_as_it_does_elsewhere():
    q = torch.randn(2, 4, 16, 8, requires_grad=True)
    flops = Flops(wanted=True, warmup=3)
    step_of(flops, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward())
    product = 2 * 2 * 4 * 16 * 16 * 8
    assert flops.counted == {
        "float32": (2 + 5) * product
    }  # and of the backward, which computes the first again


@pytest.mark.usefixtures("nothing_compiled")
def test_a_formula_that_fails_costs_the_count_and_not_the_training(monkeypatch):
    def broken(*args, **kwargs):
        raise ValueError("no such shape")

    monkeypatch.setitem(flop_counter.flop_registry, torch.ops.aten.mm, broken)
    flops, found = Flops(wanted=True, warmup=3), []
    step_of(flops, lambda: found.append(torch.ones(2, 2) @ torch.ones(2, 2)))
    assert torch.equal(found[0], torch.full((2, 2), 2.0))
    assert (flops.counted, flops.unknown) == (None, "ValueError: no such shape")


@pytest.mark.usefixtures("nothing_compiled")
def test_an_observer_of_the_scripts_own_is_left_where_it_is():
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    flops = Flops(wanted=True, warmup=3)
    with Own():
        step_of(flops)
    assert (flops.counted, flops.unknown) == (None, OBSERVED)
