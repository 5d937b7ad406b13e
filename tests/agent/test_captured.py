"""A step that a CUDA graph replays is a step, though no Python runs in it. Graphs here are stand-ins: no device."""

import pytest
import torch

from paceline_agent.agent import Agent
from paceline_agent.record import files
from paceline_agent.settings import Settings

STEPS_BEFORE = 3


class StandIn:
    """What the agent sees of torch.cuda.CUDAGraph; replaying computes nothing here."""

    def capture_begin(self, pool=None):
        pass

    def capture_end(self):
        pass

    def replay(self):
        pass


@pytest.fixture
def training(tmp_path, monkeypatch):
    graph_class = type("Graph", (StandIn,), {})
    agent = Agent(Settings(str(tmp_path), steps=20, warmup=2, profile=0, end=False))
    agent.recorder.active = True
    monkeypatch.setattr(
        agent, "begin", lambda: files.Heartbeat(str(tmp_path), 0)
    )  # this process is no worker
    agent.graphs.watch(agent, graph_class)
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step():
        agent.before_optimizer(optimizer, (), {})
        agent.after_backward(weight.sum())
        agent.after_optimizer(optimizer, (), {})

    return agent, graph_class, step


def test_every_replay_is_one_step_and_capturing_is_none(training):
    agent, graph_class, step = training
    for _ in range(STEPS_BEFORE):
        step()
    graph = graph_class()
    graph.capture_begin()
    step()
    graph.capture_end()
    assert agent.recorder.k == STEPS_BEFORE
    for _ in range(5):
        graph.replay()
    assert agent.recorder.k == STEPS_BEFORE + 5
    last = agent.recorder.records()[-1]
    assert last["backwards"] == 1
    assert last["graph"] is None  # nobody looked inside


def test_a_graph_without_an_optimizer_is_part_of_a_step(training):
    agent, graph_class, step = training
    graph = graph_class()
    graph.capture_begin()
    agent.after_backward(torch.ones(()))
    graph.capture_end()
    graph.replay()
    assert agent.recorder.k == 0
    step()
    assert agent.recorder.k == 1


def test_steps_are_recorded_again_after_a_capture_that_failed(training):
    agent, graph_class, step = training

    class Broken(graph_class):
        def capture_end(self):
            super().capture_end()
            raise RuntimeError("operation not permitted when stream is capturing")

    graph = Broken()
    graph.capture_begin()
    with pytest.raises(RuntimeError):
        graph.capture_end()
    step()
    assert agent.recorder.k == 1


def test_accumulated_backwards_are_counted_in_every_replay(training):
    agent, graph_class, step = training
    step()
    graph = graph_class()
    graph.capture_begin()
    agent.after_backward(torch.ones(()))
    step()
    graph.capture_end()
    graph.replay()
    graph.replay()
    assert [record["backwards"] for record in agent.recorder.records()[-2:]] == [2, 2]
