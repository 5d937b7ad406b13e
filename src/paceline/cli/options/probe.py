"""What `paceline probe` was asked for, and what the study that it is for says -> one launch for every count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.analysis.machines import with_seen
from paceline.cli.slurm.options import allocated_cores, inside_allocation
from paceline.core.errors import UsageError
from paceline.core.units import bytes_of, count_range, duration
from paceline.launch.processes import cores
from paceline.links.probe import BACKENDS, LARGEST_BYTES, exchanged_bytes, sweep_sizes
from paceline.plan.config import backends
from paceline.records import Study, TrialResult
from paceline.run.probe import ProbeOrder

__all__ = ["Asked", "orders_of"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, as they were typed."""

    workers: str | None
    nodes: str | None
    workers_per_node: int | None
    backend: str | None
    size: str | None
    seconds: str
    device: bool
    threads: int | None


def orders_of(asked: Asked, study: Study | None, results: Sequence[TrialResult]) -> list[ProbeOrder]:
    """One launch for every count; devices are measured once, by the first."""
    seen = exchanged_bytes(results)
    sizes = sweep_sizes(bytes_of(asked.size) if asked.size else LARGEST_BYTES if seen is None else 2 * seen)
    threads = asked.threads or (study.threads if study else None)
    own = allocated_cores() if inside_allocation() else cores()
    return [
        ProbeOrder(
            workers=workers,
            sizes=sizes,
            nodes=nodes,
            backends=_backends(asked.backend, study, results) if workers > 1 else (),
            seconds=duration(asked.seconds),
            device=asked.device and i == 0,
            threads=threads or max(1, own // (workers // nodes)),
        )
        for i, (workers, nodes) in enumerate(_counts(asked, study))
    ]


def _backends(asked: str | None, study: Study | None, results: Sequence[TrialResult]) -> tuple[str, ...]:
    """As asked, else the study's, else the one that its workers chose, else gloo."""
    names = backends(asked) if asked else (study.backends if study else ())
    chosen = with_seen(None, results).backend
    names = names or ((chosen,) if chosen in BACKENDS else ("gloo",))
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        raise UsageError(f"{unknown[0]} cannot be probed", hint="--backend gloo,nccl")
    return names


def _counts(asked: Asked, study: Study | None) -> list[tuple[int, int]]:
    """(workers, nodes) of every launch: as asked; else what the study has, on one node and on two."""
    per_node = asked.workers_per_node or 1
    if asked.workers and asked.nodes:
        raise UsageError(
            "--workers and --nodes both say how many workers there are", hint="--nodes 2 --workers-per-node 4"
        )
    if asked.nodes:
        found = [(count * per_node, count) for count in count_range(asked.nodes)]
    elif asked.workers:
        found = [(count, 1) for count in count_range(asked.workers)]
    elif study is not None and max(study.nodes, default=1) > 1:
        per_node = asked.workers_per_node or max(study.workers_per_node, default=1)
        found = [*([(per_node, 1)] if per_node > 1 else []), (2 * per_node, 2)]
    else:
        most = 2 if study is None else max(study.workers)
        found = [(count, 1) for count in sorted({2, max(2, most)})]
    if min(found)[0] < 2 and not asked.device:
        raise UsageError("one worker has no link to probe", hint="--workers 2, or --nodes 2")
    return found
