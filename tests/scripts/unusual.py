"""Small trainings that are unusual in what they send, or when: unusual.py KIND [--late S]. Knows nothing of Paceline.

Sleep stands for computation, as in strategies.py; --late S: worker 1 computes so much longer in every forward.
"""

import argparse
import itertools
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, COMPUTE_S = 64, 8, 0.01
KINDS = {}


class Sleep(torch.nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def forward(self, x):
        time.sleep(self.seconds)
        return x


def kind(function):
    KINDS[function.__name__] = function
    return function


def network(compute_s):
    torch.manual_seed(0)
    layers = torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)
    return torch.nn.Sequential(Sleep(compute_s), *layers)


def batch(k):
    return torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(1000 * k + dist.get_rank()))


def loss(model, k):
    return model(batch(k)).square().mean()


def sgd(parameters, **more):
    return torch.optim.SGD(parameters, lr=0.01, **more)


def train(model, exchange=lambda k: None):
    """Forward, backward, whatever is sent, the optimizer; for ever."""
    optimizer = sgd(model.parameters())
    for k in itertools.count():
        loss(model, k).backward()
        exchange(k)
        optimizer.step()
        optimizer.zero_grad()


def averaged(parameters, group=None):
    for p in parameters:
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size()


@kind
def two_groups(compute_s):
    """In turn."""
    groups, model = [dist.new_group(), dist.new_group()], network(compute_s)
    train(model, lambda k: averaged(model.parameters(), groups[k % 2]))


@kind
def barriers(compute_s):
    model = network(compute_s)

    def exchange(k):
        dist.barrier()
        averaged(model.parameters())
        dist.monitored_barrier()

    train(model, exchange)


@kind
def objects(compute_s):
    model = network(compute_s)

    def exchange(k):
        averaged(model.parameters())
        dist.all_gather_object([None, None], {"step": k})
        dist.broadcast_object_list([k])

    train(model, exchange)


@kind
def scattered(compute_s):
    """Gathered on worker 0, averaged there, scattered."""
    model, here = network(compute_s), dist.get_rank() == 0

    def exchange(k):
        for p in model.parameters():
            parts = [torch.empty_like(p) for _ in range(2)] if here else None
            dist.gather(p.grad, parts)
            dist.scatter(p.grad, [(parts[0] + parts[1]) / 2] * 2 if here else None)

    train(model, exchange)


@kind
def served(compute_s):
    """Worker 1 sends its gradients and gets parameters; worker 0 trains too. No collective."""
    model, rank = network(compute_s), dist.get_rank()
    optimizer = sgd(model.parameters())
    for k in itertools.count():
        loss(model, k).backward()
        for p in model.parameters():
            if rank:
                dist.send(p.grad, 0)
            else:
                other = torch.empty_like(p)
                dist.recv(other, 1)
                p.grad += other
        optimizer.step()
        for p in model.parameters():
            dist.recv(p.data, 0) if rank else dist.send(p.data, 1)
        optimizer.zero_grad()


@kind
def outer_steps(compute_s):
    """DiLoCo: four steps by oneself, then one of an outer optimizer, on what all have come to."""
    model = network(compute_s)
    outer = [p.detach().clone().requires_grad_() for p in model.parameters()]
    inner_optimizer, outer_optimizer = sgd(model.parameters()), sgd(outer, momentum=0.9)
    for k in itertools.count(1):
        loss(model, k).backward()
        inner_optimizer.step()
        inner_optimizer.zero_grad()
        if k % 4 == 0:
            for own, p in zip(outer, model.parameters(), strict=True):
                own.grad = own.data - p.data
            averaged(outer)
            outer_optimizer.step()
            for own, p in zip(outer, model.parameters(), strict=True):
                p.data.copy_(own.data)


@kind
def sharpness(compute_s):
    """SAM: the gradient of a first backward says where the second is taken. It is used, not added up."""
    model = DistributedDataParallel(network(compute_s))
    optimizer = sgd(model.parameters())
    for k in itertools.count():
        loss(model, k).backward()
        moved = [0.05 * p.grad for p in model.parameters()]
        with torch.no_grad():
            for p, by in zip(model.parameters(), moved, strict=True):
                p += by
        optimizer.zero_grad()
        loss(model, k).backward()
        with torch.no_grad():
            for p, by in zip(model.parameters(), moved, strict=True):
                p -= by
        optimizer.step()
        optimizer.zero_grad()


@kind
def closures(compute_s):
    model = DistributedDataParallel(network(compute_s))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
    for k in itertools.count():

        def closure(k=k):
            optimizer.zero_grad()
            value = loss(model, k)
            value.backward()
            return value

        optimizer.step(closure)


@kind
def regrouped(compute_s):
    """The group is made anew after every fifth step."""
    model, groups = network(compute_s), []

    def exchange(k):
        if k % 5 == 0:
            if groups:
                dist.destroy_process_group(groups.pop())
            groups.append(dist.new_group())
        averaged(model.parameters(), groups[0])

    train(model, exchange)


class Experts(torch.nn.Module):
    """A gate that all workers have, and an expert on each of them; every worker has tokens of its own."""

    def __init__(self, compute_s, mesh=None):
        super().__init__()
        torch.manual_seed(0)
        self.sleep, self.gate = Sleep(compute_s), torch.nn.Linear(WIDTH, WIDTH)
        experts = torch.randn(2, WIDTH, WIDTH) / 8
        if mesh is None:
            self.experts = torch.nn.Parameter(experts[dist.get_rank()].clone())
        else:
            from torch.distributed.tensor import Shard, distribute_tensor

            self.experts = torch.nn.Parameter(distribute_tensor(experts, mesh, [Shard(0)]))

    def forward(self, x):
        expert = self.experts.to_local()[0] if hasattr(self.experts, "to_local") else self.experts
        return self.exchanged(self.exchanged(self.gate(self.sleep(x))) @ expert)

    def exchanged(self, tokens):
        import torch.distributed._functional_collectives as functional
        import torch.distributed.nn.functional as differentiable

        if hasattr(self.experts, "to_local"):
            halves = [BATCH // 2] * 2
            group = self.experts.device_mesh.get_group()
            return functional.all_to_all_single_autograd(tokens, halves, halves, group)
        return differentiable.all_to_all_single(torch.empty_like(tokens), tokens.contiguous())


@kind
def experts(compute_s):
    from torch.distributed.device_mesh import init_device_mesh

    model = Experts(compute_s, init_device_mesh("cpu", (2,), mesh_dim_names=("ep",)))
    train(model, lambda k: averaged(model.gate.parameters()))


@kind
def experts_by_hand(compute_s):
    model = Experts(compute_s)
    train(model, lambda k: averaged(model.gate.parameters()))


@kind
def side_thread(compute_s):
    model = network(compute_s)

    def exchange(k):
        thread = threading.Thread(target=averaged, args=(list(model.parameters()),))
        thread.start()
        thread.join()

    train(model, exchange)


@kind
def polled(compute_s):
    model = network(compute_s)

    def exchange(k):
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        while not all(work.is_completed() for work in works):
            time.sleep(1e-4)

    train(model, exchange)


@kind
def waits_in_the_next_step(compute_s):
    model, under_way = network(compute_s), []

    def exchange(k):
        averaged(model.parameters())
        if under_way:
            under_way.pop().wait()
        under_way.append(dist.all_reduce(torch.ones(1), async_op=True))

    train(model, exchange)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--late", type=float, default=0.0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    KINDS[args.kind](COMPUTE_S + (args.late if dist.get_rank() == 1 else 0.0))


if __name__ == "__main__":
    main()
