"""Plain trainings one after the other in the same processes: several_ddp.py JSON, a list of arguments for each."""

import json
import sys
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
import plain_ddp

if __name__ == "__main__":
    dist.init_process_group("gloo")
    dist.init_process_group = dist.destroy_process_group = lambda *args: None  # the trainings share one group
    for args in json.loads(sys.argv[1]):
        plain_ddp.main(args)
