"""How a Trial, and with it a Point, ended.

`short`: as the script meant to, with too few steps to measure. `damaged`: what it left is not as it was committed.
"""

from __future__ import annotations

from typing import Literal

State = Literal["ok", "oom", "crashed", "hung", "timeout", "diverged", "short", "damaged", "cancelled"]
STATES: tuple[State, ...] = (
    "ok",
    "oom",
    "crashed",
    "hung",
    "timeout",
    "diverged",
    "short",
    "damaged",
    "cancelled",
)
