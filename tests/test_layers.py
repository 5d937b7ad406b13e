"""Who may import whom: a file at the top of the desk is pure, a folder touches the world, imports go up the list."""

import ast
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"
# a name may import names of its own line and of the lines above; table_columns counts as table
LAYERS = """errors units records
stats step_law steady resume observe least_squares reliability constants
config plan table migrate slurm preflight
split links probe timeline telemetry
curve convergence accuracy measured
fit baselines prior
project check refuse whatif backends
advise verdict bottleneck doubling recipe
answers cluster table_analysis analyze analysis_json compare
launch store report data lab
run serve
cli __main__"""
RANK = {name: rank for rank, line in enumerate(LAYERS.splitlines()) for name in line.split()}
STRANGERS = {"launch", "store", "report"}
WORLD = {"os", "io", "time", "random", "logging", "subprocess", "socket", "shutil", "psutil", "pathlib"}
NOT_FOR_THE_DESK = {"torch", "paceline_agent", "paceline_workloads", "paceline_horovod"}
FOR_GUESTS = {"paceline_agent": {"torch"}, "paceline_horovod": {"torch", "keras"}}


def rank_of(name):
    known = name if name in RANK else name.split("_")[0]
    assert known in RANK, f"{name} has no place in LAYERS: give it one"
    return RANK[known]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "paceline":
            yield from (f"paceline.{item.name}" for item in node.names if item.name != "__version__")
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: str(path.relative_to(SRC)))
def test_imports_only_go_up(path):
    package, *rest = path.relative_to(SRC).with_suffix("").parts
    for module in imports(path):
        top, *below = module.split(".")
        allowed = {package, *sys.stdlib_module_names, *FOR_GUESTS.get(package, {top})}
        assert top in allowed, f"{package} imports {module}"
        if package == "paceline":
            assert top not in NOT_FOR_THE_DESK
            assert len(rest) > 1 or top not in WORLD, f"a pure file imports {module}"
            if top == package and below:
                assert rank_of(below[0]) <= rank_of(rest[0]), f"{module} lies below"
                assert below[0] == rest[0] or not {below[0], rest[0]} <= STRANGERS
