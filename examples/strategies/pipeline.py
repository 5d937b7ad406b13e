"""Pipeline: each worker holds some of the layers, and passes on what it computes of each part of the batch.

paceline study --workers 1,2 --scaling strong examples/strategies/pipeline.py
"""

import torch
import torch.distributed as dist
from network import LAYERS, batches, layers, loss_of, start
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

PARTS = 4

device = start()
rank, world = dist.get_rank(), dist.get_world_size()
mine = layers()[rank * LAYERS // world : (rank + 1) * LAYERS // world].to(device)
stage = PipelineStage(mine, rank, world, torch.device(device))
schedule = ScheduleGPipe(stage, PARTS, loss_fn=loss_of)
optimizer = torch.optim.AdamW(mine.parameters(), lr=1e-3)
for inputs in batches(device):
    given = (inputs,) if rank == 0 else ()
    wanted = {"target": inputs} if rank == world - 1 else {}
    schedule.step(*given, **wanted)
    optimizer.step()
    optimizer.zero_grad()
