"""The hook on the network: which module it is on, and that nothing of it stays. In this process."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch

from paceline_agent.record.recorder import Recorder
from paceline_agent.watch.network import Network, ids_in


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def watched(network):
    """The network of an agent whose first step has ended."""
    recorder = Recorder()
    recorder.active = True
    found = Network(SimpleNamespace(recorder=recorder))
    modules = [torch.nn.Linear(2, 2), *network.modules()]
    found.meet(modules, torch.optim.SGD(network.parameters(), lr=0.1))
    return found, recorder


def stepped(found, recorder, *calls):
    for call, x in calls:
        call(x)
    found.step_ended()
    recorder.close_step(float(recorder.k), 0.0)
    return recorder.records()[-1]


def seen(record):
    return record["forwards"], record["entered"], record["tokens"]


def test_the_module_that_holds_all_that_is_trained_is_listened_to_once_it_was_called():
    network = Holder()
    found, recorder = watched(network)
    assert seen(stepped(found, recorder, (network, torch.ones(3, 4)))) == (None, None, None)
    assert seen(stepped(found, recorder, (network, torch.ones(3, 4)), (network, torch.ones(5, 4)))) == (
        2,
        8,
        None,
    )
    assert not network.encoder._forward_pre_hooks
    with torch.no_grad():  # what is only evaluated trains nothing
        assert seen(stepped(found, recorder, (network, torch.ones(3, 4)))) == (0, None, None)


def test_where_it_is_never_called_the_first_of_its_parts_that_is_counts():
    network = Holder()
    found, recorder = watched(network)
    calls = ((network.encoder, torch.ones(3, 4)), (network.decoder, torch.ones(7, 4)))
    stepped(found, recorder, *calls)
    assert seen(stepped(found, recorder, *calls)) == (1, 3, None)


def test_what_is_saved_or_copied_with_its_module_does_nothing_and_needs_no_agent():
    network = Holder()
    found, recorder = watched(network)
    stepped(found, recorder, (network, torch.ones(3, 4)))
    saved = pickle.dumps(network)
    assert b"paceline" not in saved
    for other in (pickle.loads(saved), copy.deepcopy(network)):
        assert seen(stepped(found, recorder, (other, torch.ones(3, 4)))) == (0, None, None)
        assert torch.equal(other(torch.ones(3, 4)), network.decoder(network.encoder(torch.ones(3, 4))))


def test_nothing_stays_when_the_measured_steps_are_over():
    network = Holder()
    found, recorder = watched(network)
    stepped(found, recorder, (network, torch.ones(3, 4)))
    found.close()
    assert not any(module._forward_pre_hooks for module in network.modules())


@pytest.mark.parametrize(
    ("batch", "tokens"),
    [
        (torch.ones(2, 8, dtype=torch.long), 16),
        (torch.ones(1, 96, dtype=torch.int32), 96),
        (torch.ones(2, 8), None),  # numbers that are no ids
        (torch.ones(2, 8, dtype=torch.uint8), None),  # pixels
        (torch.ones(8, dtype=torch.long), None),
    ],
)
def test_ids_are_whole_numbers_in_sequences(batch, tokens):
    assert ids_in(batch) == tokens


def test_the_ids_are_what_counts_whatever_else_is_given():
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(10, 4)

        def forward(self, mask=None, *, input_ids):
            return self.words(input_ids)

    network = Words()
    found, recorder = watched(network)

    def call(ids):
        return network(torch.ones(3, 1), input_ids=ids)

    ids = torch.ones(3, 8, dtype=torch.long)
    stepped(found, recorder, (call, ids))
    assert seen(stepped(found, recorder, (call, ids))) == (1, 3, 24)
