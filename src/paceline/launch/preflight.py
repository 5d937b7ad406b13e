"""Ask a workload of ours, in one process, whether it can do what is asked: before any worker starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence

from paceline.core.errors import UsageError

__all__ = ["checked_workload"]


def checked_workload(
    name: str, args: Sequence[str], *, python: str, workers: int, search: str, directory: str
) -> dict[str, object]:
    """What the workload says it would do: data, sizes, steps. A UsageError with its own words when it refuses."""
    module = f"paceline_workloads.{name.replace('-', '_')}"
    path = os.pathsep.join(filter(None, (search, os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [python, "-m", module, *args, "--check"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "WORLD_SIZE": str(workers)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        if "No module named 'torch'" in done.stderr:
            raise UsageError(
                f"{python} has no torch, and {name} trains with it",
                hint="pip install torch, or --python with the path of a Python that has it",
            )
        said, marked, hint = done.stderr.strip().rpartition("  try: ")
        lines = (said if marked else hint).strip().splitlines() or [f"exit code {done.returncode}"]
        raise UsageError(f"{name}: {lines[-1]}", hint=hint if marked else f"python -m {module} --help")
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert isinstance(summary, dict)
    return summary
