"""What the overhead benchmarks share: one process group of two gloo workers trains without end, and blocks of its steps
take turns, bare and watched.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def in_two_workers(script: str, *arguments: str) -> None:
    """Run this script again as two workers, under an agent that measures without end."""
    with tempfile.TemporaryDirectory() as folder:
        order = {"dir": folder, "steps": 10**9, "warmup": 5, "profile": 0, "end": False, "workers": 2}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PACELINE_TRIAL": json.dumps(order)}
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        subprocess.run([*torchrun, script, *arguments], env=environment, check=True)


def keep(out: Path, result: object) -> None:
    """The machine and the verdict; the verdict is printed too."""
    machine = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }
    (out / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def interval(differences: list[float]) -> tuple[float, float]:
    """Bootstrap 90 % interval of the median."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(differences, k=len(differences))) for _ in range(2000))
    return medians[100], medians[1900]


class Switch:
    """Takes every patch of the agent out and puts it back: bare means bare torch, not an agent that idles."""

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist
        import torch.optim.optimizer as optimizers
        from torch._C._distributed_c10d import Backend, ProcessGroup, Work
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        from paceline_agent.enter import entry

        places = [torch.autograd, dist, DistributedDataParallel, _BaseDataLoaderIter]
        places += [Backend, ProcessGroup, Work, torch._C.Future]
        before = [dict(vars(place)) for place in places]
        agent = entry.start()
        assert agent is not None
        self.agent = agent
        self._patches = [
            (place, name, old[name], new)
            for place, old in zip(places, before, strict=True)
            for name, new in dict(vars(place)).items()
            if name in old and old[name] is not new
        ]
        assert len(self._patches) > 10
        self._hooks = [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
        self._kept = [dict(hooks) for hooks in self._hooks]

    def on(self) -> None:
        for place, name, _, new in self._patches:
            setattr(place, name, new)
        for hooks, kept in zip(self._hooks, self._kept, strict=True):
            hooks.update(kept)

    def off(self) -> None:
        for place, name, old, _ in self._patches:
            setattr(place, name, old)
        for hooks in self._hooks:
            hooks.clear()
