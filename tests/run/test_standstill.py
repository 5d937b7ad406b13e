"""Who waits for whom where nothing moves."""

from __future__ import annotations

import json

import pytest

from paceline.records import Pending, Standing, StandingGroup
from paceline.run.standstill import standstill_text
from paceline.store.worker_files import standings

REDUCE = Pending("all_reduce", 7, 4)


def stands(rank, *groups, call=None, peer=None):
    """`groups`: (members, what is pending)."""
    held = (StandingGroup(str(members), tuple(members), tuple(pending)) for members, pending in groups)
    return Standing(rank, call, peer, tuple(held))


def waits(rank, members, pending=REDUCE):
    return stands(rank, (members, [pending]))


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        ([], None),
        ([stands(0, ([0, 1], []))], None),
        (
            [waits(0, [0, 1])],
            "worker 0 waits in all_reduce (operation 7 of all workers); worker 1 has not arrived",
        ),
        (
            [waits(0, [0, 1]), waits(1, [0, 1])],
            "workers 0 and 1 wait in all_reduce (operation 7 of all workers), and it does not end",
        ),
        (
            [waits(0, [0, 1]), waits(1, [0, 1], Pending("all_reduce", 7, 8))],
            "operation 7 of all workers differs: worker 0 all_reduce of 4 numbers, worker 1 all_reduce of 8 numbers",
        ),
        (
            [stands(0, call="init_process_group")],
            "worker 0 waits in init_process_group; worker 1 has not joined",
        ),
        ([stands(0, call="recv", peer=1)], "worker 0 waits in recv for worker 1"),
    ],
)
def test_of_two_workers(standing, said):
    assert standstill_text(standing, workers=2) == said


def test_members_of_an_all_gather_may_give_different_sizes():
    both = [waits(rank, [0, 1], Pending("all_gather", 3, 4 + rank)) for rank in (0, 1)]
    assert "does not end" in standstill_text(both, workers=2)


def test_the_worker_that_waits_for_nobody_is_the_one_to_look_for():
    """0 waits for 1, which waits for 2 in another group."""
    chain = [waits(0, [0, 1]), waits(1, [1, 2], Pending("broadcast", 2, 1)), stands(2, ([1, 2], []))]
    assert standstill_text(chain, workers=4) == (
        "worker 1 waits in broadcast (operation 2 of the group of workers 1 and 2); worker 2 has not arrived"
    )


def test_workers_that_wait_for_one_another_in_different_groups_are_a_ring():
    ring = [waits(0, [0, 1]), waits(1, [1, 2]), waits(2, [0, 2])]
    assert standstill_text(ring, workers=3).startswith("workers wait in a ring: worker 0 waits in all_reduce")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"groups": 3}', '{"groups": [{"pending": [{"op": 1}]}]}'])
def test_a_note_that_cannot_be_read_says_nothing(tmp_path, text):
    (tmp_path / "standing-0.json").write_text(text)
    assert standstill_text(standings(tmp_path), workers=1) is None


def test_a_note_is_read_as_it_was_written(tmp_path):
    pending = [{"op": "all_reduce", "number": 7, "sizes": [[2, 2]]}]
    told = {
        "call": "all_reduce",
        "peer": None,
        "groups": [{"name": "0", "ranks": [0, 1], "pending": pending}],
    }
    (tmp_path / "standing-1.json").write_text(json.dumps(told))
    group = StandingGroup("0", (0, 1), (REDUCE,))
    assert standings(tmp_path) == (Standing(1, "all_reduce", None, (group,)),)
