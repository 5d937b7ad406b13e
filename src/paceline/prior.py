"""What is believed about a step's parameters before its times are seen: medians and log-deviations, with reasons.

Calibrated once on step times of six networks on up to 64 T4 and on throughputs of ten networks on one to eight GPUs
(docs/prediction.md says what was tuned on what). Relative ones are shares of the step on one worker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from paceline.links import LinkBelief
from paceline.observe import Observed
from paceline.steady import variation
from paceline.step_law import NAMES, Array, Structure

__all__ = ["CALM", "Belief", "belief", "bucket_count"]

BUCKET_BYTES = 26_214_400  # DDP's default bucket: 25 MiB
_UNKNOWN_BUCKETS = 3.0
CALM = 0.005  # of a step: what one worker's steps differ by on a machine of its own, where nothing tells it
_STILL = 0.001  # no worker is steadier than this, whatever few steps of it say
_CALM_SD, _NOISY_SD, _SEEN_SD = 0.8, 0.5, 0.3
_BATCH_SD = 0.15  # step time against a straight line in the batch: tile and launch effects
_LONE_BATCH_SD = 1.0  # of a batch that was measured at one count, where others tell what that count costs


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

    put("x_i", 0.1 * alone, 1.0)
    put("x_n", 0.6 * alone, 1.0)
    if observed.absolute:
        put("a_i", 2e-5 * buckets, 1.0)
        put("a_n", 1e-4 * buckets, 1.0)
    else:
        put("a_i", 3e-4 * alone, 1.0)
        put("a_n", 3e-3 * alone, 1.0)
    for link, x, a in ((inside, "x_i", "a_i"), (between, "x_n", "a_n")):
        if link is not None and known is not None:
            put(x, known / link.bytes_per_s, link.bytes_sd)
            put(a, link.latency_s * buckets, link.latency_sd)
    put("kappa", 0.015, 1.3)
    if observed.backend == "gloo":  # one ring, one flow on every link: no tuner, no crowd in the switches
        put("eta", 0.01, 0.8)
        put("pair", 1.0, 0.02)
        put("gamma", 0.003, 1.0)
    else:
        put("eta", 0.06, 0.3)
        put("pair", 1.42 if structure.algorithm == "ring" else 1.0, 0.15)
        put("gamma", 0.05, 0.8)
    put("cv", *_variation(observed))
    put("t_ref", alone, 1.0)
    start_up = {"epoch": (0.002, 1.0), "job": (0.1, 1.5)}.get(observed.kind, (1e-6, 0.01))
    fixed, deviation = start_up if structure.start_up else (1e-4, 0.5)
    put("fixed", fixed * float(observed.time_s[0]), deviation)
    mean[NAMES.index("omega")], sd[NAMES.index("omega")] = -0.3, 0.7
    mean[NAMES.index("share")], sd[NAMES.index("share")] = -1.0, 1.5
    return Belief(np.append(mean, np.zeros(len(observed.batches))), np.append(sd, _batch_sd(observed)))


def _variation(observed: Observed) -> tuple[float, float]:
    """cv: a worker that takes now longer, now shorter by itself makes all others wait the more, the more there are.

    Part of what one worker shows is not its own (a machine's slow minute is slow for all that share it); a probe that
    saw several at once tells how much."""
    if observed.steady is not None:
        seen = variation(observed.steady, observed.steps_ratio)
        sd = math.hypot(_SEEN_SD, observed.steady.sd) if seen > CALM else _CALM_SD
        return max(_STILL, seen), sd
    noise = CALM if observed.noise_ratio is None else observed.noise_ratio
    return max(_STILL, noise), _NOISY_SD if noise > CALM else _CALM_SD


def _batch_sd(observed: Observed) -> Array:
    """How far a batch may lie off the line. One seen at one count only says what it computes, not what is exchanged."""
    places = list(zip(observed.workers, observed.nodes, strict=True))
    counts = {
        b: {p for p, at in zip(places, observed.batch, strict=True) if at == b} for b in observed.batches
    }
    told = set().union(*(seen for seen in counts.values() if len(seen) > 1))
    return np.array(
        [_LONE_BATCH_SD if len(counts[b]) == 1 and counts[b] <= told else _BATCH_SD for b in observed.batches]
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
        return _UNKNOWN_BUCKETS
    return 1.0 + math.floor(observed.gradient_bytes / BUCKET_BYTES)
