"""What a step costs at N workers on M nodes, as a law with few parameters, for many parameter sets at once.

    time      = units · T + fixed                        units: 1 (step), steps per epoch, or 1/N of the whole work
    T         = F + exposed + straggle
    F         = t(b) · (1 + κ g(p))                      p = workers per node;  g = ∛log2 p, or p − 1
    t(b)      = t_ref · (s + (1−s) b/b_ref) · exp(δ_b)
    straggle  = cv · m(N) · F + ℓ F                      m(N): expected maximum of N standard normal values;
                                                         ℓ: how much longer one worker computes, in every step
    exposed   = soft max(0, c − ω F(1+ℓ))                ω: share of the computation under which exchange can hide
              = max_j [C_j − (end of backward − R_j)(1+ℓ+cv m(N)) / σ_j]         where hooks saw the buckets: an
                                                         exchange that lasts waits for the slowest's first bucket only
    σ_j       = C_j with a + b instead of a, over C_j    b: what hops take longer beside computing (probed, as χ below)
    C_j       = n_j a + Σ_{i≥j} x_i                      the n_j buckets from j on; a: all hops of one exchange
              = ‖⌈n_j/k⌉ a, α + Σ_{i≥j} x_i‖₄            over gloo: k = 2 exchanges together, each of which sends parts
                                                         while others arrive, so the longer of the two counts
    F grows by E where N > 1                            E: what computing takes longer for having waited (probed)
    F grows by τ χ h, h = exchange that hides           χ: by how much computing and exchange together want more than
                                                         the cores of a node (one worker on each node, probed)
    k micro-steps and one exchange:  F grows by (k−1) r F, r the share of F before the optimizer; straggle by √k
    collectives that nothing hides (SyncBN) add their latency to exposed
    buffers of K bytes that DDP broadcasts before forward add ⌈log2 N⌉ (α + K/B) over gloo, between nodes ⌈log2 M⌉
    c ring    = 2(N−M) a_i + 2(M−1) a_n + 2(N−1)/N · x
    c tree    = 2(p−1) a_i + 2 log2(M) a_n + x
    x         = max(x_i, x_n (1 + η(p−1)) · (1 + γ log2(M/2)))     x_i counts where p > 1, x_n where M > 1;
                                                         at M = 2 a factor of its own (pair) instead of γ

x is the time to move the whole gradient once (bytes / bandwidth) and a the latency of one hop times the number of
buckets: step times alone know these products, never their factors. Exactly two nodes are a case of their own: NCCL
chooses for them what it never chooses for three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.core import calibration

__all__ = [
    "NAMES",
    "STRUCTURES",
    "Array",
    "Overlap",
    "Practice",
    "Rows",
    "Structure",
    "expected_maximum",
    "log_time",
    "shown_s",
    "stacked",
    "terms",
]

Array = NDArray[np.float64]
Flag = bool | NDArray[np.bool_]  # of one structure, or of one for each parameter set [parameter sets × 1]

NAMES = (
    "x_i",
    "a_i",
    "x_n",
    "a_n",
    "kappa",
    "omega",
    "eta",
    "pair",
    "gamma",
    "cv",
    "fixed",
    "t_ref",
    "share",
)
_CONTENTION_PASSES = 4  # what is lost lengthens what hides: each pass leaves at most 0.55 of what is missing


@dataclass(frozen=True, slots=True)
class Structure:
    """One member of the mixture: how gradients travel."""

    tree: Flag = False  # the exchange: a tree, else a ring
    start_up: bool = True  # whether a training may spend time that no worker count changes
    one_thing: bool = False  # workers of a node take turns at one thing: g = p - 1, without end


STRUCTURES = (Structure(tree=False), Structure(tree=True))


def stacked(structures: Sequence[Structure], which: NDArray[np.intp]) -> Structure:
    """One structure for every parameter set, to evaluate them in one go; which: its index."""
    tree = np.array([s.tree for s in structures])[which][:, None]
    return Structure(tree, one_thing=all(s.one_thing for s in structures))


@dataclass(frozen=True, slots=True)
class Overlap:
    """The buckets as hooks saw them, as shares: ready and end of the computation, size of the bytes."""

    ready_ratio: Array
    end_ratio: float
    tail_share: Array  # of all bytes, in this bucket and those after it
    streams: int | None = None  # exchanges under way together, latency under movement; None: one by one
    cap_share: float | None = None  # of all bytes, at which a bucket is closed, where that is known
    busy_ratio: float = 0.0  # of a node's cores, by the computation of one worker
    carry_s: float = 0.0  # what all cores of a node are busy for, to carry the gradients once
    busy_hop_s: float = 0.0  # by how much a hop takes longer beside that computation
    open_share: float = 0.0  # of the gradients' bytes: what is broadcast before every forward (buffers)


@dataclass(frozen=True, slots=True)
class Practice:
    """What a step does otherwise than the one that was measured; as it stands here, nothing."""

    micro_steps: int = 1  # forward and backward passes before one exchange
    repeated_ratio: float = 1.0  # of the computation that every micro-step repeats: all but the optimizer
    open_ratio: float = 0.0  # latency of collectives that nothing hides, over that of the gradient exchange


_AS_MEASURED = Practice()


@dataclass(frozen=True, slots=True)
class Rows:
    """Settings to evaluate, one entry each."""

    workers: Array
    nodes: Array
    batch: Array  # samples per worker over the reference batch
    below: NDArray[np.intp]  # index of the measured batch at or below
    above: NDArray[np.intp]
    weight: Array  # of `above`, 0..1
    units: Array
    late_ratio: Array | float = 0.0  # how much longer than the others one worker computes
    after_wait_s: float = (
        0.0  # what a step computes longer for having waited, where there are several workers
    )

    @property
    def per_node(self) -> Array:
        """Workers on the fullest node: a synchronous step waits for its slowest worker."""
        return np.ceil(self.workers / self.nodes - 1e-9)


def log_time(
    theta: Array,
    rows: Rows,
    structure: Structure,
    overlap: Overlap | None = None,
    practice: Practice = _AS_MEASURED,
) -> tuple[Array, Array]:
    """log of the time that was measured, and the share of a step that is not computation."""
    compute, exposed, straggle = terms(theta, rows, structure, overlap, practice)
    step = compute + exposed + straggle
    return np.log(rows.units * step + _value(theta, "fixed")), (exposed + straggle) / step


def terms(
    theta: Array,
    rows: Rows,
    structure: Structure,
    overlap: Overlap | None = None,
    practice: Practice = _AS_MEASURED,
) -> tuple[Array, Array, Array]:
    """Computation, exposed exchange and waiting for stragglers, seconds per step, [parameter sets × rows]."""
    compute = compute_s(theta, rows, structure)
    again = compute  # a micro-step that follows another has not waited
    compute = compute_after_wait_s(compute, rows)
    latency, move = exchange_s(theta, rows, structure.tree)
    slowest, lost = compute * (1.0 + rows.late_ratio), np.zeros_like(compute)
    waited = waited_s(theta, rows, compute)
    if overlap is None:
        over = latency + move - _unit(theta, "omega") * slowest
        exposed = 0.5 * (
            over + np.sqrt(over * over + (calibration.NEVER_HIDDEN.value * (latency + move)) ** 2)
        )
    else:
        shown, lost = shown_s(overlap, rows, slowest + waited, latency, move)
        exposed = _exposed_s(shown, rows) + broadcast_s(overlap, rows, latency, move)
    exposed = exposed + practice.open_ratio * latency
    more = practice.micro_steps - 1
    whole = 1.0 + more * practice.repeated_ratio
    straggle = waited * np.sqrt(1.0 + more) + rows.late_ratio * compute * whole
    return compute + (whole - 1.0) * again + lost, np.asarray(exposed), np.asarray(straggle)


def _lost_s(overlap: Overlap, rows: Rows, move: Array, hidden: Array) -> Array:
    """τ χ h: what computing loses to the exchange that hides under it, where both want the same cores."""
    ring = 2 * (rows.workers - 1) / rows.workers
    wanted = overlap.carry_s * ring / np.maximum(move, np.finfo(float).tiny)  # of the cores, while it moves
    both = overlap.busy_ratio + np.minimum(1.0, wanted)
    short = np.clip(both - 1.0, 0.0, wanted)
    return np.asarray(calibration.CONTENTION.value * short * np.clip(hidden, 0.0, move) * _apart(rows))


def shown_s(overlap: Overlap, rows: Rows, compute: Array, latency: Array, move: Array) -> tuple[Array, Array]:
    """C_j − (end − R_j) (1 + lost / (end − R_1)) / σ_j: what is left of bucket j and those after it when backward ends,
    which a negative value says to be nothing, [buckets × parameter sets × rows]; and what computing loses.

    Computing that loses time takes longer from the first bucket on, and the exchange hides under that too."""
    busy = len(overlap.tail_share) * overlap.busy_hop_s * 2 * (rows.workers - 1) * _apart(rows)
    alone = _sent_s(overlap, rows, latency, move)
    slower = np.ones_like(alone)
    if np.any(busy):
        np.divide(_sent_s(overlap, rows, latency + busy, move), alone, out=slower, where=alone > 0)
    left = (overlap.end_ratio - overlap.ready_ratio)[:, None, None] * compute
    done, lost, longer = left / slower, np.zeros_like(compute), np.ones_like(compute)
    for _ in range(_CONTENTION_PASSES if overlap.carry_s else 0):
        exposed = _exposed_s(alone - done * longer, rows)
        lost = _lost_s(overlap, rows, move, hidden=latency + move - exposed)
        longer = 1.0 + np.divide(lost, left[0], out=np.zeros_like(lost), where=left[0] > 0)
    return np.asarray(alone - done * longer), lost


def _exposed_s(shown: Array, rows: Rows) -> Array:
    """What is left of the exchange when backward ends."""
    return np.asarray(np.maximum(0.0, shown.max(axis=0)) * (rows.workers > 1))


def _sent_s(overlap: Overlap, rows: Rows, latency: Array, move: Array) -> Array:
    """C_j: what bucket j and those after it take, [buckets × parameter sets × rows]."""
    count, streams, norm = len(overlap.tail_share), overlap.streams, calibration.RING_NORM.value
    alone = latency / count
    hop = alone / np.maximum(1.0, 2 * (rows.workers - 1))
    found = []
    for j, tail in enumerate(overlap.tail_share):
        if streams is None:
            found.append((count - j) * alone + tail * move)
        else:
            turns = -(-(count - j) // streams)
            found.append(((turns * alone) ** norm + (hop + tail * move) ** norm) ** (1 / norm))
    return np.array(found)


def broadcast_s(overlap: Overlap, rows: Rows, latency: Array, move: Array) -> Array:
    """What every forward waits for: gloo's tree hands the whole on, from one half of the workers to the other."""
    if not overlap.open_share:
        return np.zeros_like(move)
    others = np.maximum(1.0, rows.workers - 1)
    hop, once = latency / len(overlap.tail_share) / (2 * others), move * rows.workers / (2 * others)
    rounds = np.ceil(np.log2(np.where(rows.nodes > 1, rows.nodes, rows.workers)))
    return np.asarray(rounds * (hop + overlap.open_share * once))


