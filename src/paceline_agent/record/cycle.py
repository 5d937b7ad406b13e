"""Which optimizer's step ends a training step, where there are several.

    a b a b a b        every b            two networks that take turns
    d d d d d g d …    every g            a critic that steps five times for each step of the generator
    a a a … b b b …    every a, then b    a second phase with an optimizer of its own

Of the first steps the rarest optimizer ends a step, of equals the last. One that appears only later, but early in the
training, is rarer still and ends a longer cycle. One that is gone, or silent for twice as long as it ever was, ends
nothing any more.
"""

from __future__ import annotations

import weakref
from typing import Any, Optional, TypeVar

T = TypeVar("T")

_DISCOVERY = 4  # optimizer steps after which it is clear which optimizer ends a step
_EARLY = 20  # optimizer steps until which a newcomer may end longer cycles
_PATIENCE = 8  # steps of others, at least, after which a silent optimizer has had its time


class Cycle:
    """The optimizers that have stepped, and the one that ends a step. Until that is known every one does."""

    def __init__(self) -> None:
        self.most = 1  # different optimizers inside one step
        self._known: list[weakref.ref[Any]] = []
        self._order: list[weakref.ref[Any]] = []
        self._last: Optional[weakref.ref[Any]] = None
        self._calls = 0
        self._others = 0
        self._patience = 0
        self._inside: set[int] = set()

    def ends(self, optimizer: Any) -> bool:
        """Whether this optimizer's step, just done, ends the training step."""
        self._calls += 1
        self._inside.add(id(optimizer))
        ended = self._is_last(optimizer)
        if ended:
            self.most = max(self.most, len(self._inside))
            self._inside.clear()
        return ended

    def _is_last(self, optimizer: Any) -> bool:
        last = None if self._last is None else self._last()
        if last is optimizer:
            self._others = 0
            return True
        reference = weakref.ref(optimizer)
        new = reference not in self._known
        if new:
            self._known = [known for known in self._known if known() is not None] + [reference]
        if last is not None:
            self._others += 1
            if new and self._calls <= _EARLY:
                self._settle(reference)
                return True
            if self._others <= self._patience:
                return False
        if self._last is not None:
            self._last, self._order = None, []
        self._order.append(reference)
        if len(self._order) < _DISCOVERY:
            return True
        found = rarest(self._order)
        self._settle(found)
        return found() is optimizer

    def _settle(self, reference: weakref.ref[Any]) -> None:
        self._last, self._others = reference, 0
        self._patience = max(_PATIENCE, 2 * self._calls if self._calls <= _EARLY else 0)


def rarest(order: list[T]) -> T:
    """Of the optimizers in the order in which they stepped, the one that did so least often; of equals the last."""
    return min(reversed(order), key=order.count)
