"""A short benchmark of the links between workers and of their devices. It runs none of the user's code.

    torchrun … -m paceline_agent.probe          PACELINE_TRIAL says what is wanted (docs/reference/files.md)

one timing   a barrier, then `calls` collectives back to back, divided by `calls`: about 5 ms, so that neither the
             clock nor the way out of the barrier counts
one pass     every collective at every size once, in an order shuffled alike on all workers: drift hits all sizes
in time      sizes that would not fit five times into the seconds allowed are left out, and that is written down
workers      the seconds of every worker are written; the slowest decides, and the desk takes that maximum

Rank 0 writes probe.jsonl, pass by pass: what was measured before a probe is ended is kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
from time import perf_counter, process_time
from typing import Any, Callable, Optional

from paceline_agent.probe import beside, steady
from paceline_agent.probe.device import device_rates
from paceline_agent.record import host

FORMAT = 1
OPS = ("all_reduce", "all_gather", "reduce_scatter")
_FEWEST_PASSES, _MOST_PASSES = 5, 25
_TIMING_S, _MOST_CALLS = 0.005, 32
_ELEMENT_BYTES = 4
_BUFFERS = 3  # the whole one, a part of it, and what the backend holds meanwhile
_SHARE = 0.8
_COMPUTING_SHARE = 0.25  # of the seconds asked for, in addition: for computing alone, and for both


def main() -> None:
    """One worker of a probe, from its environment to its last line."""
    # before torch, whose import takes seconds in which the desk may be killed
    with contextlib.suppress(Exception):
        host.die_with_parent(torchrun=True)
    import torch.distributed as dist

    told = json.loads(os.environ["PACELINE_TRIAL"])
    order = told["probe"]
    dist.init_process_group("gloo")  # the probe's own words travel here, whatever is probed
    try:
        lines = Lines(told["dir"] if dist.get_rank() == 0 else None)
        lines.write([_header(order)])
        lines.write(_gathered(_worker(bool(order.get("device", True)))))
        if order.get("device", True) and dist.get_world_size() > 1:
            lines.write([steadiness(_COMPUTING_SHARE * order["seconds"])])
        reasons = {name: _first(_everywhere(_absent(name))) for name in order["backends"]}
        present = [name for name, reason in reasons.items() if reason is None]
        lines.write([{"record": "absent", "backend": n, "reason": r} for n, r in reasons.items() if r])
        for backend in present:
            probe_backend(backend, order, order["seconds"] / len(present), lines)
        if "gloo" in present and order.get("device", True) and dist.get_world_size() > 1:
            for records in beside_computing(order["sizes"], _COMPUTING_SHARE * order["seconds"]):
                lines.write(records)
        lines.write([{"record": "end"}])
    finally:
        dist.destroy_process_group()


class Lines:
    """probe.jsonl, appended line by line on rank 0; nothing on the others."""

    def __init__(self, folder: Optional[str]) -> None:
        self._path = None if folder is None else os.path.join(folder, "probe.jsonl")
        if self._path is not None:
            with open(self._path, "w", encoding="utf-8"):
                pass  # begun anew, before the first line is known

    def write(self, records: list[dict[str, Any]]) -> None:
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)


def steadiness(seconds: float) -> dict[str, Any]:
    """What every worker takes for the same pieces of work, while all compute and none exchanges."""
    place = _own_device()
    kinds = sorted(set(_everywhere(place.type)))
    if len(kinds) > 1:
        return {"record": "steady", "reason": f"workers compute on {' and '.join(kinds)}"}
    run = steady.piece(place)
    calls = min(_everywhere(steady.calls_of(run)))  # the slowest worker's
    pieces = min(_everywhere(steady.pieces_of(run, calls, seconds)))
    own = steady.series(run, calls, pieces, seconds, lambda ended: any(_everywhere(ended)))
    return {"record": "steady", "calls": calls, "pieces": pieces, "seconds": _everywhere(own)}


def beside_computing(sizes: list[int], seconds: float) -> Any:
    """Yield the records of each pass over gloo, alike on all workers: exchange beside waiting and beside computing."""
    largest = max(sizes)
    wanted = [size for size in beside.SIZES if size <= largest] or [largest]
    run = steady.piece(_own_device())
    run(1)
    return beside.passes(wanted, seconds, lambda: run(1), _everywhere)


def _own_device() -> Any:
    """The device that this worker computes on."""
    import torch

    local = int(os.environ.get("LOCAL_RANK") or 0)
    on_cuda = torch.cuda.is_available() and local < torch.cuda.device_count()
    return torch.device("cuda", local) if on_cuda else torch.device("cpu")


def probe_backend(backend: str, order: dict[str, Any], seconds: float, lines: Lines) -> None:
    """All passes over one backend."""
    import torch.distributed as dist

    device = "cuda" if backend == "nccl" else "cpu"
    group = None if backend == "gloo" else dist.new_group(backend=backend)
    common = {"backend": backend, "device": device}
    for row in sweep(
        order["sizes"],
        order.get("ops", OPS),
        device=device,
        group=group,
        seconds=seconds,
        seed=order.get("seed", 0),
    ):
        lines.write([{**common, **line} for line in row])


def sweep(
    sizes: list[int],
    ops: Any = OPS,
    *,
    device: str = "cpu",
    group: Any = None,
    seconds: float = 20.0,
    seed: int = 0,
) -> Any:
    """Yield the records of each pass, alike on all workers. Every worker of `group` calls this at the same time."""
    import torch
    import torch.distributed as dist

    world = dist.get_world_size(group)
    place = torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device("cpu")
    wanted = sorted({max(1, math.ceil(size / _ELEMENT_BYTES / world)) * world for size in sizes})
    counts, too_large = in_memory(wanted, min(_everywhere(_room_bytes(place))))
    yield too_large
    whole = torch.empty(counts[-1], device=place).fill_(
        0.0
    )  # filled: pages that were never written cost nothing
    part = torch.empty(counts[-1] // world, device=place).fill_(0.0)
    calls = {op: _call(op, whole, part, world, group) for op in ops}
    begun = perf_counter()
    usable, missing = _usable(calls, world, place)
    yield missing
    chosen, left_out = _that_fit(usable, counts, place, seconds)
    yield left_out
    if not chosen:
        return
    order = random.Random(seed)
    for repeat in range(_MOST_PASSES):
        shuffled = list(chosen)
        order.shuffle(shuffled)
        own = {key: _timed(usable[key[0]], key[1], chosen[key], place) for key in shuffled}
        seen = _everywhere(own)
        yield [
            {
                "record": "row",
                "op": op,
                "bytes": count * _ELEMENT_BYTES,
                "repeat": repeat,
                "calls": chosen[op, count],
                "seconds": [worker[op, count][0] for worker in seen],
                "cpu_s": [worker[op, count][1] for worker in seen],
            }
            for op, count in sorted(chosen)
        ]
        passed = _slowest(perf_counter() - begun)
        if repeat + 1 >= _FEWEST_PASSES and passed >= seconds * (repeat + 1) / (repeat + 2):
            return


def in_memory(counts: list[int], room_bytes: float) -> tuple[list[int], list[dict[str, Any]]]:
    """The counts whose buffers fit, at least the smallest; the first that does not, as a record."""
    fit = [count for count in counts if count * _ELEMENT_BYTES * _BUFFERS <= room_bytes] or counts[:1]
    if len(fit) == len(counts):
        return fit, []
    first, last = counts[len(fit)] * _ELEMENT_BYTES, fit[-1] * _ELEMENT_BYTES
    return fit, [{"record": "cut", "bytes": first, "largest": last, "why": "memory"}]


def _room_bytes(place: Any) -> float:
    """What this worker may take: of the device's free memory, or of the host's, which its workers share."""
    import torch

    if place.type == "cuda":
        return _SHARE * float(torch.cuda.mem_get_info(place)[0])
    free = host.free_memory_bytes()
    return math.inf if free is None else _SHARE * free / int(os.environ.get("LOCAL_WORLD_SIZE") or 1)


def _that_fit(
    usable: dict[str, Callable[[int], None]], counts: list[int], place: Any, seconds: float
) -> tuple[dict[tuple[str, int], int], list[dict[str, Any]]]:
    """(collective, count) -> calls of one timing, of the sizes that fit; the first that does not, as a record.

    This is the warm-up too: connections are made and buffers are touched here.
    """
    chosen: dict[tuple[str, int], int] = {}
    one_pass, last, last_count = 0.0, 0.0, counts[0]
    for count in counts:
        expected = last * count / last_count
        if chosen and (one_pass + expected) * (_FEWEST_PASSES + 1) > seconds:
            largest = last_count * _ELEMENT_BYTES
            return chosen, [{"record": "cut", "bytes": count * _ELEMENT_BYTES, "largest": largest}]
        last, last_count = 0.0, count
        for op, call in usable.items():
            _timed(call, count, 1, place)
            once = max(1e-7, _slowest(_timed(call, count, 1, place)[0]))
            calls = max(1, min(_MOST_CALLS, math.ceil(_TIMING_S / once)))
            chosen[op, count] = calls
            last += once * calls
        one_pass += last
    return chosen, []


def _timed(call: Callable[[int], None], count: int, calls: int, place: Any) -> tuple[float, float]:
    """Seconds and CPU seconds of one call, over `calls` of them back to back, on this worker."""
    import torch.distributed as dist

    _finish(place)
    dist.barrier()
    begun, spent = perf_counter(), process_time()
    for _ in range(calls):
        call(count)
    _finish(place)
    return (perf_counter() - begun) / calls, (process_time() - spent) / calls


def _finish(place: Any) -> None:
    """Wait for what the device was told to do."""
    import torch

    if place.type == "cuda":
        torch.cuda.synchronize(place)


def _call(op: str, whole: Any, part: Any, world: int, group: Any) -> Callable[[int], None]:
    """One collective over the first `count` elements of the buffers, as nccl-tests counts them: the whole buffer."""
    import torch.distributed as dist

    # older torch knows only the longer names, newer warns of them
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def all_reduce(count: int) -> None:
        dist.all_reduce(whole[:count], group=group)

    def all_gather(count: int) -> None:
        gather(whole[:count], part[: count // world], group=group)

    def reduce_scatter(count: int) -> None:
        scatter(part[: count // world], whole[:count], group=group)

    return {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter}[op]


def _usable(
    calls: dict[str, Callable[[int], None]], world: int, place: Any
) -> tuple[dict[str, Callable[[int], None]], list[dict[str, Any]]]:
    """The collectives that this torch has for this backend; the others as records that say why not."""
    usable, missing = {}, []
    for op, call in calls.items():
        own = None
        try:
            call(world)
            _finish(place)
        except (RuntimeError, AttributeError) as error:
            own = str(error).strip().splitlines()[0][:300] or type(error).__name__
        reason = _first(_everywhere(own))
        if reason is None:
            usable[op] = call
        else:
            missing.append({"record": "missing", "op": op, "reason": reason})
    return usable, missing


def _absent(backend: str) -> Optional[str]:
    """Why this worker cannot use a backend."""
    import torch
    import torch.distributed as dist

    if backend == "gloo":
        return None
    if backend != "nccl":
        return f"{backend} is not probed: gloo and nccl are"
    if not dist.is_nccl_available():
        return "this torch is built without NCCL"
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    local, devices = int(os.environ.get("LOCAL_RANK") or 0), torch.cuda.device_count()
    if local >= devices:
        return f"a node has {devices} CUDA device{'s' if devices != 1 else ''} for more workers: NCCL needs one each"
    torch.cuda.set_device(local)
    return None


def _header(order: dict[str, Any]) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    nodes = len(set(_everywhere(_node())))
    return {
        "record": "header",
        "format": FORMAT,
        "workers": dist.get_world_size(),
        "nodes": nodes,
        "torch": torch.__version__,
        "interface": _interface(),
        "interface_bytes_per_s": _interface_bytes_per_s(_interface()),
        "order": order,
    }


def _interface() -> Optional[str]:
    return os.environ.get("GLOO_SOCKET_IFNAME") or os.environ.get("NCCL_SOCKET_IFNAME")


def _interface_bytes_per_s(name: Optional[str]) -> Optional[float]:
    """What a network card says of its rate. Virtual ones have no hardware behind them, and say anything."""
    folder = f"/sys/class/net/{name}"
    if name is None or not os.path.exists(f"{folder}/device"):
        return None
    try:
        with open(f"{folder}/speed", encoding="ascii") as file:
            megabits = int(file.read())
    except (OSError, ValueError):
        return None
    return megabits * 1e6 / 8 if megabits > 0 else None


def _node() -> str:
    """Which node this is: torchrun numbers them; Slurm does; else the host's name."""
    for name in ("GROUP_RANK", "SLURM_NODEID"):
        if os.environ.get(name):
            return f"{name} {os.environ[name]}"
    return str(host.identity()["host"])


def _worker(wanted: bool) -> dict[str, Any]:
    """What this worker is, and what its device does while the others do the same."""
    import torch.distributed as dist

    about = host.identity()
    dist.barrier()
    rates = device_rates(int(os.environ.get("LOCAL_RANK") or 0)) if wanted else {}
    return {
        "record": "worker",
        "rank": dist.get_rank(),
        "host": about["host"],
        "node": _node(),
        "cpus": about["cpus"],
        "cpu_quota": about["cpu_quota"],
        "python": about["python"],
        **rates,
    }


def _gathered(record: dict[str, Any]) -> list[dict[str, Any]]:
    return list(_everywhere(record))


def _everywhere(value: Any) -> list[Any]:
    """The value of every worker, by rank."""
    import torch.distributed as dist

    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _first(reasons: list[Optional[str]]) -> Optional[str]:
    """The reason of the first worker that has one."""
    return next((reason for reason in reasons if reason), None)


def _slowest(seconds: float) -> float:
    """The largest over workers: all decide alike."""
    return float(max(_everywhere(seconds)))
