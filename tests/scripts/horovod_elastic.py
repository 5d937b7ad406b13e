"""Elastic training that loses a worker once: python horovod_elastic.py FOLDER, under torchrun --max-restarts 1."""

import os
import signal
import sys
from pathlib import Path

import horovod.torch as hvd
import torch

folder = Path(sys.argv[1])
hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
data = list(range(24))
sampler = hvd.elastic.ElasticSampler(data, shuffle=False)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, steps=0)
state.register_reset_callbacks([lambda: print("reset", flush=True)])
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])


@hvd.elastic.run
def train(state):
    while state.epoch < 2:
        for number, batch in enumerate(
            torch.utils.data.DataLoader(data, batch_size=4, sampler=state.sampler)
        ):
            if restarts == 0 and state.epoch == 1 and number == 1 and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            model(batch.float()[:, None]).square().mean().backward()
            optimizer.step()
            state.sampler.record_batch(number, 4)
            state.steps += 1
            with open(folder / f"seen-{hvd.rank()}.txt", "a") as file:
                file.write(f"{restarts} {state.epoch} {' '.join(map(str, batch.tolist()))}\n")
            state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(state)
weights = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
assert torch.equal(weights[0], weights[1])
if hvd.rank() == 0:
    print("steps", state.steps, flush=True)
