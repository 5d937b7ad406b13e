"""What a backend counts is compared with what was seen, whether or not it was asked about each operation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paceline_agent.record import step_graph
from paceline_agent.watch import groups
from paceline_agent.watch.communications import Communications

TENSOR = SimpleNamespace(nbytes=64, dtype="torch.float32", is_cuda=False)


class Backend:
    """Counts operations, and how often it was asked."""

    def __init__(self):
        self.counted = self.asked = 0
        self.group_name = "0"

    def size(self):
        return 2

    def _get_sequence_number_for_group(self):
        self.asked += 1
        return self.counted


@pytest.fixture
def backend(monkeypatch):
    made = Backend()
    monkeypatch.setattr(groups, "groups_here", lambda: [made])
    monkeypatch.setattr(groups, "_name_and_ranks", lambda group, size: ("0", [0, 1]))
    return made


def watching():
    return Communications(SimpleNamespace(active=True), SimpleNamespace(now=lambda: "backward"))


def one_step(seen, backend, moves, *, unseen=0):
    """Operations that move the backend's count by so much each, and some that nobody sees; why not all was seen."""
    seen.open(True)
    for moved in moves:
        before = seen.about_to_issue(backend, "allreduce")
        backend.counted += moved
        seen.issued("all_reduce", "allreduce", before, 1.0, 1.1, ([TENSOR],), None)
    backend.counted += unseen
    return seen.close(0.0).unseen


def test_of_a_method_that_is_known_the_backend_is_asked_at_the_ends_of_a_step_only(backend):
    seen = watching()
    assert one_step(seen, backend, [1] * 5) == {}
    backend.asked = 0
    assert one_step(seen, backend, [1] * 5) == {}
    assert backend.asked == 2


def test_an_operation_that_nobody_saw_is_missed_though_the_backend_was_not_asked(backend):
    seen = watching()
    one_step(seen, backend, [1])
    assert one_step(seen, backend, [1], unseen=3) == {step_graph.MISSED: 3}


def test_a_method_that_comes_to_count_otherwise_costs_one_step(backend):
    seen = watching()
    one_step(seen, backend, [1, 1])
    assert one_step(seen, backend, [2, 2]) == {step_graph.MISSED: 2}
    assert one_step(seen, backend, [2, 2]) == {}


def test_a_backend_that_counts_nothing_is_asked_once_and_leaves_the_step_unknown(backend, monkeypatch):
    def refuse():
        backend.asked += 1
        raise RuntimeError

    monkeypatch.setattr(backend, "_get_sequence_number_for_group", refuse)
    seen = watching()
    for _ in range(3):
        assert one_step(seen, backend, [1] * 5) == {step_graph.UNCOUNTED: 1}
    assert backend.asked == 1


def test_a_group_that_is_made_inside_a_step_leaves_that_step_unknown_and_no_other(backend, monkeypatch):
    seen = watching()
    one_step(seen, backend, [1])
    seen.open(True)
    later = Backend()
    monkeypatch.setattr(groups, "groups_here", lambda: [backend, later])
    assert seen.close(0.0).unseen == {step_graph.GROUP_MADE: 1}
    assert one_step(seen, later, [1]) == {}
