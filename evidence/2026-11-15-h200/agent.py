# Ran on commit 4e69a41 (2026-11-15); its part `overhead` on 395ec05 (2026-11-15)
"""The agent on a CUDA device: does it tell the truth, leave training unchanged and cost little there too?

    python agent.py OUT_DIR [PART…]  (one GPU; standard library and torch only)

Two workers share the GPU: through gloo over CUDA tensors as they are, through NCCL by one_gpu.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "src"))
SCRIPT = str(ROOT / "tests/scripts/plain_ddp.py")


def launch(folder, workers, *args, agent=True, steps=20, script=SCRIPT, end=True):
    shared = (str(HERE / "one_gpu.py"), script) if "nccl" in args and workers > 1 else (script,)
    order = {"dir": str(folder), "steps": steps, "warmup": 8, "profile": 5, "end": end, "workers": workers}
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT / "src")}
    if agent:
        environment["PACELINE_TRIAL"] = json.dumps(order)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(workers),
    ]
    target = ["-m", "paceline_agent", *shared] if agent else [*shared]
    ended = subprocess.run(
        [*command, *target, *args], env=environment, capture_output=True, text=True, timeout=150
    )
    logs = "".join(path.read_text()[-1500:] for path in sorted(Path(folder).glob("out-*.log")))
    return ended.returncode, (ended.stderr[-1500:] + logs) if ended.returncode else ""


def split_of(folder, workers, steps=20):
    from paceline.records import Point, Trial, TrialResult
    from paceline.split import split
    from paceline.store.worker_files import worker_records

    trial = Trial("t", Point("p", workers), 1, ())
    parts = split(TrialResult(trial, "ok", None, worker_records(folder), 0.0), warmup=8, steps=steps)
    return (
        None
        if parts is None
        else {
            name: getattr(parts, name)
            for name in (
                "step_s",
                "compute_s",
                "wire_s",
                "straggle_s",
                "hidden_s",
                "input_s",
                "optimizer_s",
                "overhead_s",
                "slowest_worker",
                "exchanged_bytes_per_step",
                "per_worker_batch",
                "peak_memory_bytes",
                "steps",
            )
        }
    )


def injected(result):
    base = ("--device", "cuda", "--width", "512", "--compute", "0.03")
    for backend in ("gloo", "nccl"):
        for name, args in {
            "nothing": (),
            "late worker 1, 50 ms": ("--late", "0.05"),
            "slow data, 30 ms": ("--slow-data", "0.03"),
            "slow exchange, 40 ms": ("--slow-exchange", "0.04"),
            "accumulate 4": ("--accumulate", "4"),
        }.items():
            with tempfile.TemporaryDirectory() as folder:
                code, log = launch(folder, 2, *base, "--backend", backend, *args)
                seen = {"exit": code, "log": log, "split": split_of(Path(folder), 2)}
                result[f"{backend}, 2 workers, {name}"] = seen
                print(backend, name, json.dumps(seen), flush=True)


def unchanged(result):
    import torch

    for name, args in {
        "sgd": (),
        "adam": ("--optimizer", "adam"),
        "hook": ("--slow-exchange", "0.0001"),
    }.items():
        for backend, workers in (("nccl", 1), ("nccl", 2), ("gloo", 2)):
            weights = []
            for agent in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    args_ = (
                        "--device",
                        "cuda",
                        "--backend",
                        backend,
                        "--steps",
                        "50",
                        "--save",
                        folder,
                        *args,
                    )
                    _, log = launch(folder, workers, *args_, agent=agent, steps=20, end=False)
                    saved = Path(folder) / "weights-0.pt"
                    weights.append(
                        torch.load(saved, weights_only=True, map_location="cpu") if saved.exists() else log
                    )
            same = all(isinstance(w, dict) for w in weights) and all(
                torch.equal(weights[0][key], weights[1][key]) for key in weights[0]
            )
            result[f"bit-identical, {backend}, {workers}, {name}"] = same if same else str(weights)[:1500]
            print(backend, workers, name, same, flush=True)


def others(result):
    for name, workers, args in (
        ("compile, nccl", 1, ("--device", "cuda", "--backend", "nccl", "--compile")),
        (
            "plain, nccl",
            1,
            ("--device", "cuda", "--backend", "nccl", "--width", "2048", "--batch-size", "256"),
        ),
    ):
        with tempfile.TemporaryDirectory() as folder:
            code, log = launch(folder, workers, *args)
            manifest = Path(folder) / "manifest-0.json"
            seen = json.loads(manifest.read_text()) if manifest.exists() else {}
            kept = {
                key: seen.get(key)
                for key in ("device_name", "backend", "peak_device_bytes", "problems", "torch")
            }
            result[name] = {"exit": code, "log": log, "split": split_of(Path(folder), workers), **kept}
            print(name, json.dumps(result[name]), flush=True)
    oom = "import torch, torch.nn as n\nm = n.Linear(8, 8).cuda()\no = torch.optim.SGD(m.parameters(), lr=0.1)\n"
    oom += "for k in range(3):\n    m(torch.ones(2, 8).cuda()).sum().backward(); o.step()\n"
    oom += "torch.empty(1 << 42, device='cuda')\n"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "oom.py"
        script.write_text(oom)
        code, _ = launch(folder, 1, script=str(script))
        failure = Path(folder) / "exit-0.json"
        result["out of memory"] = {
            "exit": code,
            "failure": json.loads(failure.read_text()) if failure.exists() else None,
        }
        print(code, failure.exists(), flush=True)


def overhead(result):
    """One process, with DDP (NCCL) and without: blocks with the agent in and out, synchronised around each block."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    sys.path.insert(0, str(ROOT / "benchmarks"))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK="0", WORLD_SIZE="1")
    folder = tempfile.mkdtemp()
    order = {"dir": folder, "steps": 10**9, "warmup": 5, "profile": 0, "end": False, "workers": 1}
    os.environ["PACELINE_TRIAL"] = json.dumps(order)
    from torch.utils.data import DataLoader, TensorDataset

    from overhead import Switch, interval

    switch = Switch()
    dist.init_process_group("nccl")
    switch.on()
    for name, width, batch in (
        ("small", 256, 64),
        ("large", 4096, 2048),
        ("small, no DDP", 256, 64),
        ("large, no DDP", 4096, 2048),
    ):
        network = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).cuda()
        ddp = network if "no DDP" in name else DistributedDataParallel(network)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-6)
        data = TensorDataset(torch.randn(batch * 8, 8))
        loader = DataLoader(data, batch_size=batch)
        inputs = torch.randn(batch, width, device="cuda")

        def block(steps, ddp=ddp, optimizer=optimizer, loader=loader, inputs=inputs):
            torch.cuda.synchronize()
            begun = perf_counter()
            done = 0
            while done < steps:
                for _ in loader:
                    ddp(inputs).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    done += 1
                    if done == steps:
                        break
            torch.cuda.synchronize()
            return (perf_counter() - begun) / steps

        block(20)
        pairs = []
        for pair in range(40):
            seen = {}
            for kind in ("bare", "agent") if pair % 2 else ("agent", "bare"):
                (switch.on if kind == "agent" else switch.off)()
                seen[kind] = block(24)
            pairs.append(seen)
        differences = [p["agent"] - p["bare"] for p in pairs]
        bare = median(p["bare"] for p in pairs)
        result[f"overhead, {name}"] = {
            "bare_step_s": bare,
            "added_s": median(differences),
            "interval_s": interval(differences),
            "within_budget": median(differences) <= max(1e-4, 0.01 * bare),
            "pairs": pairs,
        }
        print(name, bare, median(differences), interval(differences), flush=True)


if __name__ == "__main__":
    result = {}
    asked = sys.argv[2:] or ["injected", "unchanged", "others", "overhead"]
    for part in (globals()[name] for name in asked):
        try:
            part(result)
        except Exception as error:
            result[part.__name__] = f"failed: {type(error).__name__}: {error}"
            print(part.__name__, "failed", type(error).__name__, error, flush=True)
        Path(sys.argv[1], "agent.json").write_text(json.dumps(result, indent=1) + "\n")
