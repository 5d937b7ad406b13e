"""Copied into a trial as sitecustomize.py: enters processes that the script starts by itself (mp.spawn).

Chains to the sitecustomize that it shadows, if there is one.
"""

import os
import sys


def _chain() -> None:
    import importlib.machinery

    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        import importlib.util

        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _enter() -> None:
    try:
        from paceline_agent.enter.entry import start_after_torch

        start_after_torch()
    except Exception as error:
        sys.stderr.write(f"paceline: not measuring: {error}\n")


_chain()
if os.environ.get("PACELINE_TRIAL"):
    _enter()
