"""How each launcher is told to start so many workers, each the agent in front of the script.

    torchrun     -m torch.distributed.run --nproc-per-node N … -m paceline_agent SCRIPT ARGS
    accelerate   -m accelerate.commands.launch [--config_file F] --num_processes N … -m paceline_agent SCRIPT ARGS
    deepspeed    -m deepspeed.launcher.runner --num_gpus N … --module paceline_agent SCRIPT ARGS [--deepspeed_config F]
    script       -m paceline_agent SCRIPT ARGS                       the script starts its own workers

A worker count in a configuration is overruled; how many workers took part is counted afterwards.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from paceline.plan.trials import with_flag

__all__ = ["MODULES", "started"]

MODULES = {"accelerate": "accelerate.commands.launch", "deepspeed": "deepspeed.launcher.runner"}
_PORTS = range(20_000, 32_000)  # from which the kernel gives none away


def started(
    launcher: str, agent: Sequence[str], *, workers: int, config: str | None, distributed: bool, tag: str
) -> list[str]:
    """The words after PYTHON. `agent`: `-m paceline_agent SCRIPT ARGS`; `distributed`: the configuration says how."""
    port = str(_PORTS[zlib.crc32(tag.encode()) % len(_PORTS)])
    if launcher == "accelerate":
        told = (
            ["--config_file", config]
            if config is not None
            else ["--mixed_precision", "no", "--dynamo_backend", "no"]
        )
        count = ["--num_processes", str(workers), "--num_machines", "1", "--main_process_port", port]
        many = [] if distributed or workers == 1 else ["--multi_gpu"]
        return ["-m", MODULES[launcher], *told, *count, *many, *agent]
    words = ["-m", MODULES[launcher], "--num_gpus", str(workers), "--master_port", port]
    script = agent if config is None else with_flag(agent, "--deepspeed_config", config)
    return [*words, "--module", *script[1:]]
