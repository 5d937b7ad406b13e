"""The agent's rooms have one direction: each imports from those before it only, but for the type checker."""

import ast
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[2] / "src" / "paceline_agent"
ORDER = "settings record / guard / watch / manifest / agent / enter probe / __main__"
RANK = {name: rank for rank, names in enumerate(ORDER.split("/")) for name in names.split()}


def imports(tree):
    """The rooms and files of the agent that are imported when the code runs."""
    for node in tree.body if isinstance(tree, ast.Module) else ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "paceline_agent":
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("paceline_agent."):
            yield node.module.split(".")[1]
        yield from imports(node)


@pytest.mark.parametrize(
    "path",
    sorted(set(AGENT.rglob("*.py")) - {AGENT / "__init__.py"}),
    ids=lambda path: str(path.relative_to(AGENT)),
)
def test_the_agent_imports_from_rooms_before_only(path):
    room = path.relative_to(AGENT).with_suffix("").parts[0]
    for other in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert other == room or RANK.get(other, -1) < RANK[room], f"{other} does not come before {room}"
