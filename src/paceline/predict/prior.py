"""What is believed about a step's parameters before its times are seen, from the table of calibrated constants.

Calibrated once on step times of six networks on up to 64 T4 and on throughputs of ten networks on one to eight GPUs
(docs/background/prediction.md says what was tuned on what). Relative ones are shares of the step on one worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from paceline.core import calibration as believed
from paceline.core.calibration import Believed
from paceline.links.belief import LinkBelief
from paceline.predict.jitter import variation
from paceline.predict.observations import Observed
from paceline.predict.step_law import NAMES, Array, Structure

__all__ = ["Belief", "belief", "bucket_count"]


_START_UP = {"epoch": believed.START_UP_OF_EPOCH, "job": believed.START_UP_OF_JOB}


@dataclass(frozen=True, slots=True)
class Belief:
    """Means and deviations of the log-parameters (logit for the two shares), in the order of a parameter vector."""

    mean: Array
    sd: Array


def belief(
    observed: Observed,
    structure: Structure,
    *,
    inside: LinkBelief | None = None,
    between: LinkBelief | None = None,
) -> Belief:
    """The prior of one structure for one series."""
    alone = alone_s(observed)
    known = observed.gradient_bytes if observed.absolute else None
    buckets = bucket_count(observed)
    mean, sd = np.zeros(len(NAMES)), np.ones(len(NAMES))

    def put(name: str, median: float, deviation: float) -> None:
        mean[NAMES.index(name)], sd[NAMES.index(name)] = math.log(median), deviation

    def believe(name: str, what: Believed, scale: float = 1.0) -> None:
        put(name, what.value * scale, what.spread)

    believe("x_i", believed.MOVE_INSIDE, alone)
    believe("x_n", believed.MOVE_ACROSS, alone)
    if observed.absolute:
        believe("a_i", believed.HOP_INSIDE_S, buckets)
        believe("a_n", believed.HOP_ACROSS_S, buckets)
    else:
        believe("a_i", believed.HOP_INSIDE, alone)
        believe("a_n", believed.HOP_ACROSS, alone)
    for link, x, a in ((inside, "x_i", "a_i"), (between, "x_n", "a_n")):
        if link is not None and known is not None:
            put(x, known / link.bytes_per_s, link.bytes_sd)
            put(a, link.latency_s * buckets, link.latency_sd)
    believe("kappa", believed.DILATION)
    if observed.backend == "gloo":  # one ring, one flow on every link: no tuner, no crowd in the switches
        believe("eta", believed.SHARING_GLOO)
        believe("pair", believed.PAIR_GLOO)
        believe("gamma", believed.CROWD_GLOO)
    else:
        believe("eta", believed.SHARING_NCCL)
        believe("pair", believed.PAIR_NCCL_TREE if structure.tree else believed.PAIR_NCCL_RING)
        believe("gamma", believed.CROWD_NCCL)
    put("cv", *_variation(observed))
    believe("t_ref", believed.COMPUTING, alone)
    start_up = _START_UP.get(observed.kind, believed.START_UP_OF_STEP)
    believe("fixed", start_up if structure.start_up else believed.NO_START_UP, float(observed.time_s[0]))
    for name, what in (
        ("omega", believed.OVERLAP),
        ("share", believed.FIXED_SHARE),
    ):
        mean[NAMES.index(name)], sd[NAMES.index(name)] = what.value, what.spread
    return Belief(np.append(mean, np.zeros(len(observed.batches))), np.append(sd, _batch_sd(observed)))


def _variation(observed: Observed) -> tuple[float, float]:
    """cv: a worker that takes now longer, now shorter by itself makes all others wait the more, the more there are.

    Part of what one worker shows is not its own (a machine's slow minute is slow for all that share it); a probe that
    saw several at once tells how much."""
    unseen = believed.JITTER_UNSEEN
    if observed.jitter is not None:
        seen = variation(observed.jitter, observed.steps_ratio)
        sd = math.hypot(believed.JITTER_AT_ONCE.spread, observed.jitter.sd)
        return max(believed.JITTER_LEAST.value, seen), sd if seen > unseen.value else unseen.spread
    noise = unseen.value if observed.noise_ratio is None else observed.noise_ratio
    sd = believed.JITTER_OF_ONE.spread if noise > unseen.value else unseen.spread
    return max(believed.JITTER_LEAST.value, noise), sd


def _batch_sd(observed: Observed) -> Array:
    """How far a batch may lie off the line. One seen at one count only says what it computes, not what is exchanged."""
    places = list(zip(observed.workers, observed.nodes, strict=True))
    counts = {
        b: {p for p, at in zip(places, observed.batch, strict=True) if at == b} for b in observed.batches
    }
    told = set().union(*(seen for seen in counts.values() if len(seen) > 1))
    return np.array(
        [
            (believed.LONE_BATCH if len(counts[b]) == 1 and counts[b] <= told else believed.BATCH).spread
            for b in observed.batches
        ]
    )


def alone_s(observed: Observed) -> float:
    """Seconds of a step at the fewest workers: the scale of everything relative."""
    fewest = observed.workers == observed.workers.min()
    return float(np.exp(np.mean(np.log(observed.time_s[fewest] / observed.units[fewest]))))


def bucket_count(observed: Observed) -> float:
    """Buckets that a gradient travels in."""
    if observed.overlap is not None:
        return float(len(observed.overlap.tail_share))
    if observed.gradient_bytes is None:
        return believed.UNSEEN_BUCKETS.value
    return 1.0 + math.floor(observed.gradient_bytes / believed.BUCKET_BYTES.value)
