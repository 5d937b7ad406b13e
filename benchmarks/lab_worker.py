"""One worker of benchmarks/lab_prediction.py: real DistributedDataParallel over gloo, many cells in one process group.

    python benchmarks/lab_worker.py TASKS.json          RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment

A stage begins when the driver has shaped the links and written its .go file. Cells compute by sleeping (several hosts
fit on two cores then) or for real; gradients, buckets, exchange and optimizer are real always. Bucket times come from
the agent's own Timeline, link times from its own probe.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
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

from paceline_agent.probe import beside_computing, steadiness, sweep
from paceline_agent.timeline import Timeline

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
    """Small networks that really compute, and a batch for them: gradients of 0.5 to 4 MB, steps of 0.05 to 0.9 s."""
    torch.manual_seed(0)
    if name == "real-gates":
        return gates(32, 4, classes=400), torch.randn(34, 32, 24, 24)
    if name == "real-mirror":
        return mirror(12, 40, 80, 160), torch.randn(30, 12, 40, 40)
    if name == "real-bilinear":
        return Bilinear(78, 90, 300), torch.randn(800, 78)
    if name == "own-normed":
        return normed(40, 5, classes=260), torch.randn(34, 40, 26, 26)
    if name == "own-lookup":
        return Lookup(800, 560, 360), torch.randint(800, (1700, 6))
    return Cascade(384, 220, 5), torch.randn(1500, 384)


class Gate(torch.nn.Module):
    """Scales channels by what all places of them say together."""

    def __init__(self, channels):
        super().__init__()
        self.small = torch.nn.Linear(channels, channels // 4)
        self.back = torch.nn.Linear(channels // 4, channels)

    def forward(self, x):
        seen = self.back(torch.relu(self.small(x.mean((2, 3)))))
        return x * torch.sigmoid(seen)[:, :, None, None]


def gates(channels, layers, *, classes):
    """Convolutions, each normalised over the batch and gated."""
    body = []
    for _ in range(layers):
        body += [
            torch.nn.Conv2d(channels, channels, 3, padding=1),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
            Gate(channels),
        ]
    return torch.nn.Sequential(
        *body, torch.nn.AdaptiveMaxPool2d(5), torch.nn.Flatten(), torch.nn.Linear(channels * 25, classes)
    )


def mirror(*channels):
    """Convolutions down to the smallest picture, and transposed ones back: the largest gradients in the middle."""
    pairs = list(itertools.pairwise(channels))
    down = [torch.nn.Conv2d(a, b, 4, stride=2, padding=1) for a, b in pairs]
    back = [torch.nn.ConvTranspose2d(b, a, 4, stride=2, padding=1) for a, b in reversed(pairs)]
    return torch.nn.Sequential(
        *(part for layer in (*down, *back) for part in (layer, torch.nn.LeakyReLU(0.1)))
    )


class Bilinear(torch.nn.Module):
    """Products of every pair of inputs: one layer has nearly all gradients."""

    def __init__(self, width, made, out):
        super().__init__()
        self.before = torch.nn.Linear(width, width)
        self.pairs = torch.nn.Bilinear(width, width, made)
        self.after = torch.nn.Linear(made, out)

    def forward(self, x):
        return self.after(torch.tanh(self.pairs(x, torch.tanh(self.before(x)))))


def normed(channels, layers, *, classes):
    """Every layer normalised over the batch: buffers that are broadcast before every forward."""
    body = []
    for _ in range(layers):
        body += [
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
        ]
    head = [torch.nn.AdaptiveAvgPool2d(5), torch.nn.Flatten(), torch.nn.Linear(channels * 25, classes)]
    return torch.nn.Sequential(*body, *head)


class Lookup(torch.nn.Module):
    """Rows of a table, summed: the largest gradient is ready last and costs little to compute."""

    def __init__(self, count, width, out):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(count, width, mode="sum")
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.Softplus(), torch.nn.Linear(width, out)
        )

    def forward(self, x):
        return self.deep(self.table(x))


class Cascade(torch.nn.Module):
    """Every layer sees the input again beside what the one before made of it."""

    def __init__(self, width, made, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width + (made if k else 0), made) for k in range(layers)
        )

    def forward(self, x):
        found = torch.nn.functional.mish(self.layers[0](x))
        for layer in self.layers[1:]:
            found = torch.nn.functional.mish(layer(torch.cat([x, found], dim=1)))
        return found


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
