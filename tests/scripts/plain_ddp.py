"""A plain DDP training, as thousands of people write it. Knows nothing of Paceline."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

MATRIX = torch.randn(256, 256)


class Noise(Dataset):
    def __init__(self, size, width, delay):
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(size, width, generator=generator)
        self.targets = torch.randn(size, 1, generator=generator)
        self.delay = delay

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]

    def __getitems__(self, indices):
        if self.delay:
            time.sleep(self.delay)
        return [(self.inputs[i], self.targets[i]) for i in indices]


class Delay(torch.autograd.Function):
    """Sleeps in backward, on one rank only."""

    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.seconds)
        return grad, None


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument(
        "--compute", type=float, default=0.0, help="seconds of sleep in forward: stands for computation"
    )
    parser.add_argument("--matmuls", type=int, default=0, help="matrix products in forward: real computation")
    parser.add_argument(
        "--normed", action="store_true", help="normalise over the batch: a network with buffers"
    )
    parser.add_argument("--late", type=float, default=0.0, help="seconds of sleep in the backward of rank 1")
    parser.add_argument(
        "--slow-data", type=float, default=0.0, help="seconds of sleep per batch in the data set"
    )
    parser.add_argument(
        "--slow-exchange", type=float, default=0.0, help="seconds that a comm hook delays each bucket"
    )
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--loader-workers", type=int, default=0)
    parser.add_argument("--loader-context", default=None, help="fork or spawn")
    parser.add_argument("--steps", type=int, default=0, help="stop after so many; 0: never")
    parser.add_argument(
        "--same-data", action="store_true", help="no DistributedSampler: every worker reads all"
    )
    parser.add_argument("--save", default="")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (the first device, shared)")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args(argv)

    dist.init_process_group(args.backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_default_device(args.device)
    network = torch.nn.Sequential(
        torch.nn.Linear(args.width, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, 1)
    )
    if args.normed:
        network.insert(1, torch.nn.BatchNorm1d(args.width))
    torch.set_default_device("cpu")
    ddp = DistributedDataParallel(network)
    forward = torch.compile(ddp) if args.compile else ddp
    if args.slow_exchange:
        ddp.register_comm_hook(args.slow_exchange, delayed_hook)
    if args.optimizer == "adam":
        optimizer = torch.optim.Adam(ddp.parameters(), lr=args.lr)
    else:
        optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr, momentum=0.9)
    data = Noise(4096, args.width, args.slow_data)
    readers = (1, 0) if args.same_data else (world, rank)
    sampler = DistributedSampler(data, num_replicas=readers[0], rank=readers[1])
    loader = DataLoader(
        data,
        batch_size=args.batch_size,
        sampler=sampler,
        num_workers=args.loader_workers,
        multiprocessing_context=args.loader_context,
    )
    done = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for index, (inputs, targets) in enumerate(loader):
            last = (index + 1) % args.accumulate == 0
            if last:
                loss = step(forward, inputs, targets, args, rank)
            else:
                with ddp.no_sync():
                    loss = step(forward, inputs, targets, args, rank)
                continue
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if args.steps and done >= args.steps:
                if args.save:
                    torch.save(network.state_dict(), os.path.join(args.save, f"weights-{rank}.pt"))
                dist.destroy_process_group()
                return
    print("loss", float(loss))
    dist.destroy_process_group()


def step(ddp, inputs, targets, args, rank):
    inputs, targets = inputs.to(args.device), targets.to(args.device)
    if args.compute:
        time.sleep(args.compute)
    for _ in range(args.matmuls):
        torch.mm(MATRIX, MATRIX)
    outputs = ddp(inputs)
    if args.late and rank == 1:
        outputs = Delay.apply(outputs, args.late)
    loss = torch.nn.functional.mse_loss(outputs, targets)
    loss.backward()
    return loss


def delayed_hook(seconds, bucket):
    time.sleep(seconds)
    tensor = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0])


if __name__ == "__main__":
    main()
