"""What the desk asks of this process, read once from the environment."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Optional

VARIABLE = "PACELINE_TRIAL"


@dataclass(frozen=True)
class Settings:
    """One trial's orders: where to write, how many steps to measure, whether to stop after them."""

    folder: str
    steps: int = 30
    warmup: int = 10
    profile: int = 5
    end: bool = True
    hang_s: float = 60.0  # without a step for so long, the desk takes the trial for hung
    workers: int = 1
    backend: Optional[str] = None
    training: bool = False  # to its end: metrics are listened to
    noise_every: int = 0  # steps between two readings of gradient norms; 0: none
    metric: Optional[str] = None
    target: Optional[float] = None  # of a script that does not know its target: all workers leave there
    rises: bool = True
    memory_limit_bytes: Optional[int] = None
    flops: bool = True

    @property
    def last_step(self) -> int:
        return self.warmup + self.steps + self.profile


def settings_from_environment() -> Optional[Settings]:
    """None where no trial is asked for or the orders cannot be read: then the agent stays out of the way."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        asked = json.loads(text)
        return Settings(
            folder=str(asked["dir"]),
            steps=int(asked.get("steps", 30)),
            warmup=int(asked.get("warmup", 10)),
            profile=int(asked.get("profile", 5)),
            end=bool(asked.get("end", True)),
            hang_s=float(asked.get("hang_s", 60.0)),
            workers=int(asked.get("workers", 1)),
            backend=asked.get("backend"),
            training=bool(asked.get("training", False)),
            noise_every=int(asked.get("noise_every", 0)),
            metric=asked.get("metric"),
            target=asked.get("target"),
            rises=bool(asked.get("rises", True)),
            memory_limit_bytes=asked.get("memory_limit_bytes"),
            flops=bool(asked.get("flops", True)),
        )
    except (ValueError, KeyError, TypeError):
        return None
