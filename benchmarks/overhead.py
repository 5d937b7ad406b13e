"""What does measuring cost? Paired, interleaved blocks of real DDP steps in one process group, two gloo workers.

    python benchmarks/overhead.py [--out DIR] [--pairs 60]

One process group trains without end. Blocks of steps alternate between bare torch (every patch of the agent taken out),
the agent, and torch.profiler (CPU activities), in an order that changes from round to round, so that drift and
neighbours hit all three alike. Worker 0 times whole blocks from outside with its own clock; per round, the difference
to the bare block is one paired observation. Networks: an MLP of about 2 ms and a CNN of about 50 ms per step.

Writes raw block times (raw.jsonl), the machine (machine.json) and the verdict (result.json, printed too).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from paired import Switch, in_two_workers, interval, keep

BLOCK_STEPS = {"mlp": 14, "cnn": 6}  # short, so that the neighbours' load is the same within a round
ROUNDS = {"mlp": 8, "cnn": 1}  # times --pairs
PROFILED = 4  # torch.profiler takes part in every fourth round: starting it takes longer than a block
SKIPPED = 2  # first steps of a block: the caches change hands


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("evidence/overhead"))
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--networks", default="mlp,cnn")
    args = parser.parse_args()
    if "RANK" in os.environ:
        work(args)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "raw.jsonl").write_text("")
    for network in args.networks.split(","):
        same = ["--out", str(args.out.resolve()), "--pairs", str(args.pairs), "--networks", network]
        in_two_workers(__file__, *same)
    verdict(args.out)


def work(args: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    switch = Switch()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    name = args.networks
    if name == "mlp":
        network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        inputs = torch.randn(20480, 256)
    else:
        channels = [3, 24, 48, 48]
        layers: list[torch.nn.Module] = []
        for before, after in pairwise(channels):
            layers += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        network = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(48 * 16, 10))
        inputs = torch.randn(4096, 3, 32, 32)
    data = TensorDataset(inputs, torch.randint(0, 10, (len(inputs),)))
    switch.on()  # so that the DDP wrapper is made under the agent's eyes, as in a study
    ddp = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler)

    def batches():
        while True:
            yield from loader

    stream = batches()

    def block(steps: int) -> list[float]:
        times = []
        for _ in range(steps):
            begun = perf_counter()
            images, labels = next(stream)
            loss = torch.nn.functional.cross_entropy(ddp(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(perf_counter() - begun)
        return times

    def timed(kind: str, steps: int) -> list[float]:
        if kind == "agent":
            switch.on()
            switch.agent.ddp.look(switch.agent.recorder.looking)
        else:
            switch.off()
            ddp._set_ddp_runtime_logging_sample_rate(100)
        if kind != "profiler":
            return block(steps)
        with profile(activities=[ProfilerActivity.CPU]):
            return block(steps)

    steps = BLOCK_STEPS[name]
    block(20)
    shuffled = random.Random(0)
    for pair in range(args.pairs * ROUNDS[name]):
        kinds = ["bare", "agent", "profiler"] if pair % PROFILED == 0 else ["bare", "agent"]
        shuffled.shuffle(kinds)
        seen = {kind: timed(kind, steps)[SKIPPED:] for kind in kinds}
        if rank == 0:
            with open(args.out / "raw.jsonl", "a", encoding="utf-8") as file:
                for kind in kinds:
                    file.write(
                        json.dumps({"network": name, "pair": pair, "kind": kind, "step_s": seen[kind]}) + "\n"
                    )
    if rank == 0:
        own = [s[10] for s in switch.agent.recorder.steps[20:]]
        with open(args.out / "raw.jsonl", "a", encoding="utf-8") as file:
            file.write(
                json.dumps({"network": name, "kind": "own_account", "mean_s": statistics.fmean(own)}) + "\n"
            )
    dist.barrier()
    os._exit(0)


def verdict(out: Path) -> None:
    """Per network: the median paired difference to bare, with a bootstrap 90 % interval."""
    rows = [json.loads(line) for line in (out / "raw.jsonl").read_text().splitlines()]
    result: dict[str, object] = {}
    for network in sorted({row["network"] for row in rows}):
        blocks: dict[int, dict[str, float]] = {}
        for row in rows:
            if row["network"] == network and row["kind"] != "own_account":
                blocks.setdefault(row["pair"], {})[row["kind"]] = statistics.median(row["step_s"])
        bare = statistics.median(b["bare"] for b in blocks.values())
        own = [row["mean_s"] for row in rows if row["network"] == network and row["kind"] == "own_account"]
        result[network] = {
            "bare_step_s": bare,
            "pairs": len(blocks),
            "agent_own_account_s": own[0] if own else None,
        }
        for kind in ("agent", "profiler"):
            differences = [b[kind] - b["bare"] for b in blocks.values() if kind in b]
            low, high = interval(differences)
            middle = statistics.median(differences)
            result[network][kind] = {  # type: ignore[index]
                "added_s": middle,
                "low_s": low,
                "high_s": high,
                "ratio": middle / bare,
                "within_budget": middle <= max(1e-4, 0.01 * bare),
            }
    keep(out, result)


if __name__ == "__main__":
    main()
