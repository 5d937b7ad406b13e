"""hvd.init and what it knows: this worker's place, the engine, the process sets."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from paceline_horovod.common.exceptions import HorovodInternalError
from paceline_horovod.common.lines import Listener, connect
from paceline_horovod.common.place import Place, as_environment, place
from paceline_horovod.common.process_sets import ProcessSet, global_process_set
from paceline_horovod.common.request import Request
from paceline_horovod.torch.engine import Engine
from paceline_horovod.torch.exchange import Members, new_group
from paceline_horovod.torch.timeline import Timeline

_NOT_YET = "Horovod has not been initialized; use hvd.init()."


@dataclass
class World:
    """What stands between init and shutdown."""

    place: Place
    neighbours: tuple[tuple[int, int], ...]  # (local rank, local size) of every rank
    engine: Engine
    listener: Listener | None
    process_sets: list[ProcessSet] = field(default_factory=list)
    unnamed: dict[int, int] = field(default_factory=dict)  # per process set: names given to nameless calls


_worlds: list[World] = []  # one, between init and shutdown


def world() -> World:
    """The world as init made it."""
    if not _worlds:
        raise ValueError(_NOT_YET)
    return _worlds[0]


def init(comm: Sequence[int] | None = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Join the other workers. A second call does nothing. `process_sets` are registered on all ranks."""
    if _worlds:
        return
    at = place(os.environ)
    if comm is not None and list(comm) != list(range(at.size)):
        raise ValueError(
            f"init(comm={comm!r}): only all {at.size} ranks can be initialised; use process_sets for a part of them"
        )
    sets = _distinct(process_sets)
    for name, value in as_environment(at).items():
        os.environ.setdefault(name, value)
    _start_torch(at)
    everybody = Members(tuple(range(at.size)), at.rank, new_group(range(at.size)))
    listener, addresses, secret = _listen(at)
    told: list[Any] = [None] * at.size
    dist.all_gather_object(told, (at.local_rank, at.local_size, addresses, secret))
    neighbours = tuple((local_rank, local_size) for local_rank, local_size, _, _ in told)
    shared = told[0][2:]
    connection = connect([tuple(address) for address in shared[0]], secret=shared[1], rank=at.rank)
    engine = Engine(at.rank, connection, everybody, Timeline())
    # who goes on and shuts down before the others have connected would leave them in front of a closed door
    engine.submit(Request("init", "barrier"), ()).wait()
    _worlds.append(World(at, neighbours, engine, listener))
    path = os.environ.get("HOROVOD_TIMELINE", "")
    if path and path != "DYNAMIC":
        start_timeline(path, mark_cycles=os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") not in ("", "0"))
    global_process_set.registered(0, ranks=range(at.size), own_rank=at.rank)
    atexit.register(shutdown)
    for process_set in sets:
        if process_set != global_process_set:  # which is there already
            add_process_set(process_set)


def shutdown() -> None:
    """Leave. Collectives that still wait for this rank end with an error on the others."""
    if not _worlds:
        return
    atexit.unregister(shutdown)
    leaving = _worlds.pop()
    leaving.engine.close()
    leaving.engine.timeline.close()
    if leaving.listener is not None:
        leaving.listener.close()
    for process_set in [*leaving.process_sets, global_process_set]:
        process_set.removed()


def is_initialized() -> bool:
    return bool(_worlds)


def rank() -> int:
    return world().place.rank


def size() -> int:
    return world().place.size


def local_rank() -> int:
    return world().place.local_rank


def local_size() -> int:
    return world().place.local_size


def cross_rank() -> int:
    """This worker's place among those of its local rank, one on every node that has as many."""
    at = world().place
    return [local for local, _ in world().neighbours[: at.rank]].count(at.local_rank)


def cross_size() -> int:
    return [local for local, _ in world().neighbours].count(world().place.local_rank)


def is_homogeneous() -> bool:
    """Has every node the same number of workers?"""
    return len({local_size for _, local_size in world().neighbours}) == 1


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Write every collective to a Chrome trace from now on. A cycle is one turn of the thread that carries them out."""
    if rank() == 0:
        world().engine.timeline.open(file_path, mark_cycles=mark_cycles)


def stop_timeline() -> None:
    world().engine.timeline.close()


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Register a process set. All ranks must call this, in the same order, also those outside the set."""
    here = world()
    wanted = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    ranks = tuple(wanted.ranks or ())
    if wanted.process_set_id is not None or wanted in [*here.process_sets, global_process_set]:
        raise ValueError(f"a process set of the ranks {list(ranks)} exists already")
    if not ranks or len(set(ranks)) != len(ranks) or not 0 <= ranks[0] <= ranks[-1] < here.place.size:
        raise ValueError(f"the ranks {list(ranks)} are not some of 0 … {here.place.size - 1}")
    answer = here.engine.submit(Request("add_process_set", "add_set", ranks=ranks), ()).wait()
    wanted.registered(answer.request.root_rank, ranks=ranks, own_rank=here.place.rank)
    here.process_sets.append(wanted)
    return wanted


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a process set, on all ranks. False where it is the global one or is not registered."""
    here = world()
    known = [one for one in here.process_sets if one is process_set]
    if not known or process_set.process_set_id is None:
        return False
    here.engine.submit(
        Request("remove_process_set", "remove_set", root_rank=process_set.process_set_id), ()
    ).wait()
    here.process_sets = [one for one in here.process_sets if one is not process_set]
    process_set.removed()
    return True


def _distinct(process_sets: Sequence[ProcessSet] | str | None) -> list[ProcessSet]:
    """Those given to init; Horovod's word "dynamic" means that others come later, as they always may here."""
    if process_sets is None or isinstance(process_sets, str):
        return []
    sets = [one if isinstance(one, ProcessSet) else ProcessSet(one) for one in process_sets]
    for i, one in enumerate(sets):
        if one in sets[:i]:
            raise ValueError(f"init(process_sets=…): the ranks {one.ranks} are given twice")
    return sets


def _start_torch(at: Place) -> None:
    if dist.is_initialized():
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if at.size == 1:
        alone = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=alone, rank=0, world_size=1)
        return
    if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
        raise HorovodInternalError(
            f"rank {at.rank} of {at.size} does not know where rank 0 is: MASTER_ADDR and MASTER_PORT are not set; "
            f"start the script with: paceline horovod run -np {at.size} python script.py"
        )
    # torchrun may keep its store when it restarts the workers: addresses of the dead must not be found in it
    meet, prefixed = dist.rendezvous, dist.PrefixStore  # type: ignore[attr-defined]
    store, rank, size = next(iter(meet("env://", at.rank, at.size)))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    fresh = prefixed(f"paceline_horovod/{attempt}", store)
    dist.init_process_group(backend, store=fresh, rank=rank, world_size=size)


def _listen(at: Place) -> tuple[Listener | None, list[tuple[str, int]], str]:
    """On rank 0: the thread that matches, where it can be reached, and the secret that opens it."""
    if at.rank != 0:
        return None, [], ""
    secret = secrets.token_hex(16)
    one_node = at.local_size == at.size
    off = os.environ.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in ("", "0")
    listener = Listener(
        at.size,
        host="127.0.0.1" if one_node else "",
        secret=secret,
        warn_s=0.0 if off else float(os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS") or 60),
        fail_s=0.0 if off else float(os.environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS") or 0),
    )
    names = ["127.0.0.1"] if one_node else [socket.gethostname(), os.environ.get("MASTER_ADDR", "")]
    return listener, [(name, listener.port) for name in names if name], secret
