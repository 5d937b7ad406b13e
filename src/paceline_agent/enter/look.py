"""What the Python of the script has, printed as one line of JSON: `python look.py [--devices]`.

Started by the desk before the first trial, on every node. Without --devices torch is not imported: its version is read
from the installed package, which takes milliseconds instead of seconds.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata
from typing import Any, Optional


def look(devices: bool) -> dict[str, Any]:
    """Versions, and what torch can reach when asked to."""
    seen: dict[str, Any] = {"python": platform.python_version(), "torch": _version("torch")}
    if not devices:
        return seen
    try:
        import torch
        import torch.distributed as dist
    except Exception as problem:
        return {**seen, "torch": None, "problem": f"{type(problem).__name__}: {problem}"}
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        **seen,
        "torch": str(torch.__version__),
        "nccl": bool(dist.is_available() and dist.is_nccl_available()),
        "devices": [torch.cuda.get_device_name(index) for index in range(count)],
    }


def _version(package: str) -> Optional[str]:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    print(json.dumps(look("--devices" in sys.argv[1:])))
