"""The rendered page of every study that somebody looks at, made in processes of their own and kept.

A page is made anew when the study's mark has changed, and then not again for four times the processor time that this
took: a study that is being measured on this machine loses little to its readers, and only at a low priority.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from paceline.serve.folders import Found
from paceline.serve.standing import Watches

__all__ = ["Pages", "Renderers"]

_REST = 4.0  # rest after rendering, in multiples of the processor time that it took
_MOST_KEPT = 30
_LOOKED_AT_S = 15.0  # a study is followed as long as somebody asked for it so recently
_PROCESSES = 2  # so that a large study does not keep a small one waiting
_AFTER_DEATH_S = 20.0
_NICE = 10
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True, slots=True)
class Renderers:
    """How a study becomes a page, as functions that another process can import: (root, study) -> HTML."""

    kept: Callable[[Path, Path], str | None]  # from its analysis.json, quickly; None where there is none
    fresh: Callable[[Path, Path], str]  # from its trials
    prepare: Callable[[], None]  # whatever takes long the first time


@dataclass(slots=True)
class _Kept:
    """What is known of one study."""

    study: Found
    html: str | None = None
    version: int = 0
    made_of: tuple[object, ...] | None = None
    busy: asyncio.Task[None] | None = None
    next_s: float = 0.0
    asked_s: float = 0.0
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Pages:
    """Owns the rendering processes. Open inside a running event loop; close ends them."""

    def __init__(self, root: Path, renderers: Renderers, watches: Watches) -> None:
        self._root = root
        self._watches = watches
        self._renderers = renderers
        self._studies: dict[Path, _Kept] = {}
        self._pool = _pool()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to follow the studies that are looked at, and import the renderer before it is needed."""
        self._task = asyncio.create_task(self._follow())
        self._pool.submit(self._renderers.prepare)

    def close(self) -> None:
        """Stop following, and end the rendering processes at once."""
        if self._task is not None:
            self._task.cancel()
        _end(self._pool)

    async def page(self, study: Found, *, wait_s: float) -> str | None:
        """The page as far as it is made; waits for the first one, and None if that takes longer than `wait_s`."""
        kept = self._kept(study)
        if kept.html is None:
            try:
                await asyncio.wait_for(kept.ready.wait(), wait_s)
            except TimeoutError:
                return None
        return kept.html

    def version(self, study: Found) -> int:
        """Counts the pages made of this study; asking keeps the study followed."""
        return self._kept(study).version

    def _kept(self, study: Found) -> _Kept:
        kept = self._studies.get(study.path)
        if kept is None:
            while len(self._studies) >= _MOST_KEPT:
                del self._studies[min(self._studies, key=lambda path: self._studies[path].asked_s)]
            kept = self._studies[study.path] = _Kept(study)
        kept.asked_s = time.monotonic()
        return kept

    async def _follow(self) -> None:
        while True:
            for kept in list(self._studies.values()):
                idle = kept.busy is None or kept.busy.done()
                if idle and time.monotonic() - kept.asked_s < _LOOKED_AT_S:
                    kept.busy = asyncio.create_task(self._look(kept))
            await asyncio.sleep(0.5)

    async def _look(self, kept: _Kept) -> None:
        mark = (await asyncio.to_thread(self._watches.standing, kept.study)).mark
        if kept.made_of == mark or time.monotonic() < kept.next_s:
            return
        if kept.html is None:
            await self._render(kept, self._renderers.kept)
        took_s = await self._render(kept, self._renderers.fresh)
        if took_s is not None:
            kept.made_of = mark
        kept.next_s = time.monotonic() + (_AFTER_DEATH_S if took_s is None else _REST * took_s)

    async def _render(self, kept: _Kept, render: Callable[[Path, Path], str | None]) -> float | None:
        """Make the page anew and show it; the processor seconds that it took, None if its process died."""
        loop = asyncio.get_running_loop()
        try:
            html, took_s = await loop.run_in_executor(self._pool, _timed, render, self._root, kept.study.path)
        except BrokenProcessPool:  # killed, perhaps for its memory: tried again later, in a new one
            _end(self._pool)
            self._pool = _pool()
            return None
        if html is not None and html != kept.html:
            kept.html = html
            kept.version += 1
            kept.ready.set()
        return took_s


def _pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=_PROCESSES, mp_context=context, initializer=_quiet)


def _quiet() -> None:
    """In the rendering process: a low priority, Ctrl-C is the parent's matter, and its end is ours too."""
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def _timed(render: Callable[[Path, Path], str | None], root: Path, path: Path) -> tuple[str | None, float]:
    """In the rendering process: the page, and the processor seconds that it took."""
    began_s = time.process_time()
    return render(root, path), time.process_time() - began_s


def _end(pool: ProcessPoolExecutor) -> None:
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
