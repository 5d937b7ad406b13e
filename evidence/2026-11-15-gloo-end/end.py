# Ran on commit 57244a7 (2026-11-15)
"""How often does a training of two gloo workers never end? Bare and with Paceline's agent, turn by turn.

PYTHONPATH=src python evidence/2026-11-15-gloo-end/end.py OUT.jsonl ROUNDS
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAINING = """
import sys
if "dynamo" in sys.argv:
    import torch._dynamo
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main():
    dist.init_process_group("gloo")
    if "device" in sys.argv:
        torch.set_default_device("cpu")
    ddp = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        ddp(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()

main()
"""
WAYS = {"bare": (), "bare, dynamo": ("dynamo",), "bare, dynamo, default device": ("dynamo", "device")}
WAYS |= {f"agent{name[4:]}": flags for name, flags in WAYS.items()}
LIMIT_S = 20.0


def run(way: str, script: Path, folder: str) -> float | None:
    """Seconds until both workers had ended; None where one never did."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    agent: tuple[str, ...] = ()
    if way.startswith("agent"):
        order = {"dir": folder, "steps": 1000, "warmup": 6, "profile": 0, "end": False, "workers": 2}
        agent, environment["PACELINE_TRIAL"] = ("-m", "paceline_agent"), json.dumps(order)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    begun = time.monotonic()
    launched = subprocess.Popen(
        [*command, *agent, str(script), *WAYS[way]], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        assert launched.wait(LIMIT_S) == 0
    except subprocess.TimeoutExpired:
        launched.terminate()  # torchrun ends its workers, by SIGKILL after a while
        launched.wait()
        return None
    return time.monotonic() - begun


def main(out: str, rounds: str) -> None:
    with tempfile.TemporaryDirectory() as home, open(out, "w") as file:
        script = Path(home) / "training.py"
        script.write_text(TRAINING)
        for _ in range(int(rounds)):
            for way in WAYS:
                with tempfile.TemporaryDirectory() as folder:
                    took = run(way, script, folder)
                file.write(json.dumps({"way": way, "ended_after_s": took}) + "\n")
                file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
