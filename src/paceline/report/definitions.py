"""What every quantity of a report means, in the words that the tables use."""

from __future__ import annotations

__all__ = ["DEFINITIONS"]

DEFINITIONS: tuple[tuple[str, str], ...] = (
    (
        "step",
        "One optimizer step of all workers together, from start to start, on the slowest worker (seconds).",
    ),
    (
        "compute",
        "What the step would cost if exchange were free and nobody waited: the own time of the typical worker, waiting "
        "for data and the optimizer included (seconds).",
    ),
    ("input", "Waiting for the data loader; a part of compute (seconds)."),
    ("optimizer", "The optimizer's update; a part of compute (seconds)."),
    (
        "wire",
        "Waiting for the network after nothing is left to compute, as the last worker to arrive sees it. A faster "
        "network can win back at most this (seconds).",
    ),
    (
        "straggle",
        "Waiting for late workers, from arrival times: step − compute − wire (seconds).",
    ),
    ("exposed", "Exchange that costs time: wire + straggle (seconds)."),
    ("hidden", "Exchange that runs under computation and so costs no time (seconds)."),
    ("samples/s", "Throughput: global batch over step (samples per second)."),
    (
        "speed-up",
        "Throughput over the throughput of the baseline: the point with the fewest workers of the same line (ratio).",
    ),
    ("efficiency", "Speed-up over the ratio of worker counts (percent)."),
    ("weak scaling", "The batch per worker stays the same, so the global batch grows with the workers."),
    ("strong scaling", "The global batch stays the same and is divided among the workers."),
    ("exchanged per step", "Bytes that one worker hands to collectives in a step."),
    (
        "bus bandwidth",
        "Exchanged bytes × 2(n−1)/n over the time that collectives were under way, hidden or not: comparable between "
        "worker counts and with the rate of a link (bytes per second).",
    ),
    (
        "peak memory",
        "The most that any worker held at once: device memory where there is a device, else resident memory.",
    ),
    (
        "interval",
        "90%, over launches, since the steps of one launch share its luck. Of a projection: 90% of predictions.",
    ),
    (
        "measured, projected, refused",
        "Seen in trials; follows from the cost model; beyond what the trials can support.",
    ),
    (
        "gain per doubling",
        "Throughput ratio from one count to the next, per doubling of workers; 1.5 or more is worthwhile (CSC's "
        "performance checklist).",
    ),
    ("agent", "The part of Paceline that runs inside the training processes and measures there."),
)
