"""Every constant that was calibrated or is believed, in one table: value, spread, unit, evidence and date.

    Constant    is taken as it is
    Believed    may be off by a standard deviation: of its logarithm, or of itself where it may be 0 or less
    Evidence    a folder of evidence/, or a source in words

Not here, because they claim nothing about the world: thresholds from which something is worth a word (check/,
decide/), rules of what is refused (predict/refusals), settings of numerics. They stand where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Believed", "Constant", "Evidence"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A folder of evidence/, or a source in words, and the day of the measurement or of the reading."""

    where: str
    date: str


@dataclass(frozen=True, slots=True)
class Constant:
    """One number that is taken as it is, and why."""

    value: float
    unit: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Believed:
    """One number that may be off by a standard deviation, and why it is believed."""

    value: float
    spread: float
    unit: str
    evidence: Evidence


_NETWORKS = Evidence("2026-11-15-prediction", "2026-11-15")
_DEVICE = Evidence("2026-11-15-h200", "2026-11-15")
_LAB = Evidence("lab/2026-11-15-lab-2", "2026-11-15")
_LAG = Evidence("lab/2026-11-15-lab-lag", "2026-11-15")
_REAL = Evidence("lab/2026-11-15-lab-real", "2026-11-15")
_STEADY = Evidence("lab/2026-11-16-lab-steady", "2026-11-16")
_CONTENTION = Evidence("lab/2026-11-16-lab-contention", "2026-11-16")
_BESIDE = Evidence("lab/2026-11-16-lab-beside", "2026-11-16")
_RESUME = Evidence("lab/2026-11-16-lab-resume", "2026-11-16")
_CALM = Evidence("lab/2026-11-17-lab-calm", "2026-11-17")
_MEMORY = Evidence("2026-11-19-memory", "2026-11-19")
_STAKE = Evidence("2026-11-19-ablation", "2026-11-19")
_ALONE = "step of the fewest workers"  # a unit: what is believed as a share of it

# Time to move a gradient once, by kind of link, and latency of one hop, where no link was probed or declared.
MOVE_INSIDE = Believed(0.1, 1.0, _ALONE, _NETWORKS)
MOVE_ACROSS = Believed(0.6, 1.0, _ALONE, _NETWORKS)
HOP_INSIDE_S = Believed(2e-5, 1.0, "s per bucket", _NETWORKS)
HOP_ACROSS_S = Believed(1e-4, 1.0, "s per bucket", _NETWORKS)
HOP_INSIDE = Believed(3e-4, 1.0, _ALONE, _NETWORKS)  # where seconds are not known
HOP_ACROSS = Believed(3e-3, 1.0, _ALONE, _NETWORKS)
UNSEEN_BUCKETS = Constant(3.0, "buckets", _NETWORKS)

# What a probe of links tells of a training, which exchanges while it computes.
_WIDER = "belief: a probe exchanges while nobody computes; wider than the 1.2% of 2026-11-15-probe"
PROBED_RATE = Believed(1.0, 0.10, "of the probed rate", Evidence(_WIDER, "2026-11-15"))
PROBED_LATENCY = Believed(1.0, 0.30, "of the probed latency", Evidence(_WIDER, "2026-11-15"))
RING_RATE = Believed(1.0, 0.003, "of the probed rate", _LAB)  # over gloo, between nodes
RING_LATENCY = Believed(1.0, 0.03, "of the probed latency", _LAB)
POOR_DEVICE = Constant(0.5, "of the data sheet", _DEVICE)  # a sound one reaches 0.75 to 0.86

# How workers share nodes and the network.
DILATION = Believed(0.015, 1.3, "of computing", _NETWORKS)  # by neighbours on a node
SHARING_GLOO = Believed(0.01, 0.8, "per neighbour", _LAB)  # of a node's network: gloo sends one ring
SHARING_NCCL = Believed(0.06, 0.3, "per neighbour", _NETWORKS)
PAIR_GLOO = Believed(1.0, 0.02, "of the movement", _LAB)  # exactly two nodes
PAIR_NCCL_RING = Believed(1.42, 0.15, "of the movement", _NETWORKS)
PAIR_NCCL_TREE = Believed(1.0, 0.15, "of the movement", _NETWORKS)
CROWD_GLOO = Believed(0.003, 1.0, "per doubling of nodes", _LAB)  # flows that cross in the switches
CROWD_NCCL = Believed(0.05, 0.8, "per doubling of nodes", _NETWORKS)

# The parts of a step and of a training.
COMPUTING = Believed(1.0, 1.0, _ALONE, _NETWORKS)
FIXED_SHARE = Believed(-1.0, 1.5, "logit of computing", _NETWORKS)  # that no batch changes
BATCH = Believed(1.0, 0.15, "of a line in the batch", _NETWORKS)  # tile and launch effects
LONE_BATCH = Believed(1.0, 1.0, "of a line in the batch", _NETWORKS)  # measured at one count, told by others
OVERLAP = Believed(-0.3, 0.7, "logit of computing", _NETWORKS)  # under which an exchange can hide
NEVER_HIDDEN = Constant(0.15, "of the exchange", _NETWORKS)  # the last bucket has nothing to hide under
_PRODUCTS = Evidence("two products of matrices backward for each one forward", "2026-11-15")
BACKWARD = Constant(2 / 3, "of forward and backward", _PRODUCTS)
START_UP_OF_EPOCH = Believed(0.002, 1.0, "of its time", _NETWORKS)
START_UP_OF_JOB = Believed(0.1, 1.5, "of its time", _NETWORKS)
START_UP_OF_STEP = Believed(1e-6, 0.01, "of its time", _NETWORKS)
NO_START_UP = Believed(1e-4, 0.5, "of its time", _NETWORKS)

