"""Does the predictor foresee what more workers do? Profile 1, probe 2, predict 4, 8 and 16, then measure them.

    python benchmarks/lab_prediction.py --out DIR [--set second] [--stage sleep lag late] [--quick]       as root

Hosts are network namespaces on one machine, links are shaped, trainings are real DistributedDataParallel over gloo.
lab_cells.py says which cells there are. Stopped, or given other stages of the same set, it goes on where it was.

    sleep    computation is sleep, so that 16 hosts fit on two cores
    lag      links with a delay, and small buckets
    late     one worker that computes longer than the others
    real     networks that compute, on a quarter of a core each: needs a machine that does nothing else
    eighth   the same networks on eight hosts, on an eighth of a core each
    own      networks that compute, on two cores of its own for every worker: needs 16 cores

Predictions are written (predictions.jsonl) before the measurement that they foresee. raw.jsonl keeps
every step of every worker; result.json, result.txt and table.md are the verdict.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lab_cells import (
    COMPUTING,
    SETS,
    STAGES,
    Cells,
    Launch,
    eighth,
    lagging,
    late,
    own,
    quick,
    real,
    same,
    sleeping,
)
from lab_files import rows
from lab_foresee import predictions_for
from lab_verdict import verdict
from paceline.launch.cgroup import root_group
from paceline.launch.command import Command
from paceline.launch.local import LocalLauncher
from paceline.testbed.blueprint import Lab, lab_of
from paceline.testbed.launcher import inside
from paceline.testbed.network import shape
from paceline.testbed.owner import new_name, opened, sweep
from paceline.testbed.system import require_root


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", choices=tuple(SETS), default="second", help="which cells")
    parser.add_argument(
        "--stage", choices=STAGES, nargs="+", default=["sleep", "lag", "late", "real"], help="which parts"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two networks, one bandwidth, 4 workers: 3 minutes"
    )
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="let workers go before other programs of a busy machine; those that compute, up to their quota",
    )
    args = parser.parse_args()
    if (args.out / "raw.jsonl.xz").exists():
        raise SystemExit(f"{args.out} is packed: choose another folder, or unpack it (xz -d {args.out}/*.xz)")
    require_root()
    sweep()
    args.out.mkdir(parents=True, exist_ok=True)
    note = args.out / "set.json"
    if not note.exists():
        note.write_text(json.dumps({"set": args.set}) + "\n")
    elif json.loads(note.read_text())["set"] != args.set:
        raise SystemExit(f"{args.out} holds another set of cells: choose another folder")
    cells = SETS[args.set]
    stages = ["quick"] if args.quick else args.stage
    for stage in stages:
        load = os.getloadavg()
        before, after = launches(stage, cells)
        with _awake(stage not in COMPUTING):
            for launch in before:
                measure(launch, args.out, None, real_time=args.real_time)
            if stage not in COMPUTING:
                foresee(args.out, after, cells)
            for launch in after:
                measure(launch, args.out, cells, real_time=args.real_time)
        machine = {
            "platform": platform.platform(), "cores": os.cpu_count(), "load_before": load,
            "load_after": os.getloadavg(), "real_time": args.real_time,
        }  # fmt: skip
        (args.out / f"machine-{stage}.json").write_text(json.dumps(machine, indent=1) + "\n")
    shutil.rmtree(args.out / "scratch", ignore_errors=True)
    print(verdict(args.out, cells))


def launches(stage: str, cells: Cells) -> tuple[list[Launch], list[Launch]]:
    """What is measured before the predictions of a stage, and after them."""
    return {
        "sleep": lambda: sleeping(cells),
        "lag": lagging,
        "late": lambda: late(cells),
        "real": real,
        "eighth": eighth,
        "own": own,
        "quick": quick,
    }[stage]()


def measure(launch: Launch, out: Path, cells: Cells | None, *, real_time: bool) -> None:
    """Run what is missing of a launch; where cells are given, none is measured before it is foreseen."""
    raw = out / "raw.jsonl"
    done = {(row["stage"], *same(row)) for row in rows(raw) if row["launch"] == launch.name}
    stages = [
        (rate, [task for task in tasks if (_stage(rate), *same(task)) not in done])
        for rate, tasks in launch.stages
    ]
    stages = [(rate, tasks) for rate, tasks in stages if tasks]
    if not stages:
        return
    began = time.monotonic()
    count = sum(len(tasks) for _, tasks in stages)
    print(f"{launch.name}: {launch.nodes} hosts x {launch.per_node}, {count} tasks", flush=True)
    # shaped from the beginning: connections keep the size of their pieces from when they are made
    rates = [rate for rate, _ in launch.stages if rate is not None]
    slowest = f"{min(rates)}mbit" if rates else None
    first = real_time and launch.cpu is None and launch.cores is None
    with (
        _before_others(first),
        opened(
            lab_of(new_name(), hosts=launch.nodes, cpu=launch.cpu, link=slowest, delay=launch.delay)
        ) as lab,
    ):
        if real_time and launch.cpu is not None:
            _weigh_most(lab)
        _run(launch, stages, lab, out, cells)
    print(f"{launch.name}: done in {time.monotonic() - began:.0f} s", flush=True)


def _weigh_most(lab: Lab) -> None:
    """Let hosts with a quota have it beside other programs: real-time scheduling would know no quota."""
    root = root_group()
    assert root is not None  # the lab has quotas
    file, most = ("cpu.weight", 10_000) if root[1] == 2 else ("cpu.shares", 262_144)
    for host in lab.hosts:
        (root[0] / host.namespace / file).write_text(str(most))


@contextmanager
def _awake(wanted: bool) -> Iterator[None]:
    """Keep every core awake, below all other programs. Where hosts sleep so do cores, and to wake them takes 2 to 4 ms
    of one host's step, less of each the more hosts share the machine: no cluster has that."""
    spinning = [
        multiprocessing.Process(target=_spin, args=(core, os.getpid()), daemon=True)
        for core in (os.sched_getaffinity(0) if wanted else ())
    ]
    for each in spinning:
        each.start()
    try:
        yield
    finally:
        for each in spinning:
            each.kill()


