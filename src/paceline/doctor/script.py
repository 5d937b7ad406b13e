"""What the text of a script shows before it is run. Only what its calls say for certain; the rest takes a run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from paceline.doctor.checks import Check

__all__ = ["script_checks"]


def script_checks(source: str, name: str) -> tuple[Check, ...]:
    """The checks of a script's own text; a file that does not parse is the first thing to mend."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as problem:
        line = f", line {problem.lineno}" if isinstance(problem, SyntaxError) else ""
        return (
            Check(
                "script",
                "script",
                "void",
                f"{name}{line}: {getattr(problem, 'msg', problem)}",
                hint="correct it",
            ),
        )
    calls = {
        called for node in ast.walk(tree) if isinstance(node, ast.Call) and (called := _called(node.func))
    }
    return tuple(_checks(calls, name))


def _checks(calls: set[str], name: str) -> Iterator[Check]:
    if "DataParallel" in calls:
        yield Check("data-parallel", "script", "doubt",
                    f"{name} uses nn.DataParallel: one process drives all GPUs, and its Python lock sets the pace",
                    hint="wrap the network in DistributedDataParallel, one process per GPU")  # fmt: skip
    if "DistributedSampler" in calls and "set_epoch" not in calls:
        yield Check("set-epoch", "script", "doubt",
                    f"{name} makes a DistributedSampler and never calls set_epoch: every epoch has the same order",
                    hint="sampler.set_epoch(epoch) at the start of every epoch")  # fmt: skip
    parallel = "DistributedDataParallel" in calls or "DDP" in calls or "fully_shard" in calls
    if parallel and "DataLoader" in calls and "DistributedSampler" not in calls:
        yield Check("sampler", "script", "note",
                    f"{name} makes a DataLoader and no DistributedSampler: workers may get the same batches",
                    hint="a study tells whether they do", command=f"paceline study {name} --workers 1,2")  # fmt: skip
    if "set_detect_anomaly" in calls or "detect_anomaly" in calls:
        yield Check("anomaly", "script", "doubt", f"{name} detects anomalies: every step is several times slower",
                    hint="remove set_detect_anomaly")  # fmt: skip


def _called(function: ast.expr) -> str | None:
    """The last name of what is called: nn.DataParallel is DataParallel."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None
