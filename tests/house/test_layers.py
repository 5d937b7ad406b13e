"""Who may import whom: a room of the desk imports from rooms above it only; the pure ones do not touch the world."""

import ast
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
PURE = "core / records / plan table slurm horovod doctor / measure / links converge / predict / check / decide / "
PURE += "analysis"
WORLDLY = "launch store report data / testbed source / run serve / cli / api / __main__"
ROOMS = [names.split() for names in f"{PURE} / {WORLDLY}".split("/")]
RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
NO_CLOCK_NO_FILES = {
    "os",
    "io",
    "time",
    "random",
    "logging",
    "subprocess",
    "socket",
    "shutil",
    "psutil",
    "pathlib",
}
NOT_FOR_THE_DESK = {"torch", "paceline_agent", "paceline_workloads", "paceline_horovod"}
FOR_GUESTS = {"paceline_agent": {"torch"}, "paceline_horovod": {"torch", "keras"}}


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
        assert top in {package, *sys.stdlib_module_names, *FOR_GUESTS.get(package, {top})}, (
            f"{package} imports {module}"
        )
        if package == "paceline" and rest != ["__init__"]:
            room = rest[0]
            assert room in RANK, f"{room} has no place among the rooms: give it one"
            assert top not in NOT_FOR_THE_DESK
            assert room not in PURE.split() or top not in NO_CLOCK_NO_FILES, f"a pure room imports {module}"
            if top == package and below and below[0] != room:
                assert RANK[below[0]] < RANK[room], f"{module} does not lie above {room}"