def _apart(rows: Rows) -> NDArray[np.bool_]:
    """Where every worker has a node of its own, one of several."""
    return np.asarray((rows.nodes > 1) & (rows.per_node == 1))


def compute_s(theta: Array, rows: Rows, structure: Structure) -> Array:
    """F: what a step would cost if exchange were free, [parameter sets × rows]."""
    alike, first = _unit(theta, "share"), len(NAMES)
    delta = theta[:, first + rows.below] * (1 - rows.weight) + theta[:, first + rows.above] * rows.weight
    alone = _value(theta, "t_ref") * (alike + (1 - alike) * rows.batch) * np.exp(delta)
    return np.asarray(alone * (1.0 + _value(theta, "kappa") * dilation(structure, rows.per_node)))


def compute_after_wait_s(compute: Array, rows: Rows) -> Array:
    """F of a step before which all waited for all; never less than half of it."""
    return np.asarray(np.maximum(compute / 2, compute + rows.after_wait_s * (rows.workers > 1)))


def waited_s(theta: Array, rows: Rows, compute: Array) -> Array:
    """cv m(N) F: what the slowest of a step's workers takes longer, now this one, now that one."""
    return np.asarray(_value(theta, "cv") * expected_maximum(rows.workers) * compute)


def exchange_s(theta: Array, rows: Rows, tree: Flag) -> tuple[Array, Array]:
    """Latency and movement of one exchange of all gradients when nothing hides it, [parameter sets × rows]."""
    n, m, p = rows.workers, rows.nodes, rows.per_node
    inside = _value(theta, "x_i") * (p > 1)
    across = _value(theta, "x_n") * (1 + _value(theta, "eta") * (p - 1)) * (m > 1)
    crowd = 1 + _value(theta, "gamma") * np.log2(np.maximum(m, 2) / 2)  # flows that cross in the switches
    across = across * np.where(m == 2, _value(theta, "pair"), crowd)
    move = np.maximum(inside, across)
    a_i, a_n = _value(theta, "a_i"), _value(theta, "a_n")
    inside_hops, across_hops = np.where(tree, p - 1, n - m), np.where(tree, np.log2(m), m - 1)
    return 2 * inside_hops * a_i + 2 * across_hops * a_n, np.where(tree, 1.0, 2 * (n - 1) / n) * move


def dilation(structure: Structure, per_node: Array) -> Array:
    """g(p): how much neighbours on the host count; 0 alone, 1 with one neighbour."""
    return np.asarray(per_node - 1 if structure.one_thing else np.cbrt(np.log2(per_node)))


def expected_maximum(workers: Array) -> Array:
    """Expected maximum of N standard normal values: Blom's Φ⁻¹((N−3/8)/(N+1/4)), exactly 0 at N = 1."""
    from scipy.special import ndtri

    return np.asarray(np.where(workers > 1, ndtri((workers - 0.375) / (workers + 0.25)), 0.0))


def _value(theta: Array, name: str) -> Array:
    return np.asarray(np.exp(theta[:, NAMES.index(name)])[:, None])


def _unit(theta: Array, name: str) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-theta[:, NAMES.index(name)])))[:, None]
