"""A training that ends while a thread of gloo still has Python objects of its last exchange to drop."""

import time

import torch
import torch._dynamo  # before the group: else torch 2.13 keeps every group to the end of the process
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class DroppedLate:
    def __del__(self):
        time.sleep(0.5)


def late_hook(_state, bucket):
    kept = DroppedLate()
    exchanged = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return exchanged.then(lambda done: (done.value()[0], kept)[0])


def main():
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(torch.nn.Linear(8, 8))
    ddp.register_comm_hook(None, late_hook)
    ddp(torch.ones(2, 8)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
