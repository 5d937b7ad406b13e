"""A process set is made of ranks, whatever holds them and in whatever order."""

import numpy as np
import pytest

from paceline_horovod.common.process_sets import ProcessSet


@pytest.mark.parametrize(
    "ranks", [[2, 0, 1], (0, 1, 2), {2, 1, 0}, range(3), reversed(range(3)), iter([1, 2, 0])]
)
def test_ranks_count_from_the_lowest_up(ranks):
    assert ProcessSet(ranks).ranks == [0, 1, 2]


def test_whole_numbers_of_numpy_are_ranks():
    assert ProcessSet(np.array([1, 0])).ranks == [0, 1]


@pytest.mark.parametrize("ranks", [3, [0.0, 1.5], "01", None, [None]])
def test_what_is_no_rank_is_refused(ranks):
    with pytest.raises(ValueError, match="whole numbers"):
        ProcessSet(ranks)
