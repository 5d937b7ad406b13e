"""Every call of the Horovod API, on two to four ranks, against numpy's answer (tests/scripts/horovod_calls.py)."""

import ast
import json
from pathlib import Path

import pytest

from tests.support.warm import run_ranks

SCRIPTS = Path(__file__).parents[1] / "scripts"
CHECKS = [
    node.name
    for node in ast.parse((SCRIPTS / "horovod_calls.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module", params=[2, 3, 4], ids=["two ranks", "three ranks", "four ranks"])
def results(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    for code, output in run_ranks(request.param, SCRIPTS / "horovod_calls.py", folder):
        assert code == 0, output
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(request.param)]


@pytest.mark.parametrize("check", CHECKS)
def test_every_rank_gets_the_answer_of_numpy(results, check):
    wrong = {rank: result[check] for rank, result in enumerate(results) if result[check]}
    assert not wrong, "\n".join(f"rank {rank}:\n{text}" for rank, text in wrong.items())
