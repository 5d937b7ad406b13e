"""Never stop training: every entry point of the agent runs behind this guard."""

from __future__ import annotations

import functools
import sys
from time import perf_counter
from typing import Any, Callable, TypeVar

from paceline_agent.record.recorder import Recorder

F = TypeVar("F", bound=Callable[..., Any])


def guarded(recorder: Recorder, entry: F) -> F:
    """The same function, except that an error inside it ends the measuring and is written down, and that the time
    it takes is booked as the agent's own. After measuring has ended it does nothing."""

    @functools.wraps(entry)
    def guard(*args: Any, **kwargs: Any) -> Any:
        if not recorder.active:
            return None
        begun = perf_counter()
        try:
            return entry(*args, **kwargs)
        except Exception as error:
            stop_measuring(recorder, f"{entry.__name__}: {type(error).__name__}: {error}")
            return None
        finally:
            recorder.own_s += perf_counter() - begun

    return guard  # type: ignore[return-value]


def stop_measuring(recorder: Recorder, problem: str) -> None:
    """Stop measuring, keep training: note why, in the manifest if it can be written and on standard error."""
    recorder.active = False
    recorder.problems.append(problem)
    say(f"measuring stopped: {problem}")
    recorder.failed()


def say(text: str) -> None:
    """One line on standard error (it lands in this worker's log). Standard error may be closed: then nothing."""
    try:
        sys.stderr.write(f"paceline: {text}\n")
        sys.stderr.flush()
    except Exception:
        return
