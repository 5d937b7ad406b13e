"""horovod.run: a function on several workers, from a script that says so; and what scripts ask horovod.common.util."""

import os
import subprocess
import sys

import pytest

from paceline_horovod import run
from paceline_horovod.common import util

SCRIPT = """
import horovod
import torch
import horovod.torch as hvd

def train(add, fail=False):
    hvd.init()
    if fail and hvd.rank() == 1:
        raise KeyError("the data are gone")
    return hvd.rank(), hvd.allreduce(torch.tensor(float(hvd.rank() + add)), op=hvd.Sum).item()

if __name__ == "__main__":
    print(horovod.run(train, args=(3,), np=2))
    try:
        horovod.run(train, (3,), {"fail": True}, 2)
    except RuntimeError as problem:
        print("problem:", problem)
"""


def test_a_function_runs_on_every_rank_and_its_results_come_back_in_their_order(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "paceline_horovod", str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[(0, 7.0), (1, 7.0)]")
    assert "rank 1 of 2 failed" in done.stdout
    assert "KeyError: 'the data are gone'" in done.stdout


@pytest.mark.parametrize(
    ("options", "word"),
    [({"hosts": "other:2"}, "other"), ({"min_np": 2}, "min_np"), ({"np": 0}, "not 0")],
)
def test_what_cannot_be_started_is_refused_before_anything_starts(options, word):
    with pytest.raises(ValueError, match=word):
        run(print, **options)


def test_variables_are_set_inside_the_block_only(monkeypatch):
    monkeypatch.setenv("HOROVOD_TEST_KEPT", "before")
    with util.env(HOROVOD_TEST_KEPT="inside", HOROVOD_TEST_NEW="inside"):
        assert (os.environ["HOROVOD_TEST_KEPT"], os.environ["HOROVOD_TEST_NEW"]) == ("inside", "inside")
    assert os.environ["HOROVOD_TEST_KEPT"] == "before"
    assert "HOROVOD_TEST_NEW" not in os.environ


def test_only_what_is_there_is_said_to_be_available():
    assert util.extension_available("torch")
    assert not util.extension_available("tensorflow")
    assert util.gloo_built()
    assert not util.mpi_built()


@pytest.mark.parametrize(("workers", "power"), [(0, False), (1, True), (2, True), (3, False), (64, True)])
def test_adasum_needs_a_power_of_two(workers, power):
    assert util.num_rank_is_power_2(workers) is power


def test_a_list_is_split_into_nearly_equal_parts_in_order():
    assert util.split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
    assert util.split_list([1], 2) == [[1], []]


def test_versions_compare_by_number():
    assert util.is_version_greater_equal_than("1.10.2+cpu", "1.9.0")
    assert not util.is_version_greater_equal_than("1.9.0", "1.10")
