"""One worker of benchmarks/lab_prediction.py: real DistributedDataParallel over gloo, many cells in one process group.

    python benchmarks/lab_worker.py TASKS.json          RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment

A stage begins when the driver has shaped the links and written its .go file. Cells compute by sleeping (several hosts
fit on two cores then) or for real; gradients, buckets, exchange and optimizer are real always. Bucket times come from
the agent's own Timeline, link times from its own probe.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from pathlib import Path
from time import perf_counter, process_time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from paceline_agent.probe.sweep import beside_computing, steadiness, sweep
from paceline_agent.watch.timeline import Timeline

WARM = 2  # DDP rebuilds its buckets after the first step
FORWARD = 1 / 3  # of the computation


class Sleep(torch.autograd.Function):
    """A layer that takes its time, forward and backward, and has a gradient of its weight's size."""

    @staticmethod
    def forward(ctx, x, weight, forward_s, backward_s):
        ctx.backward_s, ctx.shape = backward_s, weight.shape
        time.sleep(forward_s)
        return x + 0.0

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.backward_s)
        return grad, torch.ones(ctx.shape), None, None


class Sleeping(torch.nn.Module):
    """Layers of [bytes, share of the computation], in forward order."""

    def __init__(self, layers, compute_s):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(int(size) // 4) for size, _ in layers)
        self.seconds = [compute_s * share for _, share in layers]

    def forward(self, x):
        for weight, seconds in zip(self.weights, self.seconds, strict=True):
            x = Sleep.apply(x, weight, seconds * FORWARD, seconds * (1 - FORWARD))
        return x


def real_network(name):
    """Small networks that really compute, and a batch for them: gradients of 1 to 3 MB, steps of 0.1 to 0.9 s."""
    torch.manual_seed(0)
    if name == "real-mixer":
        return mixer(49, 128, 3, classes=300), torch.randn(60, 49, 128)
    if name == "real-residual":
        return residual(40, 3, classes=300), torch.randn(20, 40, 20, 20)
    if name == "real-towers":
        return Towers(300, 400, 256), torch.randn(900, 600)
    if name == "own-mixer":
        return mixer(49, 176, 4, classes=400), torch.randn(34, 49, 176)
    if name == "own-residual":
        return residual(56, 3, classes=400), torch.randn(13, 56, 20, 20)
    return Towers(400, 520, 300), torch.randn(1000, 800)


class Added(torch.nn.Module):
    """What comes in, and what a few layers make of it."""

    def __init__(self, *layers, turned=False):
        super().__init__()
        self.layers, self.turned = torch.nn.Sequential(*layers), turned

    def forward(self, x):
        return x + (self.layers(x.mT).mT if self.turned else self.layers(x))


def mixer(tokens, width, layers, *, classes):
    """Layers that mix places, then channels, by turns."""
    body = []
    for _ in range(layers):
        body += [
            Added(torch.nn.Linear(tokens, tokens), torch.nn.GELU(), turned=True),
            torch.nn.LayerNorm(width),
            Added(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)),
        ]
    return torch.nn.Sequential(*body, torch.nn.Linear(width, classes))


def residual(channels, blocks, *, classes):
    """Pairs of convolutions, normalised in groups, and one large layer at the end."""

    def half():
        return (
            torch.nn.Conv2d(channels, channels, 3, padding=1),
            torch.nn.GroupNorm(4, channels),
            torch.nn.ReLU(),
        )

    body = [Added(*half(), *half()) for _ in range(blocks)]
    head = [torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(channels * 16, classes)]
    return torch.nn.Sequential(*body, *head)


class Towers(torch.nn.Module):
    """Two networks side by side, and how alike every pair of what they make is."""

    def __init__(self, width, hidden, out):
        super().__init__()
        self.left, self.right = (
            torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, out))
            for _ in range(2)
        )

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        return self.left(left) @ self.right(right).mT


