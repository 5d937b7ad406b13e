"""The plain training, in which a part of the agent is broken on purpose: sabotage.py MODULE.NAME RANK|all ARGS…"""

import importlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import plain_ddp


def broken(*args, **kwargs):
    raise RuntimeError("broken on purpose")


if __name__ == "__main__":
    owner = importlib.import_module("paceline_agent")
    path = sys.argv[1].split(".")
    for part in path[:-1]:
        name = f"{owner.__name__}.{part}"
        owner = getattr(owner, part) if hasattr(owner, part) else importlib.import_module(name)
    assert hasattr(owner, path[-1]), sys.argv[1]
    if sys.argv[2] in ("all", os.environ["RANK"]):
        setattr(owner, path[-1], broken)
    plain_ddp.main(sys.argv[3:])
