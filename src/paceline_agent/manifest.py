"""What this worker was: device, versions, environment, network, memory, and checks that only it can make."""

from __future__ import annotations

import contextlib
import math
import os
from time import perf_counter
from typing import TYPE_CHECKING, Any, Optional

from paceline_agent import FORMAT
from paceline_agent.record import host
from paceline_agent.watch import horovod

if TYPE_CHECKING:
    from paceline_agent.agent import Agent


def manifest(agent: Agent) -> dict[str, Any]:
    """Everything after the trial: this may take milliseconds, no window is open any more."""
    import torch

    ddp = agent.ddp.largest() if agent.ddp.ddps else None
    parameters = _parameters(agent.optimizer)
    device = parameters[0].device if parameters else torch.device("cpu")
    on_cuda = device.type == "cuda"
    timeline: Optional[dict[str, Any]] = None
    with contextlib.suppress(Exception):
        timeline = agent.timeline.result()
    return {
        "format": FORMAT,
        "rank": agent.rank,
        "world": agent.world,
        "local_rank": int(os.environ.get("LOCAL_RANK") or 0),
        **host.identity(),
        "torch": torch.__version__,
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if on_cuda else cpu_name(),
        "device_id": str(getattr(torch.cuda.get_device_properties(device), "uuid", "")) if on_cuda else None,
        "devices": torch.cuda.device_count() if on_cuda else None,
        "backend": _backend(),
        "threads": torch.get_num_threads(),
        "start_s": agent.started_s,
        "optimizer": _optimizer(agent.optimizer),
        "optimizers": agent.recorder.cycle.most,
        "parameters": sum(p.numel() for p in parameters),
        "gradient_bytes": sum(p.numel() * p.element_size() for p in parameters if p.requires_grad),
        **agent.strategy.fields(agent.seen.graphs.records()),
        "gradients_dropped": agent.network.dropped,
        "ddp": ddp is not None,
        "horovod": horovod.in_use(),
        "ddp_flags": _ddp_flags(ddp, agent.ddp.user_hook),
        "sync_batch_norm": _sync_batch_norms(ddp),
        "captured": agent.graphs.seen,
        "loader": agent.loader_info or None,
        "flops": agent.flops.counted,
        "flops_unknown": agent.flops.unknown,
        "timeline": timeline,
        "copy_back_s": _copy_back_s(ddp) if not on_cuda else None,
        "peak_memory_bytes": host.peak_memory_bytes(),
        "peak_device_bytes": torch.cuda.max_memory_allocated(device) if on_cuda else None,
        "weights_checksum": None if agent.strategy.sharded else _checksum(_weights(agent)),
        "batch_fingerprint": agent.fingerprints,
        "entered_fingerprint": agent.network.fingerprints,
        "window": _window(agent),
        "problems": agent.recorder.problems,
    }


def _parameters(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    return [p for group in optimizer.param_groups for p in group["params"] if hasattr(p, "numel")]


def _weights(agent: Agent) -> list[Any]:
    """What should be equal on all workers: of the network, for an optimizer may hold one worker's share alone."""
    network = agent.network.outermost
    trained = [] if network is None else [p for p in network.parameters() if p.requires_grad]
    return trained or _parameters(agent.optimizer)


def _optimizer(optimizer: Any) -> Optional[dict[str, Any]]:
    if optimizer is None or not optimizer.param_groups:
        return None
    group = optimizer.param_groups[0]
    numbers = {
        k: float(v) for k, v in group.items() if isinstance(v, (int, float)) and not isinstance(v, bool)
    }
    return {"name": type(optimizer).__name__, **numbers}


def _backend() -> Optional[str]:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return str(dist.get_backend())
    return None


def _ddp_flags(ddp: Any, user_hook: Optional[str]) -> Optional[dict[str, Any]]:
    if ddp is None:
        return None
    names = ("find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers")
    flags: dict[str, Any] = {name: bool(getattr(ddp, name, False)) for name in names}
    flags["bucket_cap_bytes"] = getattr(ddp, "bucket_bytes_cap", None)
    flags["comm_hook"] = user_hook
    return flags


def _sync_batch_norms(ddp: Any) -> int:
    if ddp is None:
        return 0
    return sum(1 for module in ddp.modules() if type(module).__name__ == "SyncBatchNorm")


def _copy_back_s(ddp: Any) -> Optional[float]:
    """Seconds to copy the last bucket back into the gradients. DDP does this after the exchange, so it is part of
    the wait that no network could win back. Measured here, on buffers of the same size, after the trial."""
    if ddp is None or getattr(ddp, "gradient_as_bucket_view", False):
        return None
    import torch

    from paceline_agent.watch.timeline import bucket_parameters

    buckets = bucket_parameters(ddp)
    if not buckets:
        return None
    source, target = (torch.zeros(max(1, buckets[-1][0] // 4)) for _ in range(2))
    times = []
    for _ in range(4):
        begun = perf_counter()
        target.copy_(source)
        times.append(perf_counter() - begun)
    return min(times)


def _checksum(parameters: list[Any]) -> Optional[float]:
    """One number that is equal on all workers as long as their weights are. None for sharded weights."""
    import torch

    if not parameters or any(
        type(p).__name__ == "DTensor" or hasattr(p, "_local_tensor") for p in parameters
    ):
        return None
    total = 0.0
    with torch.no_grad():
        for index, parameter in enumerate(parameters):
            total += (1 + index % 7) * float(parameter.detach().double().sum())
    return total if math.isfinite(total) else None


def _window(agent: Agent) -> Optional[dict[str, Any]]:
    if len(agent.window) != 2:
        return None
    (begun, first, before), (ended, last, after) = agent.window

    def spent(name: str) -> Optional[float]:
        if before[name] is None or after[name] is None:
            return None
        return float(after[name]) - float(before[name])  # type: ignore[arg-type]

    return {
        "steps": last - first,
        "wall_s": ended - begun,
        "own_cpu_s": spent("own"),
        "host_busy_s": spent("busy"),
        "host_steal_s": spent("steal"),
    }


def cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "cpu"
