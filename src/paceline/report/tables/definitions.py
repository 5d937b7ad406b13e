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
        "What the step would cost if communication were free and nobody waited (seconds). Data wait and optimizer "
        "are included.",
    ),
    ("data wait", "Waiting for the data loader; a part of compute (seconds)."),
    ("optimizer", "The optimizer's update; a part of compute (seconds)."),
    (
        "network",
        "Waiting for the network after nothing is left to compute (seconds). A faster network can win back at most "
        "this.",
    ),
    (
        "waiting for the slowest",
        "Waiting for the slowest worker, from arrival times: step − compute − network (seconds).",
    ),
    (
        "pipeline bubble",
        "Of a pipeline: waiting of its busiest stage for the others; zero elsewhere (seconds).",
    ),
    ("comm wait", "Communication that costs time: network + waiting for the slowest (seconds)."),
    ("hidden communication", "Communication that runs under computation and so costs no time (seconds)."),
    ("samples/s", "Throughput: global batch over step (samples per second)."),
    (
        "speed-up",
        "Throughput over the throughput of the baseline: the setting with the fewest workers of the same line (ratio).",
    ),
    ("efficiency", "Speed-up over the ratio of worker counts (percent)."),
    ("weak scaling", "The batch per worker stays the same, so the global batch grows with the workers."),
    ("strong scaling", "The global batch stays the same and is divided among the workers."),
    ("sent per step", "Bytes that one worker communicates in a step."),
    (
        "bus bandwidth",
        "Bytes × 2(n−1)/n over the time that all-reduces were under way, hidden or not (bytes per second). "
        "Comparable between worker counts, and with the rate of a link.",
    ),
    (
        "peak memory",
        "The most that any worker held at once: device memory where there is a device, else resident memory.",
    ),
    (
        "interval",
        "90%, over runs, since the steps of one run share its luck. Of a prediction: 90% of predictions.",
    ),
    (
        "measured, predicted, no prediction",
        "Seen in runs; follows from the cost model; beyond what the runs can support.",
    ),
    (
        "gain per doubling",
        "Throughput ratio from one count to the next, per doubling of workers; 1.5 or more is worthwhile (CSC's "
        "performance checklist).",
    ),
    ("agent", "The part of Paceline that runs inside the training processes and measures there."),
)
