"""Run a script with `import horovod` provided: python -m paceline_horovod [-m MODULE | SCRIPT] ARGS, under torchrun."""

from __future__ import annotations

import os
import runpy
import sys

from paceline_horovod.alias import install, set_environment


def main(argv: list[str]) -> None:
    as_module = argv[:1] == ["-m"]
    target = argv[1:] if as_module else argv
    if not target:
        sys.exit("usage: python -m paceline_horovod [-m MODULE | SCRIPT] ARGS")
    if install():
        set_environment()
    sys.argv = target
    sys.path[0] = os.getcwd() if as_module else os.path.dirname(os.path.abspath(target[0]))
    if as_module:
        runpy.run_module(target[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(target[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
