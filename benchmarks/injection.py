"""Does the split tell the truth? Delays of known length go into real two-worker DDP trainings and must come out again.

    python benchmarks/injection.py [--out DIR] [--launches 3]

Computation is 30 ms of sleep (two shared cores would add lateness of their own); exchange is real gloo over loopback,
and, as root, gloo over a loopback shaped to 320 Mbit/s. Cases are interleaved over launches. Writes every step of every
worker (raw.jsonl), the machine (machine.json) and the verdict (result.json, printed too).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.trial import InNamespace, measured

BASE = ("--compute", "0.03")
CASES = {
    "nothing": (1, BASE),
    "nothing, two workers": (2, BASE),
    "50 ms in worker 1's backward": (2, (*BASE, "--late", "0.05")),
    "30 ms in the data set of all workers": (2, (*BASE, "--slow-data", "0.03")),
    "40 ms in a comm hook": (2, (*BASE, "--slow-exchange", "0.04")),
}
SHAPED = "loopback at 320 Mbit/s, 1.05 MB of gradients"
RATE_BYTES_PER_S, BURST_BYTES = 40e6, 32_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("evidence/injection"))
    parser.add_argument("--launches", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float | int | None]]] = {}
    with open(args.out / "raw.jsonl", "w", encoding="utf-8") as raw, shaped_loopback() as namespace:
        for launch in range(args.launches):
            for case, (workers, script_args) in CASES.items():
                found.setdefault(case, []).append(one(raw, case, launch, workers, script_args, None))
            if namespace:
                wide = (*BASE, "--width", "512")
                found.setdefault(SHAPED, []).append(one(raw, SHAPED, launch, 2, wide, namespace))
    result = verdict(found)
    machine = {"platform": platform.platform(), "cores": os.cpu_count(), "load": os.getloadavg()}
    (args.out / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")
    (args.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def one(raw, case, launch, workers, script_args, namespace):
    """One launch: its raw steps go to the file, its split is returned."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = None if namespace is None else InNamespace(namespace)
        seen, split = measured(Path(folder), "plain_ddp.py", *script_args, workers=workers, launcher=launcher)
    for worker in seen.workers:
        for sample in worker.samples:
            waits = None if sample.exchanges is None else [e.wait_s for e in sample.exchanges]
            row = {
                "case": case,
                "launch": launch,
                "worker": worker.rank,
                "k": sample.k,
                "step_s": sample.step_s,
            }
            more = {"input_s": sample.input_s, "waits_s": waits, "boundary": sample.boundary}
            raw.write(json.dumps({**row, **more}) + "\n")
    names = (
        "step_s",
        "compute_s",
        "wire_s",
        "straggle_s",
        "input_s",
        "slowest_worker",
        "exchanged_bytes_per_step",
    )
    return {name: getattr(split, name) for name in names}


def verdict(found):
    """Per case: medians over launches, and the injected quantity beside what was found."""

    def median(case: str, name: str) -> float:
        return statistics.median(row[name] for row in found[case])

    quiet_wire = median("nothing, two workers", "wire_s")
    late, data, hook = list(CASES)[2:]
    rows = [
        (late, "straggle_s", 0.05, median(late, "straggle_s")),
        (data, "input_s", 0.03, median(data, "input_s")),
        (hook, "wire_s above the quiet one", 0.04, median(hook, "wire_s") - quiet_wire),
        (
            "nothing, two workers",
            "compute_s against one worker's step_s",
            median("nothing", "step_s"),
            median("nothing, two workers", "compute_s"),
        ),
    ]
    if SHAPED in found:
        sent = 2 * median(SHAPED, "exchanged_bytes_per_step") * (1 + 66 / 1448)
        rows.append((SHAPED, "wire_s", (sent - BURST_BYTES) / RATE_BYTES_PER_S, median(SHAPED, "wire_s")))
    return {
        "checks": [
            {"case": case, "quantity": quantity, "true_s": true, "found_s": got, "error": got / true - 1}
            for case, quantity, true, got in rows
        ],
        "launches": found,
    }


@contextmanager
def shaped_loopback():
    """A network namespace with a slow loopback; None without root."""
    name = f"paceline-injection-{os.getpid()}"
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        yield None
        return
    try:
        shape = f"tc qdisc add dev lo root tbf rate 320mbit burst {BURST_BYTES} latency 400ms"
        for command in ("ip link set lo mtu 1500 up", shape):
            subprocess.run(["ip", "netns", "exec", name, *command.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


if __name__ == "__main__":
    main()
