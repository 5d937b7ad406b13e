"""A training by hand whose communication goes wrong in step 8: hangs.py HOW. Knows nothing of Paceline."""

import os
import sys
import time

import torch
import torch.distributed as dist

WRONG = 8


def absent(rank, gradient, groups):
    """Worker 1 never comes to the all-reduce."""
    if rank == 1:
        time.sleep(3600)
    dist.all_reduce(gradient)


def mismatched(rank, gradient, groups):
    if rank == 1:
        dist.all_gather_into_tensor(torch.empty(2 * gradient.numel()), gradient)
    else:
        dist.all_reduce(gradient)


def subgroup(rank, gradient, groups):
    """Workers 1 and 2 have a group of their own, and worker 2 never comes to it; worker 0 waits for both."""
    if rank == 2:
        time.sleep(3600)
    if rank == 1:
        dist.reduce(gradient, 1, group=groups["late"])
    dist.all_reduce(gradient)


def message(rank, gradient, groups):
    if rank == 0:
        dist.recv(gradient, src=1)
    else:
        time.sleep(3600)


def destroyed(rank, gradient, groups):
    """A group that is no longer needed is given up in the middle of training."""
    dist.all_reduce(gradient)
    dist.destroy_process_group(groups.pop("late"))


def raises(rank, gradient, groups):
    """A collective that torch refuses: the script goes on without it."""
    try:
        dist.all_reduce("no tensor")
    except TypeError:
        groups["raised"] = True
    dist.all_reduce(gradient)


def dies(rank, gradient, groups):
    """A collective that torch refuses, and nobody catches it."""
    dist.all_reduce("no tensor" if rank == 1 else gradient)


def main():
    how, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    if how == "join" and os.environ["RANK"] == "1":
        time.sleep(3600)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = {"late": dist.new_group(list(range(1, world)))}
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for k in range(steps):
        weight.square().sum().backward()
        if k == WRONG:
            globals()[how](rank, weight.grad, groups)
        else:
            dist.all_reduce(weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.01)
    print("came to its end", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
