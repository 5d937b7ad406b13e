"""Which Python runs the script, where our own workloads lie, and who starts the workers."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from paceline.core.errors import UsageError
from paceline.records import Start

__all__ = ["interpreter", "package_folder", "start_of", "workload_names", "workloads_path"]

_SPAWNERS = {"spawn", "start_processes", "Process"}


def interpreter(asked: str | None) -> str:
    """The Python asked for, else the desk's own when it has torch (looked for, never imported)."""
    if asked is not None:
        found = shutil.which(asked)
        if found is None:
            raise UsageError(f"there is no Python at {asked!r}", hint="--python /path/to/env/bin/python")
        return os.path.abspath(found)
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            f"{sys.executable} has no torch, so it cannot run the script",
            hint="--python /path/to/env/bin/python, the one you train with",
        )
    return sys.executable


def package_folder(name: str) -> Path:
    """Where a package of ours lies, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise UsageError(f"the package {name} is not installed", hint="install paceline again")
    return Path(spec.origin).parent


def workload_names() -> tuple[str, ...]:
    """The workloads that come with Paceline: its modules, with - for _."""
    files = package_folder("paceline_workloads").glob("*.py")
    return tuple(sorted(file.stem.replace("_", "-") for file in files if not file.stem.startswith("_")))


def workloads_path() -> str:
    """The folder to search for paceline_workloads, for an interpreter that does not have it."""
    return str(package_folder("paceline_workloads").parent)


def start_of(script: Path) -> Start:
    """`script` when it starts its own workers (mp.spawn, Process), else `torchrun`. Read, never run."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return "torchrun"  # it will fail under torchrun too, and say why
    modules = _multiprocessing_names(tree)
    initialises = False
    spawns = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(attr="init_process_group") | ast.Name(id="init_process_group"):
                initialises = True
            case ast.Attribute(attr=name, value=owner) if name in _SPAWNERS and ast.unparse(owner) in modules:
                spawns = True
            case ast.Name(id=name) if name in modules:
                spawns = True
    return "script" if spawns and initialises else "torchrun"


def _multiprocessing_names(tree: ast.AST) -> set[str]:
    """The names under which this file knows multiprocessing, and the spawners it imported from it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name in ("multiprocessing", "torch.multiprocessing"):
                    names.add(item.asname or item.name)
                elif item.name == "torch":
                    names.add(f"{item.asname or item.name}.multiprocessing")
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                spawner = (
                    node.module in ("multiprocessing", "torch.multiprocessing") and item.name in _SPAWNERS
                )
                if spawner or (node.module == "torch" and item.name == "multiprocessing"):
                    names.add(item.asname or item.name)
        elif isinstance(node, ast.Assign) and ".get_context(" in ast.unparse(node.value):
            names.update(ast.unparse(target) for target in node.targets)
    return names
