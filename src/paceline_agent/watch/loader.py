"""How long the training loop waits for data, and what it was given: DataLoader iterators, nothing of the user's."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Optional

from paceline_agent.guard import guarded

if TYPE_CHECKING:
    from paceline_agent.agent import Agent

_FINGERPRINTS = 3  # batches of the first steps are compared over workers: do all see the same data?


def watch_loaders(agent: Agent) -> None:
    """Time `next()` of every DataLoader iterator of this process, and count the samples it delivers."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    recorder = agent.recorder
    original_init, original_next = _BaseDataLoaderIter.__init__, _BaseDataLoaderIter.__next__

    def started(iterator: Any, loader: Any) -> None:
        recorder.boundary = True
        recorder.loader_seen = True
        iterator._paceline_info = _loader_info(loader)

    def delivered(iterator: Any, batch: Any, waited_s: float) -> None:
        recorder.input_s += waited_s
        count = batch_length(batch)
        if count is not None:
            name = id(getattr(iterator, "_dataset", None))
            recorder.samples[name] = recorder.samples.get(name, 0) + count
        if len(agent.fingerprints) < _FINGERPRINTS:
            agent.delivered = getattr(iterator, "_paceline_info", {}), fingerprint(batch)

    started, delivered = guarded(recorder, started), guarded(recorder, delivered)

    @functools.wraps(original_init)
    def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, loader, *args, **kwargs)
        started(self, loader)

    @functools.wraps(original_next)
    def following(self: Any) -> Any:
        begun = perf_counter()
        batch = original_next(self)
        delivered(self, batch, perf_counter() - begun)
        return batch

    _BaseDataLoaderIter.__init__ = init  # type: ignore[method-assign]
    _BaseDataLoaderIter.__next__ = following  # type: ignore[method-assign]


def learnt_from(agent: Agent) -> None:
    """An optimizer has stepped: what was delivered last is training data. (Many scripts evaluate before they train.)"""
    if agent.delivered is None:
        return
    (info, mark), agent.delivered = agent.delivered, None
    if not agent.loader_info:
        agent.loader_info.update(info)
    if mark is not None:
        agent.fingerprints.append(mark)


def batch_length(batch: Any, depth: int = 0) -> Optional[int]:
    """Samples in a batch: the first dimension of the first tensor in it. None where there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if depth < 4:
        for part in parts(batch):
            count = batch_length(part, depth + 1)
            if count is not None:
                return count
    return None


def fingerprint(batch: Any) -> Optional[int]:
    """A number that equal batches share: over the first values of the first varying CPU tensor."""
    tensor = _first_tensor(batch)
    if tensor is None or tensor.device.type != "cpu":
        return None
    values = tensor.detach().reshape(-1)[:4096].tolist()
    if len(set(values)) < 4:
        return None  # labels or a constant: equal by chance
    return zlib.crc32(repr(values).encode())


def _first_tensor(batch: Any, depth: int = 0) -> Any:
    if hasattr(batch, "shape") and hasattr(batch, "detach"):
        return batch
    if depth < 4:
        for part in parts(batch):
            tensor = _first_tensor(part, depth + 1)
            if tensor is not None:
                return tensor
    return None


def parts(batch: Any) -> Any:
    """What a batch is made of: values of a mapping, items of a list."""
    if isinstance(batch, Mapping):
        return batch.values()
    return batch if isinstance(batch, (list, tuple)) else ()


def _loader_info(loader: Any) -> dict[str, Any]:
    try:
        size: Optional[int] = len(loader.dataset)
    except Exception:
        size = None  # an iterable data set has no length
    return {
        "batch_size": getattr(loader, "batch_size", None),
        "workers": getattr(loader, "num_workers", None),
        "sampler": type(getattr(loader, "sampler", None)).__name__,
        "drop_last": getattr(loader, "drop_last", None),
        "batched": getattr(loader, "batch_sampler", None) is not None
        or bool(getattr(loader, "batch_size", None)),
        "dataset_size": size,
    }
