"""What a change would do to a step: the fitted law, with one thing or several otherwise.

link=2x              every link carries twice as much; latency stays                     x / 2
bytes=0.5            gradients are sent at half their size (fp16, bf16)                  x · 0.5
power-sgd=4@512x512  two low-rank factors of weight matrices of that shape               x · r(m+n)/(mn), latency · 2
fsdp                 two all-gathers and a reduce-scatter instead of one all-reduce      x · 1.5, latency · 1.5
bucket=2x            buckets twice as large: fewer latencies, later starts               latency / 2
accumulate=4         one exchange after four forward and backward passes                 T + 3 · (forward + backward)
sync-bn=53           so many SyncBN layers, each an all-gather and an all-reduce         53 · 1.5 latencies in the open
workers-per-node=4   the same workers, placed otherwise                                  nodes = N / 4

What compressing costs on the device is not counted, and a sharded exchange hides where the measured one did.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.core import calibration
from paceline.core.errors import UsageError
from paceline.predict.fit import Law
from paceline.predict.prior import bucket_count
from paceline.predict.step_law import NAMES, Array, Overlap, Practice

__all__ = ["NO_CHANGE", "Change", "change_from", "changed_law"]

_SYNC_BN = 1.5  # of an all-reduce's rounds: an all-gather forward (n−1), an all-reduce backward 2(n−1)
_SHARDED = 1.5  # 3(n−1) rounds of size/n bytes where an all-reduce has 2(n−1)
_FACTORS = 2.0  # PowerSGD sends its two factors one after the other
_WORDS = ("link", "bytes", "power-sgd", "fsdp", "bucket", "accumulate", "sync-bn", "workers-per-node")


@dataclass(frozen=True, slots=True)
class Change:
    """A what-if; as it stands here, nothing changes."""

    link_ratio: float = 1.0
    bytes_ratio: float = 1.0
    rounds_ratio: float = 1.0  # collectives per exchange over those measured
    bucket_ratio: float = 1.0
    micro_steps: int = 1
    sync_layers: int = 0
    workers_per_node: int | None = None


NO_CHANGE = Change()


def change_from(words: Sequence[str]) -> Change:
    """The Change that `link=2x`, `accumulate=4`, … ask for together."""
    found = NO_CHANGE
    for word in words:
        name, _, value = word.strip().partition("=")
        if name in ("link", "bucket"):
            ratio = _ratio(word, value)
            found = replace(found, **{f"{name}_ratio": getattr(found, f"{name}_ratio") * ratio})
        elif name == "bytes":
            found = replace(found, bytes_ratio=found.bytes_ratio * _ratio(word, value))
        elif name == "power-sgd":
            ratio = _power_sgd_ratio(word, value)
            found = replace(
                found, bytes_ratio=found.bytes_ratio * ratio, rounds_ratio=found.rounds_ratio * _FACTORS
            )
        elif word.strip() == "fsdp":
            found = replace(
                found, bytes_ratio=found.bytes_ratio * _SHARDED, rounds_ratio=found.rounds_ratio * _SHARDED
            )
        elif name == "accumulate":
            found = replace(found, micro_steps=_count(word, value))
        elif name == "sync-bn":
            found = replace(found, sync_layers=_count(word, value))
        elif name == "workers-per-node":
            found = replace(found, workers_per_node=_count(word, value))
        else:
            raise UsageError(f"{word!r} is not a what-if", hint=f"choose one of {', '.join(_WORDS)}")
    return found


def changed_law(law: Law, change: Change) -> Law:
    """The law of the same training after the change (where it runs is the settings' affair)."""
    observed, buckets = law.observed, bucket_count(law.observed)
    fewer = 1.0 / change.bucket_ratio
    if observed.overlap is not None and change.bucket_ratio != 1.0:
        overlap = _rebucketed(observed.overlap, change.bucket_ratio)
        fewer = len(overlap.tail_share) / len(observed.overlap.tail_share)
        observed = replace(observed, overlap=overlap)
    elif observed.overlap is None:
        fewer = max(fewer, 1.0 / buckets)  # one bucket at least
    if observed.overlap is not None:
        overlap = replace(
            observed.overlap,
            carry_s=observed.overlap.carry_s * change.bytes_ratio,
            busy_hop_s=observed.overlap.busy_hop_s * change.rounds_ratio,
            open_share=observed.overlap.open_share / change.bytes_ratio,  # buffers stay as they are
        )
        observed = replace(observed, overlap=overlap)
    latency_ratio = fewer * change.rounds_ratio
    shift = np.zeros(len(NAMES))
    for name in ("x_i", "x_n"):
        shift[NAMES.index(name)] = np.log(change.bytes_ratio / change.link_ratio)
    for name in ("a_i", "a_n"):
        shift[NAMES.index(name)] = np.log(latency_ratio)
    members = []
    for member in law.members:
        theta = member.theta.copy()
        theta[:, : len(NAMES)] += shift
        members.append(replace(member, theta=theta))
    practice = Practice(
        micro_steps=change.micro_steps,
        repeated_ratio=_before_optimizer_ratio(law),
        open_ratio=_SYNC_BN * change.sync_layers / buckets / latency_ratio,
    )
    return Law(observed, tuple(members), practice, law.between_probed)


def _before_optimizer_ratio(law: Law) -> float:
    """The share of a step on the fewest workers that comes before the optimizer; all of it where nobody looked."""
    first = law.observed.profiles[0]
    whole = first.compute_s or first.step_s
    if first.optimizer_s is None or whole is None or whole.value <= 0:
        return 1.0
    return max(0.0, 1.0 - first.optimizer_s.value / whole.value)


def _rebucketed(overlap: Overlap, bucket_ratio: float) -> Overlap:
    """Larger buckets join whole ones, as DDP fills them: one closes when it reaches the cap.
    Smaller ones are cut evenly, as if gradients became ready evenly inside each bucket that was seen."""
    before = len(overlap.tail_share)
    if bucket_ratio > 1.0:
        return _joined(overlap, bucket_ratio) if before > 1 else overlap
    count = max(1, round(before / bucket_ratio))
    if overlap.cap_share is not None:
        count = max(before, math.ceil(1.0 / (bucket_ratio * overlap.cap_share)))
    if count == before:
        return overlap  # gradients that fit into one bucket of half the size stay there
    done = np.append(1.0 - overlap.tail_share[1:], 1.0)  # share of the bytes up to and with each bucket
    ends = np.arange(1, count + 1) / count
    first, last = overlap.ready_ratio[0], overlap.ready_ratio[-1]
    pace = (last - first) / (1.0 - done[0]) if before > 1 else first * calibration.BACKWARD.value
    start = max(0.0, first - pace * done[0])  # the very first gradient, at the pace of the others
    ready = np.interp(ends, np.insert(done, 0, 0.0), np.insert(overlap.ready_ratio, 0, start))
    return replace(overlap, ready_ratio=ready, tail_share=1.0 - np.insert(ends[:-1], 0, 0.0))


def _joined(overlap: Overlap, bucket_ratio: float) -> Overlap:
    """Buckets joined in order until each holds the new cap; one is ready when its last part is."""
    sizes = overlap.tail_share - np.append(overlap.tail_share[1:], 0.0)
    cap = bucket_ratio * (overlap.cap_share or _least_cap(sizes))
    ready, tails, held = [], [], 0.0
    for size, at, tail in zip(sizes, overlap.ready_ratio, overlap.tail_share, strict=True):
        if held == 0.0:
            tails.append(float(tail))
            ready.append(float(at))
        ready[-1] = float(at)
        held += float(size)
        if held >= cap:
            held = 0.0
    return replace(overlap, ready_ratio=np.array(ready), tail_share=np.array(tails))


def _least_cap(sizes: Array) -> float:
    """Of buckets that closed at the cap the smallest is nearest to it; the last holds what was left."""
    return float(sizes[:-1].min()) * calibration.CAP_OF_BUCKET.value


def _ratio(word: str, text: str) -> float:
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 1e-4 <= value <= 1e4:
        raise UsageError(
            f"{word!r} is not a ratio between 0.0001 and 10000", hint="write link=2x or bytes=0.5"
        )
    return value


def _count(word: str, text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise UsageError(f"{word!r} is not a count", hint="write accumulate=4")
    return int(text)


def _power_sgd_ratio(word: str, text: str) -> float:
    """Bytes of two rank-r factors over those of the matrix: r(m+n)/(mn)."""
    match = re.fullmatch(r"([1-9]\d{0,3})@([1-9]\d{0,6})x([1-9]\d{0,6})", text)
    if match is None:
        raise UsageError(
            f"{word!r} is not a PowerSGD rank and shape",
            hint="write power-sgd=4@512x512: the rank, and the shape of a typical weight matrix",
        )
    rank, rows, columns = (int(part) for part in match.groups())
    ratio = rank * (rows + columns) / (rows * columns)
    if ratio >= 1.0:
        raise UsageError(
            f"rank {rank} of a {rows}x{columns} matrix sends {ratio:.2g} times its bytes",
            hint="choose a smaller rank",
        )
    return ratio
