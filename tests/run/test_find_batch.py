"""The largest batch that fits into a known memory, found by real runs; and the search on its own, step by step."""

import pytest

from paceline.analysis.memory import largest_batches
from paceline.decide.largest_batch import MOST_RUNS, Tried, largest, next_batch, smallest_failed
from paceline.records import Study, Workload
from paceline.run.find_batch import find_batches
from paceline.run.study import Silent
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from tests.support.trial import SCRIPTS, bench
from tests.support.warm import WarmLauncher

SCRIPT = str(SCRIPTS / "known_memory.py")
LIMIT = 2_000_000_000


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    study = Study(
        Workload("script", SCRIPT, batch_flag="--batch-size"),
        workers=(1, 2),
        per_worker_batch=(8,),
        repeats=1,
        steps=10,
        warmup=5,
        memory_limit_bytes=LIMIT,
        find_batch=True,
    )
    folder = StudyFolder(tmp_path_factory.mktemp("find") / "study")
    measured = find_batches(
        folder, study, bench=bench(WarmLauncher()), listener=Silent(), known=(), retry_failed=False
    )
    assert measured.stopped is None
    return {f.workers: f for f in largest_batches(read_study(folder.study_toml), measured.results)}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_largest_batch_runs_and_one_more_does_not_within_six_runs(found, workers):
    """Each sample keeps 40 MB; weights and gradients are 20 MB, and the process adds less than 10 samples' worth."""
    one = found[workers]
    assert one.too_large == one.batch + 1, one
    assert "can't allocate memory" in one.why
    assert one.runs <= MOST_RUNS
    assert (LIMIT - 20e6) / 40e6 - 10 < one.batch <= (LIMIT - 20e6) / 40e6
    assert one.safe_batch == int(one.batch * 0.95)


def search(true_largest, first=8):
    """The batches that are tried where memory is not seen."""
    tried = []
    while (batch := next_batch(tried, first=first, limit_bytes=None)) is not None:
        tried.append(Tried(batch, "ok" if batch <= true_largest else "oom", None, None, 1, "none"))
    return tried


@pytest.mark.parametrize("true_largest", [1, 3, 8, 9, 20, 57])
def test_a_search_never_goes_outside_of_what_ran_and_what_did_not(true_largest):
    tried = search(true_largest)
    assert len(tried) <= MOST_RUNS
    assert len({t.batch for t in tried}) == len(tried)
    best, failed = largest(tried), smallest_failed(tried)
    assert best is None or failed is None or best.batch <= true_largest < failed.batch


def test_where_even_one_sample_does_not_fit_the_search_says_so():
    tried = search(0)
    assert [t.batch for t in tried] == [8, 4, 2, 1]
    assert largest(tried) is None


def test_a_crash_that_is_no_lack_of_memory_ends_the_search():
    assert (
        next_batch([Tried(8, "crashed", "no such file", None, 1, "none")], first=8, limit_bytes=None) is None
    )
