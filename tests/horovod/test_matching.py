"""Matching by name, without sockets: who gets which answer, and when."""

import pytest

from paceline_horovod.common.matching import Matching
from paceline_horovod.common.place import Place, as_environment, place
from paceline_horovod.common.request import Request, from_line, to_line


def allreduce(name, shape=(2,), dtype="torch.float32", op="Sum"):
    return Request(name, "allreduce", dtypes=(dtype,), shapes=(shape,), op=op)


def test_a_name_is_answered_when_the_last_rank_asks_for_it():
    matching = Matching(3)
    assert matching.ask(2, allreduce("a"), now_s=0.0) == []
    assert matching.ask(0, allreduce("a"), now_s=0.0) == []
    [(ranks, response)] = matching.ask(1, allreduce("a"), now_s=0.0)
    assert ranks == (0, 1, 2)
    assert (response.name, response.error) == ("a", "")


def test_names_meet_whatever_order_the_ranks_use():
    matching = Matching(2)
    for name in "abc":
        assert matching.ask(0, allreduce(name), now_s=0.0) == []
    answered = [matching.ask(1, allreduce(name), now_s=0.0)[0][1].name for name in "cab"]
    assert answered == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (allreduce("a", shape=(3,)), "shapes"),
        (allreduce("a", dtype="torch.int32"), "data types"),
        (allreduce("a", op="Max"), "reduction op"),
        (Request("a", "barrier"), "collective"),
    ],
)
def test_what_does_not_fit_is_the_same_error_for_both(other, word):
    matching = Matching(2)
    matching.ask(0, allreduce("a"), now_s=0.0)
    [(ranks, response)] = matching.ask(1, other, now_s=0.0)
    assert set(ranks) == {0, 1}
    assert word in response.error


def test_rows_of_an_allgather_are_told_in_the_order_of_the_ranks():
    matching = Matching(2)
    gather = [Request("g", "allgather", dtypes=("torch.int64",), shapes=((rows, 4),)) for rows in (5, 7)]
    matching.ask(1, gather[1], now_s=0.0)
    [(_, response)] = matching.ask(0, gather[0], now_s=0.0)
    assert response.rows == ((5,), (7,))


def test_a_joined_rank_is_not_waited_for_in_sums_and_forbids_the_rest():
    matching = Matching(2)
    matching.ask(0, Request("join", "join"), now_s=0.0)
    [(ranks, response)] = matching.ask(1, allreduce("a"), now_s=0.0)
    assert (ranks, response.error) == ((0, 1), "")
    [(ranks, response)] = matching.ask(1, Request("g", "allgather", shapes=((1,),)), now_s=0.0)
    assert ranks == (1,)
    assert "joined" in response.error
    [(ranks, response)] = matching.ask(1, Request("join", "join"), now_s=0.0)
    assert (ranks, response.last_joined) == ((0, 1), 1)


def test_a_lost_rank_ends_what_waits_for_it_now_and_later():
    matching = Matching(2)
    matching.ask(0, allreduce("a"), now_s=0.0)
    [(ranks, response)] = matching.leave(1, "has gone")
    assert ranks == (0,)
    assert response.error == "allreduce a: rank 1 has gone"
    assert matching.ask(0, allreduce("b"), now_s=0.0)[0][1].error == "allreduce b: rank 1 has gone"


def test_who_stalls_is_known_after_the_time_and_not_before():
    matching = Matching(3)
    matching.ask(1, allreduce("a"), now_s=10.0)
    assert matching.stalled(now_s=69.0, after_s=60.0) == []
    assert matching.stalled(now_s=70.0, after_s=60.0) == [((0, "a"), (0, 2))]


def test_requests_and_responses_survive_the_wire():
    matching = Matching(1)
    request = Request("é", "alltoall", dtypes=("torch.int8",), shapes=((2, 3),), splits=(2,))
    assert from_line(to_line(request)) == request
    [(_, response)] = matching.ask(0, request, now_s=0.0)
    assert from_line(to_line(response)) == response


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Place(0, 1, 0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, Place(3, 4, 1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Place(1, 2, 1, 2)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}, Place(5, 8, 1, 8)),
        ({"RANK": "", "HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, Place(0, 2, 0, 2)),
    ],
)
def test_the_place_is_what_the_launcher_says(environment, expected):
    assert place(environment) == expected


def test_the_environment_that_old_scripts_read_says_the_same_place():
    at = Place(3, 4, 1, 2)
    assert place(as_environment(at)) == at
    assert (at.cross_rank, at.cross_size) == (1, 2)