def _spin(core: int, driver: int) -> None:
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == driver:
        sum(range(1_000_000))


@contextmanager
def _before_others(first: bool) -> Iterator[None]:
    """Let what is started here, workers and switch, go before other programs, if asked."""
    if first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        if first:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _run(
    launch: Launch,
    stages: list[tuple[int | None, list[dict[str, object]]]],
    lab: Lab,
    out: Path,
    cells: Cells | None,
) -> None:
    folder = out / "scratch"
    folder.mkdir(exist_ok=True)
    for old in folder.glob(f"{launch.name}-*"):
        old.unlink()
    order = {
        "folder": str(folder.absolute()), "name": launch.name, "out": str((out / "raw.jsonl").absolute()),
        "stages": [{"name": _stage(rate), "tasks": tasks} for rate, tasks in stages],
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
            argv = (
                *_pinned(launch, rank // launch.per_node),
                sys.executable,
                script,
                str(tasks_file.absolute()),
            )
            command = Command(argv, os.getcwd(), environment, str(folder), tag)
            started.append(LocalLauncher().start(inside(host, command), log))
        try:
            for number, (rate, tasks) in enumerate(stages):
                _wait_for(folder / f"{launch.name}-{number}.ready", started, log.name)
                if cells is not None:
                    foresee(out, [replace(launch, stages=((rate, tuple(tasks)),))], cells)
                for host in lab.hosts:
                    shape(lab, host, None if rate is None else rate * 1e6)
                (folder / f"{launch.name}-{number}.go").touch()
            while any(worker.exit_code() is None for worker in started):
                _raise_if_failed(started, log.name)
                time.sleep(0.1)
            _raise_if_failed(started, log.name)
        finally:
            started[0].end()


def _pinned(launch: Launch, host: int) -> tuple[str, ...]:
    """Keep a host's workers on the host's own cores, the machine's last ones first: the driver is on the others."""
    if launch.cores is None:
        return ()
    last = (os.cpu_count() or 1) - 1 - host * launch.cores
    if last - launch.cores < -1:
        raise SystemExit(f"{launch.name} needs {launch.nodes * launch.cores} cores")
    return ("taskset", "-c", f"{last - launch.cores + 1}-{last}")


def foresee(out: Path, after: list[Launch], cells: Cells) -> None:
    """Write the predictions of every cell that is not predicted yet: before it is measured."""
    file = out / "predictions.jsonl"
    done = {(row["launch"], row["stage"], *same(row)) for row in rows(file)}
    measured = {(row["launch"], row["stage"], *same(row)) for row in rows(out / "raw.jsonl")}
    wanted = [
        {**task, "launch": launch.name, "stage": _stage(rate),
         "workers": launch.nodes * launch.per_node, "nodes": launch.nodes}
        for launch in after
        for rate, tasks in launch.stages
        for task in tasks
        if task["kind"] == "cell" and not task.get("alone")
    ]  # fmt: skip
    missing = [task for task in wanted if (task["launch"], task["stage"], *same(task)) not in done]
    late = [task for task in missing if (task["launch"], task["stage"], *same(task)) in measured]
    if late:
        raise SystemExit(
            f"{len(late)} cells are measured and were never predicted: begin anew in another folder"
        )
    with open(file, "a", encoding="utf-8") as lines:
        for row in predictions_for(list(rows(out / "raw.jsonl")), missing, cells):
            lines.write(json.dumps(row | {"at": time.time()}) + "\n")


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
