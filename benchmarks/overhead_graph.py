"""What does a step graph cost? Steps of 1, 20 and 120 communications, paired and interleaved, two gloo workers.

    python benchmarks/overhead_graph.py [--out DIR] [--rounds 40] [--counts 1,20,120]

A training by hand: a small network, then so many asynchronous all-reduces of 4 kB, each waited for. Blocks of steps
alternate between bare torch (every patch of the agent taken out), the agent, torch.profiler and, where traceml-ai is
installed, TraceML, in an order that changes from round to round. A block's figure is the mean of its steps, for only
some steps are looked at. Per round, the difference to the bare block is one paired observation.

Writes block means (raw.jsonl), the machine (machine.json) and the verdict (result.json, printed too).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import statistics
from pathlib import Path
from time import perf_counter

from paired import Switch, in_two_workers, interval, keep

STEPS, SKIPPED = 34, 2  # of a block; the caches change hands in the first of them
PROFILED = 4  # torch.profiler takes part in every fourth round: starting it takes longer than a block
FEW = 20  # communications that the budget of a step covers; each further one has a budget of its own


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("evidence/overhead-graph"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--counts", default="1,20,120")
    args = parser.parse_args()
    if "RANK" in os.environ:
        work(args)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "raw.jsonl").write_text("")
    for count in args.counts.split(","):
        same = ["--out", str(args.out.resolve()), "--rounds", str(args.rounds), "--counts", count]
        in_two_workers(__file__, *same)
    verdict(args.out)


def work(args: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile

    switch = Switch()
    traceml = Traceml() if importlib.util.find_spec("traceml_ai") else None
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), int(args.counts)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
    parts = [torch.ones(1024) for _ in range(count)]

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        for handle in [dist.all_reduce(part, async_op=True) for part in parts]:
            handle.wait()
        optimizer.step()

    def block(kind: str) -> float:
        around = traceml.step(network) if kind == "traceml" and traceml else contextlib.nullcontext
        dist.barrier()
        for k in range(STEPS):
            if k == SKIPPED:
                begun = perf_counter()
            with around():
                step()
        return (perf_counter() - begun) / (STEPS - SKIPPED)

    def timed(kind: str) -> float:
        (switch.on if kind == "agent" else switch.off)()
        if kind != "profiler":
            return block(kind)
        with profile(activities=[ProfilerActivity.CPU]):
            return block(kind)

    switch.on()
    block("agent")
    shuffled = random.Random(0)
    for number in range(args.rounds):
        kinds = ["bare", "agent"]
        kinds += ["profiler"] if number % PROFILED == 0 else []
        kinds += ["traceml"] if traceml else []
        shuffled.shuffle(kinds)
        seen = {kind: timed(kind) for kind in kinds}
        if rank == 0:
            with open(args.out / "raw.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"communications": count, "round": number, "step_s": seen}) + "\n")
    dist.barrier()
    os._exit(0)


class Traceml:
    """TraceML's own entry, without its samplers and its server: what it does inside a step, and nothing else."""

    def __init__(self) -> None:
        from traceml_ai.sdk import initial

        self._initial = initial
        initial._start_runtime_for_init = lambda **_: None
        initial.init(mode="auto")

    def step(self, network: object) -> object:
        from traceml_ai.sdk import trace_step

        return lambda: trace_step(network)


def verdict(out: Path) -> None:
    """Per number of communications: the median paired difference to bare, with a bootstrap 90% interval. Where that
    holds the budget, nothing is decided: a machine that others use has to be measured again."""
    rows = [json.loads(line) for line in (out / "raw.jsonl").read_text().splitlines()]
    result: dict[str, dict[str, object]] = {}
    for count in sorted({row["communications"] for row in rows}):
        rounds = [row["step_s"] for row in rows if row["communications"] == count]
        bare = statistics.median(one["bare"] for one in rounds)
        allowed = max(1e-4, 0.01 * bare) + 5e-6 * max(0, count - FEW)
        result[str(count)] = {"bare_step_s": bare, "rounds": len(rounds), "allowed_s": allowed}
        for kind in ("agent", "profiler", "traceml"):
            differences = [one[kind] - one["bare"] for one in rounds if kind in one]
            if differences:
                low, high = interval(differences)
                added = statistics.median(differences)
                result[str(count)][kind] = {"added_s": added, "low_s": low, "high_s": high}
                if kind == "agent":
                    result[str(count)]["within_budget"] = None if low < allowed < high else high <= allowed
    keep(out, result)


if __name__ == "__main__":
    main()
