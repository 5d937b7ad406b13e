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
    path = sys.argv[1].split(".")
    module = importlib.import_module(f"paceline_agent.{path[0]}")
    owner = getattr(module, path[1]) if len(path) == 3 else module
    assert hasattr(owner, path[-1]), sys.argv[1]
    if sys.argv[2] in ("all", os.environ["RANK"]):
        setattr(owner, path[-1], broken)
    plain_ddp.main(sys.argv[3:])