def cell_result(cell, itself):
    """Seconds of every step and wait of every worker, and its bucket timeline where each trains alone."""
    alone = cell.get("alone") or dist.get_world_size() == 1
    if cell.get("layers"):
        last = dist.get_rank() == dist.get_world_size() - 1
        longer = cell.get("late") or 1.0 if last else 1.0
        network, x = Sleeping(cell["layers"], cell["compute_s"] * longer), torch.zeros(1)
    else:
        network, x = real_network(cell["network"])
    group = itself if cell.get("alone") else None
    ddp = DistributedDataParallel(network, bucket_cap_mb=cell["cap_mb"], init_sync=False, process_group=group)
    if cell.get("fp16"):
        ddp.register_comm_hook(None, fp16_compress_hook)
    ddp._set_ddp_runtime_logging_sample_rate(1)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    timeline, steps, waits = Timeline(), [], []
    dist.barrier()
    closed = perf_counter()
    optimizer_s, cpu_s = 0.0, 0.0
    for k in range(WARM + cell["steps"]):
        if k == WARM:
            cpu_s = -process_time()
        if k == WARM and alone:
            timeline.open(ddp, on_device=False)
            timeline.step_ended(closed)
        for micro in range(cell.get("accumulate", 1), 0, -1):
            with contextlib.nullcontext() if micro == 1 else ddp.no_sync():
                ddp(x).square().mean().backward()
        stamps = logged(ddp)
        arrived = stamps["backward_compute_time_end"]
        timeline.after_backward((stamps["backward_compute_time_start"] * 1e-9, arrived * 1e-9))
        begun = perf_counter()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        now = perf_counter()
        timeline.step_ended(now)
        if k >= WARM:
            steps.append(now - closed)
            waits.append((stamps["backward_comm_time_end"] - arrived) * 1e-9)
            optimizer_s += (now - begun) / cell["steps"]
        closed = now
    cpu_s = (cpu_s + process_time()) / cell["steps"]
    dist.barrier()  # nobody clears away while others are at their last step
    found = timeline.result()
    timeline.close()
    size = sum(each.numel() * each.element_size() for each in (*network.parameters(), *network.buffers()))
    del ddp, optimizer, network
    gc.collect()
    own = {
        "steps_s": steps, "waits_s": waits, "optimizer_s": optimizer_s, "cpu_s_per_step": cpu_s, "timeline": found,
    }  # fmt: skip
    return {"bytes": size, "workers": everywhere(own)}


def logged(ddp):
    ddp.logger.set_runtime_stats_and_log()
    return ddp.logger._get_ddp_logging_data().ints_map


def everywhere(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def probe_result(task):
    """The rows of the agent's own sweep, as probe.jsonl would hold them."""
    rows = [steadiness(task["steady_s"])] if task.get("steady_s") else []
    for records in sweep(task["sizes"], task["ops"], seconds=task["seconds"]):
        rows += [{"backend": "gloo", "device": "cpu", **record} for record in records]
    if task.get("beside_s"):
        rows += [row for records in beside_computing(task["sizes"], task["beside_s"]) for row in records]
    return {"rows": rows}


def main():
    order = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    gc.disable()  # it is done between cells, not in a step
    dist.init_process_group("gloo")
    folder, rank = Path(order["folder"]), dist.get_rank()
    itself = [dist.new_group([other]) for other in range(dist.get_world_size())][rank]
    with open(os.devnull if rank else order["out"], "a", encoding="utf-8") as out:
        for number, stage in enumerate(order["stages"]):
            go = folder / f"{order['name']}-{number}.go"
            if rank == 0:
                go.with_suffix(".ready").touch()
            while not go.exists():
                time.sleep(0.05)
            dist.barrier()
            for task in stage["tasks"]:
                result = probe_result(task) if task["kind"] == "probe" else cell_result(task, itself)
                row = {"launch": order["name"], "stage": stage["name"], **task, **result, "at": time.time()}
                out.write(json.dumps(row) + "\n")
                out.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
