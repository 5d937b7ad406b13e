"""What this process has recorded so far. Bounded: one short dictionary per step, no files, no torch.

    step k            |<------------------- step_s ------------------->|
    post hook k-1     |  data   forward   backward ··wait··  optimizer |  post hook k
                      |<input>|                   |<wait>|<optimizer_s>|

Whatever happens between two post hooks of the anchoring optimizer is booked to the step that the second one closes.
"""

from __future__ import annotations

from time import monotonic, perf_counter
from typing import Any, Callable, Optional

from paceline_agent.record.cycle import Cycle
from paceline_agent.record.step_graph import ClosedGraph

_LOOK_EVERY = 4  # at most: of short steps, in how many the stamps are read; it costs 0.1 ms with cold caches
_FEWEST_LOOKS = 8  # in a trial
_LONG_STEP_S = 0.02  # in steps of this length and longer they are read every time …
_DEAR_RATIO = 0.005  # … unless looking takes more than this share of one
_DECIDED = 6  # steps after which it is clear how long a step is
_MOST_MARKS = 100_000
_MOST_STEPS = 200_000  # a trial that runs to its end stops recording here: bounded memory


class Work:
    """What entered the network's forward in one step: None where one of its batches has no length, or no ids."""

    __slots__ = ("forwards", "samples", "tokens")

    def __init__(self) -> None:
        self.forwards: Optional[int] = 0
        self.samples: Optional[int] = 0
        self.tokens: Optional[int] = 0

    def add(self, samples: Optional[int], tokens: Optional[int]) -> None:
        self.forwards = (self.forwards or 0) + 1
        self.samples = None if samples is None or self.samples is None else self.samples + samples
        self.tokens = None if tokens is None or self.tokens is None else self.tokens + tokens

    def fields(self) -> dict[str, Any]:
        """What the line of a step says of it."""
        seen = bool(self.forwards)
        return {
            "forwards": self.forwards,
            "entered": self.samples if seen else None,
            "tokens": self.tokens if seen else None,
        }


_NO_WORK = Work()
_NO_WORK.forwards = None


class Recorder:
    """The open step and the closed ones. Owned by the process; everything here is called from its main thread."""

    def __init__(self, steps: int = 30) -> None:
        self._short = max(1, min(_LOOK_EVERY, steps // _FEWEST_LOOKS))
        self.active = False
        self.failed: Callable[[], None] = lambda: None
        self.problems: list[str] = []
        self.steps: list[tuple[Any, ...]] = []
        self.marks: list[dict[str, Any]] = []
        self.k = 0
        self.look_every = 1
        self.own_s = 0.0
        self.closed_at: Optional[float] = None
        self.backward_end = 0.0
        self.loader_seen = False
        self.network_seen = False
        self.cycle = Cycle()
        self._open()

    def _open(self) -> None:
        self.looking = self.k % self.look_every == 0
        self.input_s = 0.0
        self.samples: dict[int, int] = {}
        self.backwards = 0
        self.work = Work() if self.network_seen else None
        self.boundary = False
        self.loss: Any = None

    def entered(self, samples: Optional[int], tokens: Optional[int]) -> None:
        """A batch has entered the network's forward."""
        if self.work is not None:
            self.work.add(samples, tokens)

    def ends_step(self, optimizer: Any) -> bool:
        """Whether this optimizer's step ends the training step."""
        return self.cycle.ends(optimizer)

    def close_step(
        self, now: float, optimizer_s: float, marker: Any = None, graph: Optional[ClosedGraph] = None
    ) -> None:
        """Close the open step at `now` (perf_counter) and open the next one. No graph: nobody looked."""
        self.k += 1
        if len(self.steps) < _MOST_STEPS:
            self.steps.append(
                (
                    self.k,
                    now,
                    None if self.closed_at is None else now - self.closed_at,
                    self.input_s if self.loader_seen else None,
                    optimizer_s,
                    graph,
                    self.samples,
                    self.backwards,
                    self.boundary,
                    self.own_s,
                    self.loss,
                    marker,
                    self.work,
                )
            )
        self.closed_at = now
        self.own_s = 0.0
        if self.k == _DECIDED and self._is_dear():
            self.look_every = self._short  # workers may differ here; these steps they have in common
        self._open()

    def _is_dear(self) -> bool:
        """Whether steps are short, or looking at each of them would cost a share that shows."""
        lengths, own = zip(*((step[2], step[9]) for step in self.steps[-3:]))
        return bool(min(lengths) < _LONG_STEP_S or min(own) > _DEAR_RATIO * min(lengths))

    def add_mark(self, name: str, value: float, end_s: float) -> None:
        """A metric of the script, beside the steps done so far. A value that JSON has no word for is text."""
        if len(self.marks) < _MOST_MARKS:
            finite = value - value == 0
            self.marks.append(
                {
                    "record": "mark",
                    "k": self.k,
                    "end_s": end_s,
                    "name": name,
                    "value": value if finite else str(value),
                }
            )

    def records(self) -> list[dict[str, Any]]:
        """The closed steps as lines of the worker's file (docs/reference/files.md); device markers stay beside them."""
        to_monotonic = monotonic() - perf_counter()
        return [
            {
                "record": "step",
                "k": k,
                "end_s": end + to_monotonic,
                "step_s": step_s,
                "input_s": input_s,
                "optimizer_s": optimizer_s,
                "graph": graph,
                "samples": max(samples.values()) if samples else None,
                "backwards": backwards,
                "boundary": boundary,
                "own_s": own_s,
                "loss": loss,
                "marker": marker,
                **(work or _NO_WORK).fields(),
            }
            for (
                k,
                end,
                step_s,
                input_s,
                optimizer_s,
                graph,
                samples,
                backwards,
                boundary,
                own_s,
                loss,
                marker,
                work,
            ) in self.steps
        ]
