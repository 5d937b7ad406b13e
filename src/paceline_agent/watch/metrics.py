"""A script's own metrics, without changing it: what it prints, and what it tells TensorBoard.

printed       every line that reaches sys.stdout or sys.stderr is searched for the asked pattern, when it is written:
              a buffer that is flushed much later does not move the moment
TensorBoard   SummaryWriter.add_scalar of torch.utils.tensorboard and of tensorboardX; the original is called first

Both end in a mark, as if the script had called `mark` itself.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import sys
from time import monotonic
from typing import Any, Callable, Optional

from paceline_agent.guard import guarded
from paceline_agent.record.recorder import Recorder

Note = Callable[[str, float], None]

_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
_LONGEST_LINE = 10_000


def metric_name(pattern: str) -> str:
    """What a pattern's values are called: its first word, `val_acc` of `val_acc=([0-9.]+)`."""
    word = re.search(r"[A-Za-z_]\w*", re.sub(r"\\.|\(\?[a-z]+\)", " ", pattern))
    return word[0] if word else "metric"


def is_pattern(metric: Optional[str]) -> bool:
    """Whether the asked metric is to be looked for in what the script prints: it has a group."""
    return metric is not None and "(" in metric


def watch(recorder: Recorder, *, metric: Optional[str], noted: Note) -> None:
    """Listen to what this process prints and to what it tells TensorBoard."""

    def note(name: str, value: float) -> None:
        recorder.add_mark(name, value, monotonic())
        noted(name, value)

    if metric is not None and is_pattern(metric):
        search = re.compile(metric)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            _watch_stream(recorder, stream, search, functools.partial(note, metric_name(metric)))
    finder = _WriterFinder(recorder, note)
    for name in _WRITERS:
        if name in sys.modules:
            finder.patch(sys.modules[name])
    sys.meta_path.insert(0, finder)


def _watch_stream(
    recorder: Recorder, stream: Any, search: re.Pattern[str], found: Callable[[float], None]
) -> None:
    """Search whole lines as they are written; the stream itself stays what it is."""
    original = stream.write
    rest = ""

    def written(text: str) -> None:
        nonlocal rest
        *lines, rest = re.split(r"[\r\n]", rest + text)
        rest = rest[-_LONGEST_LINE:]
        for line in lines:
            match = search.search(line)
            value = None if match is None else _number(match[1])
            if value is not None:
                found(value)

    searched = guarded(recorder, written)

    def write(text: str) -> Any:
        count = original(text)
        searched(text)
        return count

    with contextlib.suppress(AttributeError):  # a stream of the script's own making may refuse
        stream.write = write


class _WriterFinder:
    """Stands first in line for as long as the process lives; patches a SummaryWriter when it is imported."""

    def __init__(self, recorder: Recorder, note: Note) -> None:
        self._recorder, self._note = recorder, note
        self._busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _WRITERS or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_patch(module: Any) -> None:
            execute(module)
            self.patch(module)

        spec.loader.exec_module = execute_then_patch  # type: ignore[method-assign]
        return spec

    def patch(self, module: Any) -> None:
        writer = getattr(module, "SummaryWriter", None)
        original = getattr(writer, "add_scalar", None)
        if writer is None or original is None:
            return
        told = guarded(self._recorder, self._told)

        @functools.wraps(original)
        def add_scalar(self: Any, tag: Any, scalar_value: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, tag, scalar_value, *args, **kwargs)
            told(tag, scalar_value)
            return result

        writer.add_scalar = add_scalar

    def _told(self, tag: Any, value: Any) -> None:
        number = None if isinstance(value, str) else _number(value)  # caffe2 blobs are named by text
        if number is not None:
            self._note(str(tag), number)


def _number(value: Any) -> Optional[float]:
    """What is no number is no metric, and no reason to stop measuring."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several elements
        return None
