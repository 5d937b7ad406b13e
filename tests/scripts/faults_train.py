"""A plain DDP script that goes wrong on request: --fault NAME on worker --on at step --at."""

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def go_wrong(fault: str) -> None:
    if fault == "crash":
        raise RuntimeError("boom")
    if fault == "oom":
        raise torch.OutOfMemoryError("tried to allocate 2.00 TiB")
    if fault == "device-memory":
        torch.empty(2**50)
    if fault == "host-memory":
        raise MemoryError
    if fault == "hang":
        time.sleep(3600)
    if fault.startswith("held-by:"):
        while os.path.exists(fault.partition(":")[2]):
            time.sleep(0.05)
    if fault.startswith("kernel-memory:"):
        with open(fault.partition(":")[2], "w") as members:  # of a control group with little memory
            members.write(str(os.getpid()))
        kept = []
        while True:
            kept.append(bytearray(os.urandom(2**20)))
    if fault == "exit":
        sys.exit(7)
    if fault == "leave":
        sys.exit(0)
    if fault == "vanish":
        os._exit(0)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="none")
    parser.add_argument("--on", type=int, default=1)
    parser.add_argument("--at", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--echo", default="")
    options = parser.parse_args()
    print("echo:", options.echo, flush=True)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if options.fault == "never-steps":
        return
    torch.manual_seed(0)
    network = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(1, options.steps + 1):
        if step == options.at and rank == options.on:
            go_wrong(options.fault)
        loss = network(torch.ones(4, 8)).square().mean()
        if options.fault == "nan" and step >= options.at:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.01)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
