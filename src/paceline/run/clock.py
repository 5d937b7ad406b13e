"""The only place where the desk reads a clock. Tests pass their own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Seconds that never go back, a pause, and the date for the record."""

    def monotonic_s(self) -> float: ...

    def pause(self, seconds: float) -> None: ...

    def date(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clock of this machine."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def date(self) -> str:
        return datetime.now(UTC).isoformat(timespec="microseconds")