# Buckets over gloo, and what exchange and computing take from each other.
_DDP = Evidence("torch's DistributedDataParallel: bucket_cap_mb is 25", "2026-11-15")
BUCKET_BYTES = Constant(26_214_400, "B", _DDP)
GLOO_STREAMS = Constant(2, "exchanges", Evidence("torch's ProcessGroupGloo: 2 threads", "2026-11-15"))
RING_NORM = Constant(4, "power", _LAB)  # joins latency and movement: 4% off on links of 3 ms
CAP_OF_BUCKET = Constant(0.95, "of its size", _LAB)  # it closes when a tensor takes it there, and beyond
CONTENTION = Believed(0.55, 0.73, "of wanted CPU time", _CONTENTION)  # that computing loses to what hides
BUSY_HOP = Believed(1.0, 0.5, "of what 2 hosts tell", _BESIDE)  # hops beside computing: 0.6 to 1.8 of it
AFTER_WAIT = Believed(0.0, 0.03, "of a step", _RESUME)  # what waiting changes in computing, before any probe

# By how much workers differ from step to step, which makes all wait for the slowest.
JITTER_UNSEEN = Believed(0.005, 0.8, "of a step", _CALM)
JITTER_LEAST = Constant(0.001, "of a step", _CALM)
JITTER_OF_ONE = Believed(1.0, 0.5, "of what one worker's steps differ by", _REAL)
JITTER_AT_ONCE = Believed(1.0, 0.3, "of what workers differ by at once", _STEADY)
JITTER_OF_LAUNCHES = Constant(0.5, "of what launches differ by", _REAL)  # the rest is the minute's
JITTER_OF_MINUTES = Constant(0.75, "of what steps differ by", _REAL)  # widens what is predicted

# What the fitted law leaves open.
MISFIT = Constant(0.02, "of a step", _NETWORKS)  # at least
MISFIT_SEEN = Constant(0.002, "of a step", _LAB)  # buckets seen, gloo, links probed
CANNOT_FIT = Constant(0.05, "of a step", _NETWORKS)  # a structure that is farther off, where another is not
INDEPENDENT_ROWS = Constant(120.0, "rows", _NETWORKS)  # more of them repeat the same deviations
DISCREPANCY_INSIDE = Constant(0.09, "of a step", _NETWORKS)
DISCREPANCY_ACROSS = Constant(0.10, "of a step", _NETWORKS)
DISCREPANCY_GROWTH = Constant(0.1, "per doubling, of the variance", _NETWORKS)
DISCREPANCY_SEEN = Constant(0.002, "of a step", _LAB)
DISCREPANCY_BUSY = Constant(0.015, "of a step", _STEADY)  # computing and exchange share the cores
FREE_CORES = Constant(0.5, "of a node's cores", _LAB)  # less in use: they do not share
DISCREPANCY_RING = Constant(0.1, "of the exchange that shows", _LAG)  # latency and movement both count
WORKERS_PER_SOCKET = Constant(4, "workers", _NETWORKS)  # or per switch of a node
LOST_AGAIN = Constant(1.0, "of the loss of 4 workers", _STAKE)  # by a node's other half
LOST_AT_MOST = Constant(0.4, "of a step", _STAKE)

# Epochs to an accuracy by global batch, E0 (1 + (B / critical)^p).
EPOCHS_MISFIT = Constant(0.02, "of the epochs", _NETWORKS)
EPOCHS_SMALL_BATCH = Believed(1.0, 0.5, "of the fewest epochs seen", _NETWORKS)
EPOCHS_POWER = Believed(0.93, 0.25, "power", _NETWORKS)
EPOCHS_BEYOND = Constant(0.16, "per doubling beyond the largest batch", _NETWORKS)  # that no fit sees
CRITICAL_OF_NOISE = Believed(3.5, 0.8, "noise scales", _NETWORKS)  # five networks gave 2 to 19
CRITICAL_UNKNOWN = Believed(6.0, 1.5, "largest batches seen", _NETWORKS)
CRITICAL_SAID = Constant(2.5, "noise scales", _NETWORKS)  # where one batch was trained
CRITICAL_SAID_AT_MOST = Constant(4.0, "noise scales", _NETWORKS)
SMALLER_BATCHES = Constant(0.75, "power of B / largest", _NETWORKS)  # how fast their weight falls

_LAUNCHES = Evidence("2026-11-15-injection", "2026-11-15")
LAUNCH = Constant(
    0.03, "of its time", _LAUNCHES
)  # one alone, a deviation: 0.1 to 2.5% there, 1.7 to 5% in tests/recorded

# Practice and hardware, from others.
_FLEET = Evidence("Llama 3: 419 unexpected interruptions of 16,384 H100 in 54 days", "2026-11-15")
FAILURES = Believed(16_384 * 54 * 24 / 419, 0.5, "worker-hours between them", _FLEET)
_CSC = 'CSC\'s performance checklist: "at least 1.5 times faster when you double the resources"'
WORTH_PER_DOUBLING = Constant(1.5, "speed-up per doubling", Evidence(_CSC, "2026-11-15"))
_NVLINK = Evidence("NVIDIA: NVLink 5 of one GPU, both directions", "2026-11-15")
FASTEST_LINK = Constant(1.8e12, "B/s", _NVLINK)  # no training exchange is faster

# Memory: how far what is fitted may be off, beside what follows from a strategy's rule.
MEMORY_REST = Constant(0.02, "of activations and temporaries", _MEMORY)
MEMORY_REST_OF_ONE = Constant(0.08, "of activations and temporaries", _MEMORY)  # from one batch alone
MEMORY_BEYOND = Constant(0.25, "of what no tensor holds", _MEMORY)
