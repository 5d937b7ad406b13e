"""What computing does to an exchange: the same all-reduces beside waiting and beside computing, in turn.

    one turn    a barrier, then a few all-reduces one after the other; workers wait for each, or compute meanwhile
    one pass    both kinds of turn at every size; the first pass is not kept

An exchange passes through a process of every worker, which has to be let onto a core for every hop. Where computing
keeps the cores, or a quota, that takes longer than when nobody computes, and what hides takes longer to be done.
"""

from __future__ import annotations

from time import perf_counter, sleep
from typing import Any, Callable, Iterator

SIZES = (131_072, 524_288)  # as buckets have them; smaller ones wait longer for a core than any training does
CALLS = 5
_FEWEST_PASSES, _MOST_PASSES = 4, 25
_ELEMENT_BYTES, _NAP_S = 4, 1e-4


def passes(
    sizes: list[int],
    seconds: float,
    compute: Callable[[], object],
    everywhere: Callable[[Any], list[Any]],
) -> Iterator[list[dict[str, Any]]]:
    """The records of every pass, alike on all workers: seconds of one all-reduce, of every worker."""
    import torch
    import torch.distributed as dist

    buffers = [torch.zeros(max(1, size // _ELEMENT_BYTES)) for size in sizes]
    begun = perf_counter()
    for number in range(_MOST_PASSES + 1):
        own = []
        for buffer in buffers:
            for meanwhile in (None, compute):
                dist.barrier()
                own.append(sum(_one_s(buffer, meanwhile) for _ in range(CALLS)) / CALLS)
        seen = everywhere(own)
        if number:
            yield [
                {
                    "record": "beside",
                    "backend": "gloo",
                    "bytes": buffer.numel() * _ELEMENT_BYTES,
                    "repeat": number - 1,
                    "calls": CALLS,
                    "waiting": [worker[2 * place] for worker in seen],
                    "computing": [worker[2 * place + 1] for worker in seen],
                }
                for place, buffer in enumerate(buffers)
            ]
        passed = max(everywhere(perf_counter() - begun))
        if number >= _FEWEST_PASSES and passed >= seconds * (number + 1) / (number + 2):
            return


def _one_s(buffer: Any, compute: Callable[[], object] | None) -> float:
    """From the call to the moment when the exchange is done, which the exchange's own thread writes down."""
    import torch.distributed as dist

    ended: list[float] = []
    begun = perf_counter()
    work = dist.all_reduce(buffer, async_op=True)
    work.get_future().then(lambda _: ended.append(perf_counter()))
    while compute is not None and not ended:
        compute()
    work.wait()
    while not ended:
        sleep(_NAP_S)
    return ended[0] - begun
