# Ran on commit 4e69a41 (2026-11-15)
"""The Horovod API on CUDA tensors over NCCL: every collective against arithmetic, the optimizer against DDP, speed.

    torchrun --standalone --nproc-per-node 2 one_gpu.py horovod_cuda.py OUT_DIR

Two workers share one GPU (one_gpu.py). Both loops train in the same processes, turn by turn; their kernels take
turns with the other worker's, so the ratio of the two is what counts, not the times.
"""

import itertools
import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

import paceline_horovod.torch as hvd  # noqa: E402


def network():
    torch.manual_seed(0)
    sizes = [1024] * 6 + [10]
    layers = [m for a, b in itertools.pairwise(sizes) for m in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1]).cuda()


def collectives(result):
    rank, size = hvd.rank(), hvd.size()
    total = sum(range(1, size + 1))
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        mine = torch.full((1000,), rank + 1, device="cuda", dtype=dtype)
        result[f"allreduce Sum {dtype}"] = bool((hvd.allreduce(mine, op=hvd.Sum) == total).all())
    rows = torch.full((rank + 1, 3), float(rank), device="cuda")
    expected = torch.cat([torch.full((r + 1, 3), float(r)) for r in range(size)])
    result["allgather, rows differ"] = torch.equal(hvd.allgather(rows).cpu(), expected)
    result["broadcast"] = bool((hvd.broadcast(torch.full((7,), float(rank), device="cuda"), 1) == 1).all())
    sent = torch.arange(size * 2, device="cuda") + 100 * rank
    got = hvd.alltoall(sent, torch.tensor([2] * size))
    got = got[0] if isinstance(got, tuple) else got
    result["alltoall"] = got.tolist() == [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    part = hvd.reducescatter(torch.ones(2 * size, device="cuda"), op=hvd.Sum)
    result["reducescatter"] = part.tolist() == [float(size)] * 2
    ones = hvd.allreduce(torch.ones(4, device="cuda"), op=hvd.Adasum)
    result["Adasum of equal vectors is the vector"] = bool(torch.allclose(ones, torch.ones(4, device="cuda")))
    result["fp16 compression"] = bool(
        (hvd.allreduce(torch.full((9,), 0.5, device="cuda"), compression=hvd.Compression.fp16) == 0.5).all()
    )
    side = torch.cuda.Stream()
    with torch.cuda.stream(
        side
    ):  # the result must be ordered after the side stream's work, not the default's
        heavy = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            heavy = heavy @ torch.eye(4096, device="cuda")
        summed = hvd.allreduce(heavy, op=hvd.Sum)
    side.synchronize()
    result["a side stream's work is waited for"] = bool((summed == size).all())


def training(result, rounds=6, steps=20):
    plain, own = DistributedDataParallel(network()), network()
    hvd.broadcast_parameters(own.state_dict(), root_rank=0)
    optimizers = {
        "ddp": (plain, torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9)),
        "horovod": (
            own,
            hvd.DistributedOptimizer(
                torch.optim.SGD(own.parameters(), lr=0.01, momentum=0.9),
                named_parameters=own.named_parameters(),
            ),
        ),
    }
    batch = torch.randn(256, 1024, generator=torch.Generator().manual_seed(hvd.rank())).cuda()
    times = {name: [] for name in optimizers}
    for turn in range(rounds):
        for name, (net, optimizer) in optimizers.items():
            torch.cuda.synchronize()
            hvd.barrier()
            begun = perf_counter()
            for _ in range(steps):
                optimizer.zero_grad()
                net(batch).square().mean().backward()
                optimizer.step()
            torch.cuda.synchronize()
            if turn:
                times[name].append((perf_counter() - begun) / steps)
    apart = max(float((p - q).abs().max()) for p, q in zip(own.parameters(), plain.parameters(), strict=True))
    result["largest weight difference to DDP"] = apart
    result["step_s"] = {name: median(taken) for name, taken in times.items()}


if __name__ == "__main__":
    torch.cuda.set_device(0)
    hvd.init()
    result = {
        "workers": hvd.size(),
        "backend": str(dist.get_backend_config() if dist.is_initialized() else ""),
    }
    for part in (collectives, training):
        try:
            part(result)
        except Exception as error:
            result[part.__name__] = f"failed: {type(error).__name__}: {error}"
    print(hvd.rank(), json.dumps(result), flush=True)
    if hvd.rank() == 0:
        Path(sys.argv[1], f"horovod-{hvd.size()}.json").write_text(json.dumps(result, indent=1) + "\n")
    hvd.barrier()
    hvd.shutdown()
