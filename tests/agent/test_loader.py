"""What the agent says of the data is about what was trained on, also where a script evaluates first."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from paceline_agent.agent import Agent
from paceline_agent.settings import Settings
from paceline_agent.watch.loader import fingerprint, learnt_from, watch_loaders


@pytest.fixture
def agent(tmp_path, monkeypatch):
    for name in ("__init__", "__next__"):  # put back what the agent wraps
        monkeypatch.setattr(_BaseDataLoaderIter, name, getattr(_BaseDataLoaderIter, name))
    watching = Agent(Settings(str(tmp_path), steps=20, warmup=2, profile=0, end=False))
    watching.recorder.active = True
    watch_loaders(watching)
    return watching


def batches(size, start):
    return DataLoader(TensorDataset(torch.arange(start, start + size, dtype=torch.float32)), batch_size=8)


def test_the_data_set_is_the_one_that_was_trained_on(agent):
    for _ in batches(40, start=0):  # an evaluation before the first step
        pass
    for _ in batches(80, start=1000):
        learnt_from(agent)
    assert agent.loader_info["dataset_size"] == 80


def test_batches_of_an_evaluation_are_not_compared_over_workers(agent):
    for _ in batches(40, start=0):
        pass
    trained = []
    for (values,) in batches(80, start=1000):
        trained.append(fingerprint(values))
        learnt_from(agent)
    assert agent.fingerprints == trained[:3]


def test_a_step_without_a_loader_says_nothing_about_data(agent):
    learnt_from(agent)
    assert agent.loader_info == {}
    assert agent.fingerprints == []
