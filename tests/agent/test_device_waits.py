"""Waits on a CUDA device, without one: operations that stand in the stream's order and come back without a Work.

The host knows nothing of such a wait: what it took to hand the operation over is no wait of anybody.
"""

from types import SimpleNamespace

import pytest

from paceline_agent.record import step_graph
from paceline_agent.watch.communications import Communications


class Group:
    name, ranks, seen, learned = "world", [0, 1], 0, {}

    def count(self):
        return None


class Device:
    """Marks are numbers."""

    def __init__(self, *, capturing=False):
        self.made, self.capturing = 0, capturing

    def mark(self, stream=None):
        self.made += 1
        return None if self.capturing else f"mark {self.made}"


class Streams:
    def __init__(self, *, side):
        self.side, self.carried = side, []

    def takes(self, communication):
        if self.side:
            self.carried.append(communication)
        return self.side


TENSOR = SimpleNamespace(nbytes=64, dtype="torch.float32", is_cuda=True)
ON_HOST = SimpleNamespace(nbytes=64, dtype="torch.float32", is_cuda=False)


def watched(device, *, side=False):
    seen = Communications(SimpleNamespace(active=True), SimpleNamespace(now=lambda: "backward"))
    seen.device, seen.streams, seen.on = device, Streams(side=side), True
    seen.groups = SimpleNamespace(of=lambda called: Group())
    return seen


def test_without_a_work_the_wait_is_between_marks_of_the_stream():
    seen = watched(Device())
    seen.issued(
        "all_reduce", "all_reduce", seen.about_to_issue("group", "all_reduce"), 1.0, 1.0001, ([TENSOR],), None
    )
    (communication,) = seen.graph.communications
    assert (communication.owed, communication.waits) == (None, [("mark 1", "mark 2")])


def test_on_the_host_the_same_blocks_and_is_timed_there():
    seen = watched(Device())
    seen.issued(
        "all_reduce", "all_reduce", seen.about_to_issue("group", "all_reduce"), 1.0, 1.5, ([ON_HOST],), None
    )
    (communication,) = seen.graph.communications
    assert (communication.owed, communication.waits) == (None, [(1.0, 1.5)])


@pytest.mark.parametrize("device", [None, Device(capturing=True)], ids=["none yet", "captured"])
def test_where_nothing_can_be_marked_the_wait_is_unknown_and_not_short(device):
    seen = watched(device)
    seen.issued(
        "all_reduce", "all_reduce", seen.about_to_issue("group", "all_reduce"), 1.0, 1.0001, ([TENSOR],), None
    )
    (communication,) = seen.graph.communications
    assert (communication.owed, communication.waits) == (step_graph.NOT_TIMED, [])


def test_on_a_side_stream_the_wait_is_the_computing_streams():
    seen = watched(Device(), side=True)
    seen.issued(
        "all_gather", "all_gather", seen.about_to_issue("group", "all_gather"), 1.0, 1.0001, ([TENSOR],), None
    )
    (communication,) = seen.graph.communications
    assert seen.streams.carried == [communication]
    assert (communication.owed, communication.waits) == (step_graph.NEVER_WAITED, [])


def test_operations_that_were_joined_and_give_no_work_are_waited_for_as_one():
    seen = watched(Device())
    group = Group()
    seen.groups = SimpleNamespace(of=lambda called: group)
    seen.begin_joined(seen.about_to_issue("group", None))
    for _ in range(2):
        seen.issued(
            "all_reduce",
            "all_reduce",
            seen.about_to_issue("group", "all_reduce"),
            1.0,
            1.0001,
            ([TENSOR],),
            None,
        )
    seen.end_joined(seen.about_to_issue("group", None), 1.0, 1.0001, None)
    first, last = seen.graph.communications
    assert (first.owed, first.waits) == (None, [])
    assert (last.owed, last.waits) == (None, [("mark 4", "mark 5")])
