# Ran on commit 018eab6 (2026-11-19), and with TREE=../then on e229d59
"""What does watching one communication cost the process itself? python per_communication.py

A process group whose operations come back at once and do nothing (torch's own `fake` backend), given a count as gloo has one. Blocks
of 200 all-reduces and their waits take turns, bare (every patch of the agent taken out) and watched; of three blocks of a kind
the shortest counts, per round; the figure is the median over 60 rounds. So it is the agent's own code with warm caches, and neither
the network nor what the caches lose to gloo's threads.
"""

import functools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(os.environ.get("TREE", ".")) / "benchmarks"))
order = {"dir": tempfile.mkdtemp(), "steps": 10**9, "warmup": 5, "profile": 0, "end": False, "workers": 2}
os.environ["PACELINE_TRIAL"] = json.dumps(order)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch._C._distributed_c10d import ProcessGroup  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

try:
    from paired import Switch  # noqa: E402
except ImportError:
    from overhead import Switch  # noqa: E402  # before this commit

COUNT, ROUNDS = 200, 60
counted = 0
original = ProcessGroup.allreduce


@functools.wraps(original)
def allreduce(group, *args, **kwargs):
    global counted
    counted += 1
    return original(group, *args, **kwargs)


ProcessGroup.allreduce = allreduce
ProcessGroup._get_sequence_number_for_group = lambda group: counted
torch.set_num_threads(1)
switch = Switch()
dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
seen, part = switch.agent.seen, torch.ones(1024)


def block(asynchronous):
    begun = perf_counter()
    if asynchronous:
        for handle in [dist.all_reduce(part, async_op=True) for _ in range(COUNT)]:
            handle.wait()
    else:
        for _ in range(COUNT):
            dist.all_reduce(part)
    return (perf_counter() - begun) / COUNT


def watched(asynchronous):
    seen.graphs._kept = 0
    seen.open(True)
    spent = block(asynchronous)
    begun = perf_counter()
    seen.close(0.0)
    return spent + (perf_counter() - begun) / COUNT


for asynchronous in (True, False):
    bare, added = [], []
    for _ in range(ROUNDS):
        switch.off()
        seen.on = False
        bare.append(min(block(asynchronous) for _ in range(3)))
        switch.on()
        added.append(min(watched(asynchronous) for _ in range(3)) - bare[-1])
    quarters = statistics.quantiles(added, n=4)
    kind = "asynchronous" if asynchronous else "blocking"
    print(json.dumps({"kind": kind, "bare_us": 1e6 * statistics.median(bare), "added_us": 1e6 * quarters[1],
                      "quartiles_us": [1e6 * quarters[0], 1e6 * quarters[2]], "problems": switch.agent.recorder.problems}))
sys.stdout.flush()
os._exit(0)
