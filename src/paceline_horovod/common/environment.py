"""Environment variables for a while."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["env"]


@contextlib.contextmanager
def env(**variables: str) -> Iterator[None]:
    """Environment variables that are set inside this block only."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
