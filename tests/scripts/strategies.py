"""One small training under many strategies: strategies.py KIND [--late S --turns --device cuda].

Knows nothing of Paceline.

Sleep stands for computation. --late S: worker 1 computes so much longer in every step; --turns: half of it on worker 0,
the other half on worker 1, at different moments of one step.
"""

import argparse
import contextlib
import functools
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, COMPUTE_S = 64, 8, 0.01
KINDS = {}


class Sleep(torch.nn.Module):
    """Computes for so long in forward: on one worker for longer."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def forward(self, x):
        compute(x, self.seconds)
        return x


def compute(x, seconds):
    """Keeps the host busy for so long, or the device where the tensor lies on one."""
    if x.is_cuda:
        torch.cuda._sleep(round(seconds * cycles_per_s()))
    else:
        time.sleep(seconds)


@functools.cache
def cycles_per_s():
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for cycles in (1_000_000, 100_000_000):  # the first one loads the kernel
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
    end.synchronize()
    return 1e3 * cycles / begin.elapsed_time(end)


class Slept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        compute(grad, ctx.seconds)
        return grad, None


class SleepBack(torch.nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def forward(self, x):
        return Slept.apply(x, self.seconds)


class Settings:
    """What one run is asked for, as this worker has it."""

    def __init__(self, args):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.reader = self.rank  # workers with the same number read the same batches
        late = args.late if self.rank == 1 else 0.0
        self.forward_s = COMPUTE_S + (args.late if args.turns and self.rank == 0 else 0.0)
        self.backward_s = COMPUTE_S + (args.late if args.turns and self.rank == 1 else 0.0)
        if args.turns:
            late = 0.0
        self.forward_s += late
        self.args = args
        self.device = args.device

    def network(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(
            Sleep(self.forward_s),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
            SleepBack(self.backward_s),
        ).to(self.device)

    def batch(self, k):
        return self.random(1000 * k + self.reader)

    def random(self, seed):
        return torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(seed)).to(self.device)


def kind(function):
    KINDS[function.__name__] = function
    return function


def plain(settings, forward, parameters, after=lambda: None, *, optimizer=None, accumulate=1, context=None):
    """A step: forward, backward, whatever comes after it, the optimizer."""
    optimizer = optimizer or torch.optim.SGD(parameters, lr=0.01)
    for k in steps(settings):
        for micro in range(accumulate):
            inside = context() if context and micro + 1 < accumulate else contextlib.nullcontext()
            with inside:
                forward(settings.batch(accumulate * k + micro)).square().mean().backward()
        after()
        optimizer.step()
        optimizer.zero_grad()


def steps(settings):
    k = 0
    while not settings.args.steps or k < settings.args.steps:
        yield k
        k += 1


# ---------------------------------------------------------------- DistributedDataParallel


def ddp_of(settings, **more):
    return DistributedDataParallel(settings.network(), **more)


@kind
def ddp(settings):
    model = ddp_of(settings, bucket_cap_mb=0.01)
    plain(settings, model, model.parameters())
    return model.module


@kind
def ddp_static(settings):
    model = ddp_of(settings, static_graph=True)
    plain(settings, model, model.parameters())
    return model.module


@kind
def ddp_unused(settings):
    """Looks for parameters that took no part: one more reduction in each step, and buckets are never rebuilt."""
    model = ddp_of(settings, find_unused_parameters=True)
    plain(settings, model, model.parameters())
    return model.module


@kind
def ddp_checkpointing(settings):
    from torch.utils.checkpoint import checkpoint

    network = settings.network()
    inner = network[1:3]

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            x = checkpoint(inner, self.network[0](x).requires_grad_(), use_reentrant=False)
            return self.network[4](self.network[3](x))

    model = DistributedDataParallel(Checkpointed())
    plain(settings, model, model.parameters())
    return network


@kind
def ddp_no_sync(settings):
    model = ddp_of(settings)
    plain(settings, model, model.parameters(), accumulate=2, context=model.no_sync)
    return model.module


@kind
def ddp_hook(settings):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    model = ddp_of(settings)
    model.register_comm_hook(None, fp16_compress_hook)
    plain(settings, model, model.parameters())
    return model.module


@kind
def ddp_python_reducer(settings):
    torch._dynamo.config.optimize_ddp = "python_reducer"
    model = ddp_of(settings)
    plain(settings, model, model.parameters())
    return model.module


@kind
def ddp_compiled(settings):
    model = ddp_of(settings)
    compiled = torch.compile(model, backend="aot_eager")
    plain(settings, compiled, model.parameters())
    return model.module


@kind
def replicate(settings):
    from torch.distributed._composable.replicate import replicate as composable

    model = composable(settings.network())
    plain(settings, model, model.parameters())
    return model


@kind
def zero1(settings):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = ddp_of(settings)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.01)
    plain(settings, model, model.parameters(), optimizer=optimizer)
    return model.module


# ---------------------------------------------------------------- sharded


def sharded(settings, mesh=None, network=None, **more):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    network = network or settings.network()
    mesh = mesh or init_device_mesh(settings.device, (settings.world,))
    for layer in (network[1], network[3]):
        fully_shard(layer, mesh=mesh, **more)
    return fully_shard(network, mesh=mesh, **more)


@kind
def fsdp2(settings):
    model = sharded(settings)
    plain(settings, model, model.parameters())
    return model


@kind
def fsdp2_no_reshard(settings):
    model = sharded(settings, reshard_after_forward=False)
    plain(settings, model, model.parameters())
    return model


@kind
def fsdp2_accumulation(settings):
    model = sharded(settings)

    @contextlib.contextmanager
    def unsynced():
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)

    plain(settings, model, model.parameters(), accumulate=2, context=unsynced)
    return model


@kind
def hsdp(settings):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(settings.device, (2, settings.world // 2), mesh_dim_names=("replicate", "shard"))
    model = sharded(settings, mesh=mesh)
    plain(settings, model, model.parameters())
    return model


@kind
def fsdp1(settings):
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(settings.network(), device_id=torch.device(settings.device))
    plain(settings, model, model.parameters())
    return model


# ---------------------------------------------------------------- tensors and layers spread


def parallel(settings, *, sequence):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(settings.device, (settings.world,))
    network = settings.network()
    spread = Shard(1) if sequence else Replicate()
    plan = {
        "1": ColwiseParallel(input_layouts=spread),
        "3": RowwiseParallel(output_layouts=spread),
    }
    model = parallelize_module(network, mesh, plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for k in steps(settings):
        inputs = settings.random(k).view(2, BATCH // 2, WIDTH)
        if sequence:
            inputs = inputs.chunk(settings.world, dim=1)[settings.rank]
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@kind
def tp(settings):
    return parallel(settings, sequence=False)


@kind
def sp(settings):
    return parallel(settings, sequence=True)


@kind
def fsdp2_tp(settings):
    """Pairs hold one copy together, and the pairs share what each of them holds."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    shape = (settings.world // 2, 2)
    mesh = init_device_mesh(settings.device, shape, mesh_dim_names=("data", "tensor"))
    network = settings.network()
    parallelize_module(network, mesh["tensor"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
    settings.reader = settings.rank // 2
    model = sharded(settings, mesh=mesh["data"], network=network)
    plain(settings, model, model.parameters())
    return model


def pipeline(settings, schedule_class):
    from torch.distributed.pipelining import PipelineStage

    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(settings.world)]
    micro = 4
    part = torch.nn.Sequential(
        Sleep(settings.forward_s / micro), layers[settings.rank], SleepBack(settings.backward_s / micro)
    ).to(settings.device)
    stage = PipelineStage(part, settings.rank, settings.world, torch.device(settings.device))
    schedule = schedule_class(stage, micro, loss_fn=lambda out, target: (out - target).square().mean())
    optimizer = torch.optim.SGD(part.parameters(), lr=0.01)
    for k in steps(settings):
        inputs, target = settings.random(2 * k), settings.random(2 * k + 1)
        if settings.rank == 0:
            schedule.step(inputs)
        elif settings.rank == settings.world - 1:
            schedule.step(target=target)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
    return part


@kind
def pp_gpipe(settings):
    from torch.distributed.pipelining import ScheduleGPipe

    return pipeline(settings, ScheduleGPipe)


@kind
def pp_1f1b(settings):
    from torch.distributed.pipelining import Schedule1F1B

    return pipeline(settings, Schedule1F1B)


# ---------------------------------------------------------------- by hand


def by_hand(settings, exchange, *, before=lambda network: None):
    network = settings.network()
    before(network)
    plain(settings, network, network.parameters(), lambda: exchange(list(network.parameters())))
    return network


@kind
def hand_flat(settings):
    def exchange(parameters):
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad.copy_(part.view_as(p) / settings.world)

    return by_hand(settings, exchange)


@kind
def hand_each(settings):
    def exchange(parameters):
        for p in parameters:
            dist.all_reduce(p.grad)
            p.grad /= settings.world

    return by_hand(settings, exchange)


@kind
def hand_overlapped(settings):
    """All-reduces that start as gradients become ready, and are waited for after backward."""
    handles = []

    def before(network):
        for p in network.parameters():
            p.register_post_accumulate_grad_hook(
                lambda p: handles.append(dist.all_reduce(p.grad, async_op=True))
            )

    def exchange(parameters):
        for handle in handles:
            handle.wait()
        handles.clear()
        for p in parameters:
            p.grad /= settings.world

    return by_hand(settings, exchange, before=before)


@kind
def hand_streams(settings):
    """As FSDP2 does it on CUDA: a stream of its own waits for the collective, the computing one for an event."""
    side = torch.cuda.Stream()

    def exchange(parameters):
        side.wait_event(recorded())
        with torch.cuda.stream(side):
            for p in parameters:
                dist.all_reduce(p.grad, async_op=True).wait()
            reduced = recorded()
        torch.cuda.current_stream().wait_event(reduced)
        for p in parameters:
            p.grad /= settings.world

    def recorded():
        event = torch.cuda.Event()
        event.record()
        return event

    return by_hand(settings, exchange)


@kind
def hand_future(settings):
    def exchange(parameters):
        futures = [dist.all_reduce(p.grad, async_op=True).get_future() for p in parameters]
        for future in futures:
            future.wait()

    return by_hand(settings, exchange)


@kind
def coalesced(settings):
    def exchange(parameters):
        with dist._coalescing_manager():
            for p in parameters:
                dist.all_reduce(p.grad)

    return by_hand(settings, exchange)


@kind
def send_recv(settings):
    def exchange(parameters):
        for p in parameters:
            other = torch.empty_like(p.grad)
            if settings.rank == 0:
                dist.send(p.grad, 1)
                dist.recv(other, 1)
            else:
                dist.recv(other, 0)
                dist.send(p.grad, 0)
            p.grad += other

    return by_hand(settings, exchange)


@kind
def batched_p2p(settings):
    def exchange(parameters):
        peer = 1 - settings.rank
        others = [torch.empty_like(p.grad) for p in parameters]
        operations = [dist.P2POp(dist.isend, p.grad, peer) for p in parameters]
        operations += [dist.P2POp(dist.irecv, other, peer) for other in others]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        for p, other in zip(parameters, others, strict=True):
            p.grad += other

    return by_hand(settings, exchange)


@kind
def direct(settings):
    group = dist.group.WORLD

    def exchange(parameters):
        for p in parameters:
            group.allreduce([p.grad]).wait()

    return by_hand(settings, exchange)


@kind
def functional(settings):
    import torch.distributed._functional_collectives as functions

    def exchange(parameters):
        for p in parameters:
            p.grad = functions.all_reduce(p.grad, "sum", dist.group.WORLD) / settings.world

    return by_hand(settings, exchange)


@kind
def gathered(settings):
    """ZeRO by hand: reduce-scatter the gradients, all-gather them again."""

    def exchange(parameters):
        flat = torch.cat([p.grad.flatten() for p in parameters])
        part = flat.new_empty(flat.numel() // settings.world)
        dist.reduce_scatter_tensor(part, flat)
        dist.all_gather_into_tensor(flat, part)
        for p, own in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad.copy_(own.view_as(p))

    return by_hand(settings, exchange)


class Shares(torch.optim.Optimizer):
    """Every worker keeps the state of its own share of the parameters, and sends what it has updated."""

    def __init__(self, parameters):
        self.all = list(parameters)
        super().__init__(self.all[dist.get_rank() :: dist.get_world_size()], {})
        self.own = torch.optim.SGD(self.param_groups[0]["params"], lr=0.01, momentum=0.9)

    def step(self, closure=None):
        self.own.step()
        for place, parameter in enumerate(self.all):
            dist.broadcast(parameter.data, place % dist.get_world_size())

    def zero_grad(self, set_to_none=True):
        for parameter in self.all:
            parameter.grad = None


@kind
def hand_shares(settings):
    network = settings.network()
    parameters = list(network.parameters())

    def exchange():
        for p in parameters:
            dist.all_reduce(p.grad)
            p.grad /= settings.world

    plain(settings, network, parameters, exchange, optimizer=Shares(parameters))
    return network


@kind
def separate(settings):
    """Nobody exchanges anything."""
    return by_hand(settings, lambda parameters: None)


# ---------------------------------------------------------------- frameworks


@kind
def horovod(settings):
    import paceline_horovod.torch as hvd

    hvd.init()
    network = settings.network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(network.parameters(), lr=0.01), named_parameters=network.named_parameters()
    )
    plain(settings, network, network.parameters(), optimizer=optimizer)
    return network


@kind
def accelerate(settings):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=settings.device == "cpu")
    model = settings.network()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for k in steps(settings):
        accelerator.backward(model(settings.batch(k)).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return accelerator.unwrap_model(model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--save", default="")
    parser.add_argument("--batch-size", type=int, default=BATCH)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    dist.init_process_group("gloo" if args.device == "cpu" else "nccl")
    settings = Settings(args)
    network = KINDS[args.kind](settings)
    if args.save:
        local = {n: getattr(p, "_local_tensor", p).detach().clone() for n, p in network.named_parameters()}
        torch.save(local, os.path.join(args.save, f"weights-{settings.rank}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
