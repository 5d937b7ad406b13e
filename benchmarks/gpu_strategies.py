"""Do step graphs tell the truth on a GPU? Two NCCL workers share one device; worker 1 is 40 ms late in every step.

    python benchmarks/gpu_strategies.py [--kinds ddp,fsdp2] [--out DIR] [--seconds 230]

Standard library and torch only (--device cpu: over gloo, to try the script itself). Each kind of
tests/scripts/strategies.py runs twice: as it is, and with the lateness. What the step grows by between the two must be
waiting for worker 1, within a tenth, and nothing else: about 40 ms, less where the two workers' kernels took turns
without it. NCCL refuses two workers of one host on one device, so each names a host of its own and they talk over
sockets: what is exchanged is real, its speed is not that of two GPUs.

Prints one line per kind as it ends, in milliseconds; all of it goes to DIR/result.json, kind by kind, so that a run
that is cut short keeps what it has. Exit code 1: something was found that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from paceline.measure.split import split  # noqa: E402
from paceline.records import Point, Split, Trial, TrialResult  # noqa: E402
from paceline.store.worker_files import written  # noqa: E402

SCRIPT = ROOT / "tests/scripts/strategies.py"
KINDS = "ddp,fsdp2,hand_overlapped,tp,hand_streams,hand_flat,fsdp1,zero1,pp_gpipe,sp,functional,coalesced,ddp_hook"
LATE_S, STEPS, WARMUP = 0.04, 20, 8
LONGEST_S = 60.0
PARTS = ("step_s", "compute_s", "wire_s", "straggle_s", "bubble_s", "hidden_s", "overhead_s")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=230.0, help="no kind begins after this")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    began, rows = monotonic(), {}
    for kind in args.kinds.split(","):
        if monotonic() - began < args.seconds:
            rows[kind] = judged(kind, args.device)
            print(f"{monotonic() - began:4.0f} s  {kind:16} {line(rows[kind])}", flush=True)
            keep(args.out, {"machine": machine(args.device), "late_s": LATE_S, "kinds": rows})
    return 0 if all(row["verdict"] != "wrong" for row in rows.values()) else 1


def keep(out: Path | None, result: dict[str, Any]) -> None:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")


def line(row: dict[str, Any]) -> str:
    """One kind in a line: the verdict, and the parts of both launches in milliseconds."""
    parts = [f"{row['verdict']:8}"]
    for name in ("quiet", "late"):
        one = row[name]
        if "failed" in one:
            parts.append(f"{name}: {one['failed']}")
            continue
        split_ms = " ".join(f"{part[:-2]} {milliseconds(one[part])}" for part in PARTS)
        parts.append(f"{name}: {split_ms} worker {one['slowest_worker']} unseen {dict(one['unseen'])}")
    return "\n        ".join(parts)


def milliseconds(seconds: float | None) -> str:
    return "null" if seconds is None else f"{1e3 * seconds:.2f}"


def judged(kind: str, device: str) -> dict[str, Any]:
    """Both launches of a kind, and whether what was found in them is true, unknown with a reason, or wrong."""
    quiet, late = found(kind, device, late_s=0.0), found(kind, device, late_s=LATE_S)
    row = {"quiet": quiet, "late": late}
    if "failed" in quiet or "failed" in late:
        return {"verdict": "failed", **row}
    if late["straggle_s"] is None or quiet["straggle_s"] is None:
        unknown = all(one["straggle_s"] is one["wire_s"] is None and one["unseen"] for one in (quiet, late))
        return {"verdict": "unknown" if unknown else "wrong", **row}
    grown = {part: late[part] - quiet[part] for part in ("step_s", "straggle_s", "wire_s", "bubble_s")}
    true = abs(grown["straggle_s"] - grown["step_s"]) < 0.1 * grown["step_s"] and late["slowest_worker"] == 1
    calm = all(abs(grown[part]) < 0.1 * LATE_S for part in ("wire_s", "bubble_s"))
    return {"verdict": "true" if true and calm else "wrong", "grown": grown, **row}


def found(kind: str, device: str, *, late_s: float) -> dict[str, Any]:
    """What the desk makes of one launch, or why it failed."""
    with tempfile.TemporaryDirectory() as folder:
        problem = launch(Path(folder), kind, "--device", device, "--late", str(late_s))
        if problem is not None:
            return {"failed": problem}
        workers = written(Path(folder)).records
        trial = Trial("t", Point("p", 2), 1, ())
        parts = split(TrialResult(trial, "ok", None, workers, 0.0), warmup=WARMUP, steps=STEPS)
        if parts is None:
            return {"failed": "no measured steps"}
        return {**facts(parts), "problems": [worker.manifest["problems"] for worker in workers]}


def facts(parts: Split) -> dict[str, Any]:
    return {
        **{name: getattr(parts, name) for name in PARTS},
        "slowest_worker": parts.slowest_worker,
        "bytes": parts.exchanged_bytes_per_step,
        "unseen": parts.unseen,
        "steps": parts.steps,
    }


def launch(folder: Path, *script: str) -> str | None:
    """Run two workers under the agent; None where both ended well."""
    order = {"dir": str(folder), "steps": STEPS, "warmup": WARMUP, "profile": 0, "end": True, "workers": 2}
    own = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    own |= {"MASTER_PORT": free_port(), "PACELINE_TRIAL": json.dumps(order), "PYTHONPATH": str(ROOT / "src")}
    own |= {"NCCL_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "paceline_agent", str(SCRIPT), *script]
    workers = [
        subprocess.Popen(command, env={**os.environ, **own, "RANK": str(rank), "NCCL_HOSTID": f"host-{rank}"})
        for rank in range(2)
    ]
    until = monotonic() + LONGEST_S
    try:
        codes = [worker.wait(max(0.1, until - monotonic())) for worker in workers]
    except subprocess.TimeoutExpired:
        codes = [None]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    if codes == [0, 0]:
        return None
    said = "".join(path.read_text(errors="replace")[-800:] for path in sorted(folder.glob("out-*.log")))
    return f"exit codes {codes}: {said}"


def free_port() -> str:
    import socket

    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return str(tried.getsockname()[1])


def machine(device: str) -> dict[str, Any]:
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if device == "cuda" else None
    return {"device": name, "torch": torch.__version__, "nccl": nccl, "python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main())
