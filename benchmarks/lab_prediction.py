"""Does the predictor foresee what more workers do? Profile 1, probe 2, predict 4, 8 and 16, then measure them.

    python benchmarks/lab_prediction.py --out DIR [--quick]      as root; stopped, it goes on where it was

Hosts are network namespaces on one machine, links are shaped, trainings are real DistributedDataParallel over gloo.
A cell is a network (gradient sizes and their order) × bucket cap × bandwidth × seconds of computation.

    1 worker     every network × cap × computation: step time and bucket timeline, as the agent takes them
    2 workers    the agent's probe at every bandwidth; the same cells, for the simple curves that stand beside
    predictions  written for every cell and count before its measurement starts (predictions.jsonl)
    4, 8, 16     measured; also 2 nodes × 2 workers, and what-ifs: fp16 exchange and accumulation

Computation is sleep where hosts outnumber cores; cells that compute for real, on a quarter of a core each, stand apart.
raw.jsonl keeps every step of every worker. result.json and result.txt are the verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab_verdict import predictions_for, verdict
from paceline.lab.blueprint import Lab, lab_of
from paceline.lab.launcher import inside
from paceline.lab.network import shape
from paceline.lab.owner import new_name, opened, sweep
from paceline.lab.system import require_root
from paceline.launch.command import Command
from paceline.launch.local import LocalLauncher

KB = 1000
NETWORKS = {  # bytes and share of the computation, in forward order
    "cnn": [[75 * KB, 0.12]] * 4 + [[190 * KB, 0.11]] * 4 + [[2100 * KB, 0.08]],
    "embedding": [[1950 * KB, 0.10]] + [[300 * KB, 0.225]] * 4,
    "mlp": [[525 * KB, 1 / 6]] * 6,
    "deep": [[135 * KB, 1 / 24]] * 24,
}
CAPS_MB = (1, 2, 25)
COMPUTE_S = (0.12, 0.36)
RATES_MBIT = (60, 120, 240, 360)
STEPS = {60: 4, 120: 5, 240: 6, 360: 7}
PROBE_SIZES = (1024, 8192, 131_072, 524_288, 1_048_576, 4_194_304)
PROBE_S = {60: 12.0, 120: 10.0, 240: 8.0, 360: 8.0}
MIDDLE = 120


@dataclass(frozen=True)
class Launch:
    """Workers that cycle through stages; a stage is a bandwidth and its tasks."""

    name: str
    nodes: int
    per_node: int
    stages: tuple[tuple[int | None, tuple[dict[str, object], ...]], ...]
    cpu: str | None = None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--quick", action="store_true", help="two networks, one bandwidth, 4 workers: 2 minutes"
    )
    parser.add_argument("--part", choices=("all", "sleep", "real"), default="all", help="which computation")
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="let sleeping cells go before other programs of a busy machine",
    )
    args = parser.parse_args()
    require_root()
    sweep()
    args.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()
    parts = [] if args.part == "real" else [launches(quick=args.quick)]
    if args.part != "sleep" and not args.quick:
        parts.append(real_launches())
    for before, after in parts:
        for launch in before:
            measure(launch, args.out, real_time=args.real_time)
        foresee(args.out, after)
        for launch in after:
            measure(launch, args.out, real_time=args.real_time)
    machine = {
        "platform": platform.platform(), "cores": os.cpu_count(), "load_before": load, "load_after": os.getloadavg(),
        "real_time": args.real_time,
    }  # fmt: skip
    (args.out / f"machine-{args.part}.json").write_text(json.dumps(machine, indent=1) + "\n")
    print(verdict(args.out))


def launches(*, quick: bool) -> tuple[list[Launch], list[Launch]]:
    """What is measured before the predictions, and after them, where computation is sleep."""
    rates = (MIDDLE,) if quick else RATES_MBIT
    networks = ("cnn", "embedding") if quick else tuple(NETWORKS)
    caps = (1, 25) if quick else CAPS_MB

    def cells(rate: int, **more: object) -> tuple[dict[str, object], ...]:
        return tuple(
            cell(name, cap, compute, STEPS[rate], **more)
            for name in networks
            for cap in caps
            for compute in COMPUTE_S
        )

    def few(rate: int) -> tuple[dict[str, object], ...]:
        return tuple(c for c in cells(rate) if c["cap_mb"] in (1, 25) and c["compute_s"] == COMPUTE_S[-1])

    what_if = tuple(
        {**c, **change} for c in few(MIDDLE) for change in ({"fp16": True}, {"accumulate": 4, "steps": 3})
    )
    profiles = tuple(
        cell(name, cap, compute, 9) for name in networks for cap in caps for compute in COMPUTE_S
    )
    before = [
        Launch("w1", 1, 1, ((None, profiles),)),
        Launch("w2", 2, 1, tuple((rate, (probe(rate), *cells(rate))) for rate in rates)),
    ]
    after = [
        Launch(
            "w4", 4, 1, tuple((rate, (*cells(rate), *(what_if if rate == MIDDLE else ()))) for rate in rates)
        )
    ]
    if quick:
        return before, after
    before += [Launch("inside2", 1, 2, ((None, ({**probe(240), "seconds": 6.0},)),))]
    after += [
        Launch("w8", 8, 1, tuple((rate, cells(rate)) for rate in rates)),
        Launch("n2w4", 2, 2, ((MIDDLE, few(MIDDLE)),)),
        Launch("w16", 16, 1, ((MIDDLE, few(MIDDLE)),)),
    ]
    return before, after


def real_launches() -> tuple[list[Launch], list[Launch]]:
    """The same where networks compute, every host on a quarter of a core."""
    real = tuple(real_cell(name, cap) for name in ("real-cnn", "real-mlp") for cap in (1, 25))
    before = [
        Launch("real1", 1, 1, ((None, real),), cpu="25%"),
        Launch("real2", 2, 1, ((MIDDLE, (probe(MIDDLE), *real)),), cpu="25%"),
    ]
    return before, [Launch("real4", 4, 1, ((MIDDLE, real),), cpu="25%")]


def probe(rate: int) -> dict[str, object]:
    return {"kind": "probe", "sizes": PROBE_SIZES, "ops": ["all_reduce"], "seconds": PROBE_S[rate]}


def cell(name: str, cap_mb: int, compute_s: float, steps: int, **more: object) -> dict[str, object]:
    layers = NETWORKS[name]
    return {
        "kind": "cell", "network": name, "layers": layers, "cap_mb": cap_mb, "compute_s": compute_s,
        "steps": steps, **more,
    }  # fmt: skip


def real_cell(name: str, cap_mb: int) -> dict[str, object]:
    return {"kind": "cell", "network": name, "layers": None, "cap_mb": cap_mb, "compute_s": None, "steps": 12}


def key_of(row: dict[str, object]) -> tuple[object, ...]:
    """What makes a task the same task after a restart."""
    return tuple(row.get(name) for name in ("kind", "network", "cap_mb", "compute_s", "fp16", "accumulate"))


def measure(launch: Launch, out: Path, *, real_time: bool) -> None:
    """Run what is missing of a launch."""
    raw = out / "raw.jsonl"
    done = {(row["stage"], *key_of(row)) for row in rows(raw) if row["launch"] == launch.name}
    stages = [
        (rate, [task for task in tasks if (_stage(rate), *key_of(task)) not in done])
        for rate, tasks in launch.stages
    ]
    stages = [(rate, tasks) for rate, tasks in stages if tasks]
    if not stages:
        return
    began = time.monotonic()
    count = sum(len(tasks) for _, tasks in stages)
    print(f"{launch.name}: {launch.nodes} hosts x {launch.per_node}, {count} tasks", flush=True)
    # shaped from the beginning: connections keep the size of their pieces from when they are made
    slowest = f"{min(RATES_MBIT)}mbit"
    with opened(lab_of(new_name(), hosts=launch.nodes, cpu=launch.cpu, link=slowest)) as lab:
        _run(launch, stages, lab, out, real_time=real_time and launch.cpu is None)
    print(f"{launch.name}: done in {time.monotonic() - began:.0f} s", flush=True)


def _run(
    launch: Launch,
    stages: list[tuple[int | None, list[dict[str, object]]]],
    lab: Lab,
    out: Path,
    *,
    real_time: bool,
) -> None:
    folder = out / "scratch"
    folder.mkdir(exist_ok=True)
    for old in folder.glob(f"{launch.name}-*"):
        old.unlink()
    order = {
        "folder": str(folder.absolute()), "name": launch.name, "out": str((out / "raw.jsonl").absolute()),
        "real_time": real_time, "stages": [{"name": _stage(rate), "tasks": tasks} for rate, tasks in stages],
    }  # fmt: skip
    tasks_file = folder / f"{launch.name}-tasks.json"
    tasks_file.write_text(json.dumps(order))
    world = launch.nodes * launch.per_node
    tag = f"{lab.name}:{launch.name}"
    started = []
    with open(folder / f"{launch.name}-log.txt", "wb") as log:
        for rank in range(world):
            host = lab.hosts[rank // launch.per_node]
            environment = {
                "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % launch.per_node),
                "MASTER_ADDR": lab.hosts[0].address, "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1", "PACELINE_TAG": tag,
                # gradients are freed and made anew in every step: without page faults, which 2 cores would share
                "MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "1000000000",
            }  # fmt: skip
            script = str(Path(__file__).with_name("lab_worker.py"))
            argv = (sys.executable, script, str(tasks_file.absolute()))
            command = Command(argv, os.getcwd(), environment, str(folder), tag)
            started.append(LocalLauncher().start(inside(host, command), log))
        try:
            for number, (rate, _) in enumerate(stages):
                _wait_for(folder / f"{launch.name}-{number}.ready", started, log.name)
                for host in lab.hosts:
                    shape(lab, host, None if rate is None else rate * 1e6)
                (folder / f"{launch.name}-{number}.go").touch()
            while any(worker.exit_code() is None for worker in started):
                _raise_if_failed(started, log.name)
                time.sleep(0.1)
            _raise_if_failed(started, log.name)
        finally:
            started[0].end()


def foresee(out: Path, after: list[Launch]) -> None:
    """Write the predictions of every cell that is not predicted yet: before it is measured."""
    file = out / "predictions.jsonl"
    done = {(row["launch"], row["stage"], *key_of(row)) for row in rows(file)}
    measured = {(row["launch"], row["stage"], *key_of(row)) for row in rows(out / "raw.jsonl")}
    wanted = [
        {**task, "launch": launch.name, "stage": _stage(rate),
         "workers": launch.nodes * launch.per_node, "nodes": launch.nodes}
        for launch in after
        for rate, tasks in launch.stages
        for task in tasks
        if task["kind"] == "cell"
    ]  # fmt: skip
    missing = [task for task in wanted if (task["launch"], task["stage"], *key_of(task)) not in done]
    late = [task for task in missing if (task["launch"], task["stage"], *key_of(task)) in measured]
    if late:
        raise SystemExit(
            f"{len(late)} cells are measured and were never predicted: begin anew in another folder"
        )
    with open(file, "a", encoding="utf-8") as lines:
        for row in predictions_for(list(rows(out / "raw.jsonl")), missing):
            lines.write(json.dumps(row | {"at": time.time()}) + "\n")


def rows(file: Path) -> Iterator[dict[str, object]]:
    """The lines of a file; one that was cut off by the end of its writer is passed over."""
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _stage(rate: int | None) -> str:
    return "unshaped" if rate is None else f"{rate}mbit"


def _wait_for(file: Path, started: list, log: str) -> None:
    while not file.exists():
        _raise_if_failed(started, log)
        time.sleep(0.05)


def _raise_if_failed(started: list, log: str) -> None:
    if any(worker.exit_code() for worker in started):
        raise SystemExit(f"a worker failed: {Path(log).read_text(errors='replace')[-1500:]}")


if __name__ == "__main__":
    main()
