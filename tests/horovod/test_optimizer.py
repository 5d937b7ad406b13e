"""DistributedOptimizer trains as DDP does, and random programs get numpy's answers (scripts/horovod_optimizer.py)."""

import ast
import json

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.horovod.test_calls import SCRIPTS
from tests.support.warm import run_ranks

CHECKS = [
    node.name
    for node in ast.parse((SCRIPTS / "horovod_optimizer.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]
COUNTS = {"rows": st.integers(0, 5), "columns": st.integers(0, 3)}
DTYPES = {"dtype": st.sampled_from(["float32", "float64", "int32", "int64"])}
OPS = st.sampled_from(["Sum", "Average", "Min", "Max"])
CALLS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("allreduce"), "op": OPS, **COUNTS, **DTYPES}),
    st.fixed_dictionaries({"kind": st.just("allgather"), **COUNTS, **DTYPES}),
    st.fixed_dictionaries({"kind": st.just("broadcast"), "root": st.integers(0, 1), **COUNTS, **DTYPES}),
    st.fixed_dictionaries({"kind": st.just("reducescatter"), **COUNTS, **DTYPES}),
)


def programs(count):
    """As many random programs as asked for, the same ones every time: all ranks must run the same."""
    drawn = []

    @seed(7)
    @settings(
        max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(CALLS, min_size=1, max_size=6))
    def draw(program):
        drawn.append(program)

    draw()
    return drawn


def outcome(folder, size, count):
    (folder / "programs.json").write_text(json.dumps(programs(count)))
    for code, output in run_ranks(size, SCRIPTS / "horovod_optimizer.py", folder):
        assert code == 0, output
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(size)]


@pytest.fixture(scope="module", params=[2, 3], ids=["two ranks", "three ranks"])
def results(request, tmp_path_factory):
    return outcome(tmp_path_factory.mktemp("optimizer"), request.param, 200)


@pytest.mark.parametrize("check", CHECKS)
def test_all_ranks_train_together(results, check):
    wrong = {rank: result[check] for rank, result in enumerate(results) if result[check]}
    assert not wrong, "\n".join(f"rank {rank}:\n{text}" for rank, text in wrong.items())


@pytest.mark.slow
def test_a_thousand_random_programs_agree_on_four_ranks(tmp_path):
    results = outcome(tmp_path, 4, 1000)
    wrong = {name for result in results for name, text in result.items() if text}
    assert not wrong, [result[name] for result in results for name in wrong if result[name]]
