"""Where a step is when it communicates is read off the stack."""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace

import torch

from paceline_agent.watch.phases import Phases


def known():
    phases = Phases()
    phases.learn(torch)
    return phases


def test_a_forward_is_told_from_what_is_around_it():
    phases = known()

    class Asks(torch.nn.Module):
        def forward(self, x):
            return phases.now()

    assert torch.nn.Sequential(Asks())(1) == "forward"
    assert phases.now() == "other"
    phases.in_optimizer = True
    assert phases.now() == "optimizer"
    phases.backward_depth = 1
    assert phases.now() == "backward"


def decorated(method):
    @functools.wraps(method)
    def inner(*args):
        return method(*args)

    return inner


def test_an_engine_that_communicates_around_torchs_own_calls_says_where_it_is(monkeypatch):
    """DeepSpeed reduces gradients after autograd's backward, and sends weights after torch's optimizer."""
    phases = known()

    class Engine:
        @decorated
        def backward(self):
            return phases.now()

        def step(self):
            return phases.now()

    phases.learn_engines()
    assert (Engine().backward(), Engine().step()) == ("other", "other")
    engines = SimpleNamespace(DeepSpeedEngine=Engine)
    monkeypatch.setitem(sys.modules, "deepspeed.runtime.engine", engines)
    phases.learn_engines()
    assert (Engine().backward(), Engine().step()) == ("backward", "optimizer")
