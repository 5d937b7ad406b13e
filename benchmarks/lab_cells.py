"""What benchmarks/lab_prediction.py measures: two sets of cells, and the launches that run them.

A cell is a network (gradient sizes and their order) × bucket cap × bandwidth × seconds of computation.

    first      what the width of intervals was chosen on
    second     other networks, caps, bandwidths and computations: what it is proven on

    launches   w1 w2 w4 w8 w16 w2x2     computation is sleep: profile, probe, then 4, 8, 16 hosts, 2 hosts × 2 workers
               lag1 lag2 lag4 lag8      every frame takes 3 ms from host to host, buckets are small
               late2 late4 late8        the last worker computes longer; it is among the 2 measured hosts
               w1 lag1 late2            what predictions rest on is launched three times, as a study would (w1b, w1c)
               real2 real4              networks that compute, every host on a quarter of a core
               eighth2 eighth8          the same networks, eight hosts on an eighth of a core
               own2 own4 own8           networks that compute, every host on two cores of its own: needs 16 cores
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

KB = 1000
Task = dict[str, object]
Stage = tuple[int | None, tuple[Task, ...]]
STAGES = ("sleep", "lag", "late", "real", "eighth", "own")
COMPUTING = ("real", "eighth", "own")


@dataclass(frozen=True)
class Cells:
    """One set: networks as [bytes, share of the computation] in forward order, and what they are crossed with."""

    networks: dict[str, list[list[float]]]
    caps_mb: tuple[float, ...]
    compute_s: tuple[float, ...]
    rates_mbit: tuple[int, ...]
    middle_mbit: int  # where what-ifs, 16 hosts and 2 × 2 are measured; twice of it is a rate too
    joined_mb: float  # the cap of `bucket=2x`


FIRST = Cells(
    networks={
        "cnn": [[75 * KB, 0.12]] * 4 + [[190 * KB, 0.11]] * 4 + [[2100 * KB, 0.08]],
        "embedding": [[1950 * KB, 0.10]] + [[300 * KB, 0.225]] * 4,
        "mlp": [[525 * KB, 1 / 6]] * 6,
        "deep": [[135 * KB, 1 / 24]] * 24,
    },
    caps_mb=(1, 2, 25),
    compute_s=(0.12, 0.36),
    rates_mbit=(60, 120, 240, 360),
    middle_mbit=120,
    joined_mb=2,
)
SECOND = Cells(
    networks={
        "funnel": [[620 * KB, 0.14]]
        + [[310 * KB, 0.10]] * 3
        + [[120 * KB, 0.08]] * 4
        + [[60 * KB, 0.08]] * 3,
        "ladder": [[260 * KB, 1 / 12]] * 12,
        "twins": [[70 * KB, 0.06]] * 5 + [[980 * KB, 0.20]] * 2 + [[70 * KB, 0.06]] * 5,
    },
    caps_mb=(0.7, 7),
    compute_s=(0.1, 0.2, 0.4),
    rates_mbit=(50, 100, 200, 330),
    middle_mbit=100,
    joined_mb=1.4,
)
SETS = {"first": FIRST, "second": SECOND}

GRAVEL = [[26 * KB, 1 / 22]] * 22
LAG_CAPS_MB, LAG_RATES_MBIT, LAG_COMPUTE_S, DELAY = (0.05, 0.18, 25), (55, 120), (0.09, 0.21), "3ms"
LATE_RATIO = 1.6
REAL = ("real-mixer", "real-residual", "real-towers")
ROUNDS, ROUND_STEPS = 10, 5  # what steps of one worker differ by is told by no less than five
REAL_CAPS_MB, REAL_RATES_MBIT, REAL_CORES = (0.4, 10), (80, 160), 0.25
EIGHTH_RATES_MBIT, EIGHTH_CORES = (55, 95), 0.125
OWN = ("own-mixer", "own-residual", "own-towers")
OWN_CAPS_MB, OWN_RATES_MBIT, OWN_CORES = (0.4, 10), (220, 500), 2
STEADY_S = BESIDE_S = 40.0  # for every rate, as `paceline probe --seconds 160` would
PROFILE_LAUNCHES, PROFILE_STEPS = ("", "b", "c"), 5
PROBE_SIZES = (1024, 8192, 131_072, 524_288, 1_048_576, 4_194_304)
LAG_PROBE_SIZES = (1024, 8192, 32_768, 131_072, 524_288, 1_048_576)


@dataclass(frozen=True)
class Launch:
    """Workers that cycle through stages; a stage is a bandwidth and its tasks."""

    name: str
    nodes: int
    per_node: int
    stages: tuple[Stage, ...]
    cpu: str | None = None
    delay: str | None = None
    cores: int | None = None  # of its own, for every host; no other process is to run there


def sleeping(cells: Cells) -> tuple[list[Launch], list[Launch]]:
    """What is measured before the predictions, and after them, where computation is sleep."""

    def grid(rate: int) -> tuple[Task, ...]:
        return tuple(
            cell(name, layers, cap, compute, steps_at(rate))
            for name, layers in cells.networks.items()
            for cap in cells.caps_mb
            for compute in cells.compute_s
        )

    def few(rate: int) -> tuple[Task, ...]:
        caps = (cells.caps_mb[0], cells.caps_mb[-1])
        return tuple(c for c in grid(rate) if c["cap_mb"] in caps and c["compute_s"] == cells.compute_s[-1])

    middle = cells.middle_mbit
    joined = tuple(
        cell(name, layers, cells.joined_mb, compute, steps_at(middle))
        for name, layers in cells.networks.items()
        for compute in cells.compute_s
    )
    changed = tuple(
        {**c, **change} for c in few(middle) for change in ({"fp16": True}, {"accumulate": 4, "steps": 3})
    )
    more = (*(() if cells.joined_mb in cells.caps_mb else joined), *changed)
    profiles = tuple({**c, "steps": PROFILE_STEPS} for c in grid(middle))
    if cells.joined_mb not in cells.caps_mb:
        profiles += tuple({**c, "steps": PROFILE_STEPS} for c in joined)
    before = [
        *launched(Launch("w1", 1, 1, ((None, profiles),))),
        Launch("w2", 2, 1, tuple((rate, (probe(rate), *grid(rate))) for rate in cells.rates_mbit)),
        Launch("inside2", 1, 2, ((None, (probe(240),)),)),
    ]
    after = [
        Launch(
            "w4",
            4,
            1,
            tuple((rate, (*grid(rate), *(more if rate == middle else ()))) for rate in cells.rates_mbit),
        ),
        Launch("w8", 8, 1, tuple((rate, grid(rate)) for rate in cells.rates_mbit)),
        Launch("w2x2", 2, 2, ((middle, few(middle)),)),
        Launch("w16", 16, 1, ((middle, few(middle)),)),
    ]
    return before, after


def lagging() -> tuple[list[Launch], list[Launch]]:
    """Links with a delay and a network of small gradients: many buckets, some, and one."""
    grid = tuple(cell("gravel", GRAVEL, cap, compute, 7) for cap in LAG_CAPS_MB for compute in LAG_COMPUTE_S)
    looked = {"kind": "probe", "sizes": LAG_PROBE_SIZES, "ops": ["all_reduce"], "seconds": 10.0}
    pair = tuple((rate, (looked, *grid)) for rate in LAG_RATES_MBIT)
    before = [*launched(Launch("lag1", 1, 1, ((None, grid),))), Launch("lag2", 2, 1, pair, delay=DELAY)]
    alone = tuple((rate, grid) for rate in LAG_RATES_MBIT)
    return before, [Launch(f"lag{hosts}", hosts, 1, alone, delay=DELAY) for hosts in (4, 8)]


def late(cells: Cells) -> tuple[list[Launch], list[Launch]]:
    """One worker that computes longer than the others, on the slowest link but one and on the fastest."""
    rates = (cells.rates_mbit[1], cells.rates_mbit[-1])
    grid = tuple(
        cell(name, layers, cap, cells.compute_s[-1], 6, late=LATE_RATIO)
        for name, layers in cells.networks.items()
        for cap in (cells.caps_mb[0], cells.caps_mb[-1])
    )
    stages = tuple((rate, grid) for rate in rates)
    return launched(Launch("late2", 2, 1, stages)), [
        Launch(f"late{hosts}", hosts, 1, stages) for hosts in (4, 8)
    ]


def real() -> tuple[list[Launch], list[Launch]]:
    """Networks that compute, every host on a quarter of a core."""
    return _computing("real", REAL, REAL_CAPS_MB, REAL_RATES_MBIT, hosts=(4,), cpu="25%")


def eighth() -> tuple[list[Launch], list[Launch]]:
    """The same networks on eight hosts, every host on an eighth of a core."""
    return _computing("eighth", REAL, REAL_CAPS_MB, EIGHTH_RATES_MBIT, hosts=(8,), cpu="12.5%")


def own() -> tuple[list[Launch], list[Launch]]:
    """Networks that compute, every host on two cores of its own."""
    return _computing("own", OWN, OWN_CAPS_MB, OWN_RATES_MBIT, hosts=(4, 8), cores=OWN_CORES)


def _computing(
    kind: str,
    networks: tuple[str, ...],
    caps_mb: tuple[float, ...],
    rates: tuple[int, ...],
    *,
    hosts: tuple[int, ...],
    cpu: str | None = None,
    cores: int | None = None,
) -> tuple[list[Launch], list[Launch]]:
    """Every measurement right after its profile, in rounds.

    In a profile every host trains alone at the same time: hosts of a laboratory share a machine, where what one
    computes takes longer beside the others. And it takes a tenth more or less from one minute to the next, often from
    one second to the next: the same steps take half as long again where a neighbour has the other half of a core, and
    who never waits keeps his place for seconds. What one round foresees and what it measures differ by that, whatever
    law foresees; over many short rounds that alternate, all cells in each, it evens out.
    """

    def grid(number: int, **more: object) -> tuple[Task, ...]:
        return tuple(
            cell(n, None, cap, None, ROUND_STEPS, round=number, **more) for n in networks for cap in caps_mb
        )

    def once(number: int) -> Iterator[Stage]:
        for rate in rates:
            for pair in zip(grid(number, alone=True), grid(number), strict=True):
                yield from ((rate, (task,)) for task in pair)

    looked = {"steady_s": STEADY_S, "beside_s": BESIDE_S}
    pair = tuple((rate, ({**probe(rate), **looked}, *grid(0))) for rate in rates)
    every = tuple(stage for number in range(ROUNDS) for stage in once(number))
    return [Launch(f"{kind}2", 2, 1, pair, cpu=cpu, cores=cores)], [
        Launch(f"{kind}{count}", count, 1, every, cpu=cpu, cores=cores) for count in hosts
    ]


def launched(launch: Launch) -> list[Launch]:
    """As often as a study would: one launch does not tell how far launches scatter."""
    return [replace(launch, name=name) for name in times_over(launch.name)]


def times_over(name: str) -> tuple[str, ...]:
    """The names of all launches of the same."""
    return tuple(name + mark for mark in PROFILE_LAUNCHES)


def quick() -> tuple[list[Launch], list[Launch]]:
    """Two networks, one bandwidth, 4 hosts."""
    grid = tuple(
        cell(name, FIRST.networks[name], cap, compute, 5)
        for name in ("cnn", "embedding")
        for cap in (1, 25)
        for compute in FIRST.compute_s
    )
    before = [
        *launched(Launch("w1", 1, 1, ((None, grid),))),
        Launch("w2", 2, 1, ((120, (probe(120), *grid)),)),
    ]
    return before, [Launch("w4", 4, 1, ((120, grid),))]


def steps_at(rate: int) -> int:
    return 5 if rate < 100 else 7


def probe(rate: int) -> Task:
    return {
        "kind": "probe",
        "sizes": PROBE_SIZES,
        "ops": ["all_reduce"],
        "seconds": 12.0 if rate < 100 else 8.0,
    }


def cell(
    name: str,
    layers: list[list[float]] | None,
    cap_mb: float,
    compute_s: float | None,
    steps: int,
    **more: object,
) -> Task:
    return {
        "kind": "cell", "network": name, "layers": layers, "cap_mb": cap_mb, "compute_s": compute_s,
        "steps": steps, **more,
    }  # fmt: skip


def family(launch: str) -> str:
    """w, or the stage's name: launches of one family rest on the same profile and probe."""
    return next((name for name in STAGES if launch.startswith(name)), "w")


def sources(launch: str) -> tuple[str, str]:
    """The launch with 1 worker, and the one whose probe tells the link; who computes was profiled in its own launch."""
    kind = family(launch)
    if kind in COMPUTING:
        return launch, f"{kind}2"
    return ("w1", "w2") if kind == "late" else (f"{kind}1", f"{kind}2")


def same(row: Task) -> tuple[object, ...]:
    """What makes a task the same task after a restart."""
    names = ("kind", "network", "cap_mb", "compute_s", "fp16", "accumulate", "late", "round", "alone")
    return tuple(row.get(name) for name in names)
