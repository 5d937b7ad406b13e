"""One small training that feeds itself in many ways: batches.py KIND. Knows nothing of Paceline."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH, BATCH, WORDS, LENGTH = 16, 8, 50, 12
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Data(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index))


class Language(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids, labels):
        return torch.nn.functional.cross_entropy(
            self.out(self.words(input_ids)).flatten(0, 1), labels.flatten()
        )


def network():
    torch.manual_seed(0)
    return DistributedDataParallel(torch.nn.Linear(WIDTH, WIDTH))


def for_ever(loader):
    while True:
        yield from loader


def stepping(model, losses):
    """A step for every list of losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for parts in losses:
        for loss in parts:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def loaded():
    data = Data()
    return for_ever(DataLoader(data, BATCH, sampler=DistributedSampler(data)))


def plain():
    model = network()
    stepping(model, ([model(x).square().mean()] for x in loaded()))


def accumulated():
    """Three batches of the loader in a step."""
    model, batches = network(), loaded()

    def step():
        while True:
            yield (model(next(batches)).square().mean() for _ in range(3))

    stepping(model, step())


def divided():
    """Accumulates four batches of its own making, divided among the workers: no loader."""
    model = network()

    def step():
        while True:
            yield (model(torch.randn(BATCH, WIDTH) + RANK).square().mean() for _ in range(4 // WORLD))

    stepping(model, step())


def parted():
    """Every worker loads the whole batch and keeps its part."""
    model = network()
    batches = for_ever(DataLoader(Data(), BATCH))
    stepping(model, ([model(x.chunk(WORLD)[RANK]).square().mean()] for x in batches))


def views():
    """Two views of every sample, in one forward."""
    model = network()
    stepping(model, ([model(torch.cat([x, -x])).square().mean()] for x in loaded()))


def dispatched():
    """Accelerate: worker 0 loads, and sends every worker its part."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    told = DataLoaderConfiguration(dispatch_batches=True, split_batches=True)
    accelerator = Accelerator(cpu=True, dataloader_config=told)
    model = torch.nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Data(), BATCH))
    while True:
        for x in loader:
            accelerator.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()


def ids(*shape):
    """A language model over ids that it makes itself."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Language())
    torch.manual_seed(RANK)

    def step():
        while True:
            yield [model(input_ids=(x := torch.randint(WORDS, shape)), labels=x)]

    stepping(model, step())


def padded():
    ids(BATCH, LENGTH)


def packed():
    ids(1, BATCH * LENGTH)


def inner():
    """The module that holds everything is never called: what lies inside is."""

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = torch.nn.Linear(WIDTH, WIDTH)

        def training_step(self, x):
            return self.network(x).square().mean()

    holder = Holder()
    stepping(holder, ([holder.training_step(torch.randn(BATCH, WIDTH))] for _ in iter(int, 1)))


if __name__ == "__main__":
    torch.manual_seed(RANK)
    if sys.argv[1] not in ("dispatched", "inner"):
        dist.init_process_group("gloo")
    globals()[sys.argv[1]]()
