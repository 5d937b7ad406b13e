"""A function once per worker, each in a process of its own; their results in the order of the ranks.

    horovod.run(train, args=(data,), np=4)  ──▶  [rank 0's result, …, rank 3's]

The function must be picklable: defined in a module, or in a script with `if __name__ == "__main__"` around its start.
Where cloudpickle is installed, lambdas and functions of a notebook travel too.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import shutil
import socket
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from paceline_horovod.common.environment import env

__all__ = ["run"]

_NO_MATTER = {  # how Horovod starts, not what it computes
    "disable_cache",
    "network_interface",
    "network_interfaces",
    "ssh_identity_file",
    "ssh_port",
    "start_timeout",
    "use_gloo",
    "verbose",
}
_HERE = {"localhost", "127.0.0.1", "::1"}
_GRACE_S = 2.0  # for the worker that really failed to be heard, beside those that only lost it


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    *,
    np: int | None = None,
    hosts: str | None = None,
    **options: Any,
) -> list[Any]:
    """func(*args, **kwargs) on `num_proc` (older: `np`) workers; what each returned."""
    workers = num_proc if np is None else np
    _check(workers, hosts, options)
    payload = _pickled((func, tuple(args), dict(kwargs or {})))
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    answers: list[Connection] = []
    with tempfile.TemporaryDirectory(prefix="paceline-horovod-") as folder:
        shared = _environment(workers, folder)
        try:
            for rank in range(workers):
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_worker, args=(payload, there), name=f"horovod-rank-{rank}")
                with env(**shared, RANK=str(rank), LOCAL_RANK=str(rank)):
                    process.start()
                there.close()
                processes.append(process)
                answers.append(here)
            return _collected(answers)
        finally:
            for started in processes:
                started.join(timeout=_GRACE_S)
                if started.is_alive():
                    started.terminate()
                    started.join()
            for answer in answers:
                answer.close()


def _environment(workers: int, folder: str) -> dict[str, str]:
    """What all workers are told. The folder is searched first: its sitecustomize provides `horovod` to the script."""
    package = Path(__file__).parents[1]
    shutil.copyfile(package / "run_entry.py", Path(folder) / "sitecustomize.py")
    searched = [folder, str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(searched),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(1, _cores() // workers)),
    }


def _cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check(workers: int, hosts: str | None, options: Mapping[str, Any]) -> None:
    if workers < 1:
        raise ValueError(f"horovod.run starts at least one worker, not {workers}")
    for part in hosts.split(",") if hosts else ():
        name = part.partition(":")[0]
        if name not in _HERE | {socket.gethostname()}:
            raise ValueError(
                f"horovod.run starts workers on this machine only, not on {name}: "
                "put the function into a script, and use paceline horovod run -H host:slots"
            )
    given = sorted(name for name, value in options.items() if value is not None and name not in _NO_MATTER)
    if given:
        raise ValueError(
            f"horovod.run cannot use {', '.join(given)}: it starts a fixed number of workers (np) on this machine; "
            "for elastic training put the function into a script, and use paceline horovod run --reset-limit"
        )


def _worker(payload: bytes, answer: Connection) -> None:
    """In the worker: the function, and its result or what went wrong back to the parent."""
    try:
        func, args, kwargs = pickle.loads(payload)
        answer.send_bytes(_pickled((True, func(*args, **kwargs))))
    except BaseException:
        answer.send_bytes(pickle.dumps((False, traceback.format_exc())))
        raise SystemExit(1) from None
    finally:
        answer.close()


def _collected(answers: Sequence[Connection]) -> list[Any]:
    results: dict[int, Any] = {}
    failed: dict[int, str] = {}
    rank_of = {id(answer): rank for rank, answer in enumerate(answers)}
    open_answers = list(answers)
    while open_answers:
        heard = wait(open_answers, timeout=_GRACE_S if failed else None)
        if not heard:
            break
        for answer in answers:
            if answer not in heard:
                continue
            open_answers.remove(answer)
            rank = rank_of[id(answer)]
            try:
                fine, value = pickle.loads(answer.recv_bytes())
            except EOFError:
                fine, value = False, "its process ended without an answer"
            (results if fine else failed)[rank] = value
    if failed:
        cause = next((r for r, text in failed.items() if "HorovodInternalError" not in text), min(failed))
        raise RuntimeError(f"horovod.run: rank {cause} of {len(answers)} failed: {failed[cause]}")
    return [results[rank] for rank in range(len(answers))]


def _pickled(value: Any) -> bytes:
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        dumps = pickle.dumps
    return bytes(dumps(value))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
