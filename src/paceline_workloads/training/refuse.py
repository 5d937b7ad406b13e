"""How a workload says that it cannot do what was asked: one sentence, one thing to do, no traceback."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["refuse"]


def refuse(message: str, *, hint: str) -> NoReturn:
    """End with exit code 1: what happened, with its values, then one thing to do."""
    raise SystemExit(f"{message}\n  try: {hint}")
