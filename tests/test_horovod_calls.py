"""Every call of the Horovod API, on two and four ranks, against numpy's answer (tests/scripts/horovod_calls.py)."""

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
CHECKS = [
    node.name
    for node in ast.parse((SCRIPTS / "horovod_calls.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


def run_ranks(size, *command, timeout_s=150, **environment):
    """One process per rank, as a launcher would start them; (exit code, output) of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(size):
        place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        network = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
        variables = {k: str(v) for k, v in {**place, **network, **environment}.items()}
        processes.append(
            subprocess.Popen(
                [sys.executable, *map(str, command)],
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=timeout_s)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]


@pytest.fixture(scope="module", params=[2, 4], ids=["two ranks", "four ranks"])
def results(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    for code, output in run_ranks(request.param, SCRIPTS / "horovod_calls.py", folder):
        assert code == 0, output
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(request.param)]


@pytest.mark.parametrize("check", CHECKS)
def test_every_rank_gets_the_answer_of_numpy(results, check):
    wrong = {rank: result[check] for rank, result in enumerate(results) if result[check]}
    assert not wrong, "\n".join(f"rank {rank}:\n{text}" for rank, text in wrong.items())
