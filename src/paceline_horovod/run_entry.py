"""Copied beside the package as sitecustomize.py by `paceline horovod run`: provides `horovod` in every Python started.

Chains to the sitecustomize that it shadows, if there is one.
"""

import os
import sys


def _chain() -> None:
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _provide() -> None:
    from paceline_horovod.alias import install, set_environment

    if install():
        set_environment()


_chain()
if os.environ.get("RANK"):
    _provide()
