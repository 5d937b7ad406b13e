"""How one network is spread over the workers: what their agents named, and which of them are one Replica.

    replica     workers that hold one copy of the network together: tensors or layers are spread over them, no batch

An agent sees its own worker. What only a comparison of workers tells is said here: of strategies written by hand, whose
weights differ, messages alone make a pipeline where a backward begins from what another stage sent, an all-to-all in
forward spreads experts, and other operations in forward over workers with the same data make tensor parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.core.manifest import number
from paceline.records import MESSAGES, Communication, WorkerRecord

__all__ = ["asked_and_absent", "fingerprint", "replicas", "strategies", "strategy_text", "weights_differ"]

DRIFT_RATIO = 1e-5
_SMALL_BYTES = 1024
_FEWEST_LOSSES = 3  # that agree, for batches to be the same
_ROUNDING_RATIO = 1e-5
_BY_HAND = "hand-written"
_EXPERTS = "ep"
_SERVES = {"fsdp": ("fsdp1", "fsdp2", "hsdp"), "deepspeed": ("deepspeed",)}

Replicas = tuple[tuple[int, ...], ...]


def strategies(workers: Sequence[WorkerRecord]) -> tuple[str, ...]:
    """The strategies of a trial; none where its agents were older ones."""
    names = dict.fromkeys(name for worker in workers for name in _texts(worker, "strategy"))
    by_hand = _spread_by_hand(workers)
    return tuple(by_hand[0] if name == _BY_HAND and by_hand else name for name in names)


def strategy_text(workers: Sequence[WorkerRecord]) -> str | None:
    """`fsdp2 + tp`; None where no agent named any."""
    return " + ".join(strategies(workers)) or None


def asked_and_absent(workers: Sequence[WorkerRecord]) -> tuple[str, ...]:
    """What the environment asked for, and no worker does."""
    found = strategies(workers)
    asked = dict.fromkeys(name for worker in workers for name in _texts(worker, "strategy_asked"))
    return tuple(name for name in asked if found and not any(real in found for real in _SERVES.get(name, ())))


def replicas(workers: Sequence[WorkerRecord]) -> Replicas:
    """The workers that hold one copy of the network together and work on the same batch; each its own where unknown."""
    told = [_numbers(worker, "replica") for worker in workers]
    by_hand = _spread_by_hand(workers)
    return _joined([worker.rank for worker in workers], (*told, *(by_hand[1] if by_hand else ())))


def weights_differ(workers: Sequence[WorkerRecord]) -> float | None:
    """Largest relative difference between checksums of weights that should be equal: those in the same place of their
    replicas. None where fewer than two are known, and where experts differ by design."""
    if _EXPERTS in strategies(workers):
        return None
    places = list(zip(*replicas(workers), strict=False))
    sums = {worker.rank: number(worker.manifest, "weights_checksum") for worker in workers}
    drifts = [_drift([sums[rank] for rank in place]) for place in places]
    known = [drift for drift in drifts if drift is not None]
    return max(known) if known else None


def fingerprint(worker: WorkerRecord) -> tuple[object, ...]:
    """Marks of a worker's first batches, that equal batches share: as they entered the network, else as loaded."""
    marks = worker.manifest.get("entered_fingerprint") or worker.manifest.get("batch_fingerprint")
    return tuple(marks) if isinstance(marks, list) else ()


def _drift(sums: Sequence[float | None]) -> float | None:
    known = [value for value in sums if value is not None]
    if len(known) < 2:
        return None
    scale = max(abs(value) for value in known) or 1.0
    return (max(known) - min(known)) / scale


def _spread_by_hand(workers: Sequence[WorkerRecord]) -> tuple[str, tuple[tuple[int, ...], ...]] | None:
    """`pp`, `ep` or `tp` of a strategy that no library names, and the workers it joins; None where it is another."""
    if not any(_BY_HAND in _texts(worker, "strategy") for worker in workers):
        return None
    drift = _drift([number(worker.manifest, "weights_checksum") for worker in workers])
    if drift is None or drift <= DRIFT_RATIO:
        return None
    sent = {(worker.rank, of) for worker in workers for of in _communications(worker)}
    joined = tuple((rank, of.peer) for rank, of in sent if of.op in MESSAGES and of.peer is not None)
    if joined and not any(_is_payload(of) for _, of in sent):
        return ("pp", joined) if any(map(_begins_from_gradients, workers)) else None
    if any(of.op == "all_to_all" and of.phase == "forward" for _, of in sent):
        return _EXPERTS, ()
    by_rank = {worker.rank: worker for worker in workers}
    inside = tuple(
        dict.fromkeys(
            of.ranks
            for _, of in sent
            if of.phase == "forward"
            and _is_payload(of)
            and _shares_batches([by_rank[rank] for rank in of.ranks if rank in by_rank])
        )
    )
    return ("tp", inside) if inside else None


def _communications(worker: WorkerRecord) -> set[Communication]:
    exchanges = (exchange for sample in worker.samples for exchange in sample.exchanges or ())
    return {exchange.of for exchange in exchanges if exchange.of is not None}


def _shares_batches(members: Sequence[WorkerRecord]) -> bool:
    """Whether they were given the same batches: by their marks, or because their losses agree in every step."""
    marks = {fingerprint(member) for member in members}
    if any(marks):
        return len(marks) == 1
    by_step = [{s.k: s.loss for s in member.samples if s.loss is not None} for member in members]
    common = set.intersection(*map(set, by_step)) if by_step else set()
    same = all(_is_one_number([losses[k] for losses in by_step]) for k in common)
    return same and len(common) >= _FEWEST_LOSSES


def _is_one_number(losses: Sequence[float]) -> bool:
    return max(losses) - min(losses) <= _ROUNDING_RATIO * max(map(abs, losses))


def _begins_from_gradients(worker: WorkerRecord) -> bool:
    """Whether its backward begins from more than one number: from gradients of another stage, not from a loss."""
    looked = [sample for sample in worker.samples if sample.exchanges and sample.backwards]
    return bool(looked) and all(sample.loss is None for sample in looked)


def _is_payload(of: Communication) -> bool:
    """More than a loss or a flag that all workers agree on."""
    return of.op not in MESSAGES and (of.size_bytes is None or of.size_bytes > _SMALL_BYTES)


def _joined(ranks: Sequence[int], together: Iterable[Sequence[int]]) -> Replicas:
    """The parts that these links make of the workers."""
    part = {rank: {rank} for rank in ranks}
    for linked in together:
        whole: set[int] = set().union(*(part[rank] for rank in linked if rank in part))
        for rank in whole:
            part[rank] = whole
    return tuple(dict.fromkeys(tuple(sorted(part[rank])) for rank in ranks))


def _texts(worker: WorkerRecord, key: str) -> tuple[str, ...]:
    found = worker.manifest.get(key)
    return tuple(str(name) for name in found) if isinstance(found, list) else ()


def _numbers(worker: WorkerRecord, key: str) -> tuple[int, ...]:
    found = worker.manifest.get(key)
    return tuple(rank for rank in found if isinstance(rank, int)) if isinstance(found, list) else ()
