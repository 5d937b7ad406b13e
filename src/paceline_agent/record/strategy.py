"""How this worker's network is spread over workers: what wraps it, what its parameters are, which groups it has.

    names       ddp, fsdp1, fsdp2, hsdp, zero1..3, deepspeed, horovod, tp, sp, ep, pp; hand-written where none of them
                is and something is sent, none where nothing is
    replica     the workers that this one holds one copy of the network together with, itself among them: tensors and
                layers are spread over them, not the batch (of experts each worker has its own, and a batch: no replica)
    asked       what the environment asked for (accelerate launch), whether or not the script got it

Read when the first step has ended, while the groups live. `tp`, `sp`, `ep` and `hand-written` follow from what was
communicated.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, Optional

_FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"
_FSDP2 = "torch.distributed.fsdp._fully_shard._fully_shard", "FSDPModule"
_REPLICATE = "torch.distributed._composable.replicate_with_fsdp", "ReplicateModule"
_STAGE = "torch.distributed.pipelining.stage", "_PipelineStageBase"
_ZERO = "torch.distributed.optim.zero_redundancy_optimizer", "ZeroRedundancyOptimizer"
_DEEPSPEED = "deepspeed.runtime.engine", "DeepSpeedEngine"
_SHARDED = ("fsdp1", "fsdp2", "hsdp", "zero3", "deepspeed")
_WHOLE = {
    "all_reduce",
    "all_gather",
    "reduce_scatter",
}  # what tensors that are spread over workers need in forward
_ACCELERATE = {"ACCELERATE_USE_FSDP": "fsdp", "ACCELERATE_USE_DEEPSPEED": "deepspeed"}


class Strategy:
    """What was found."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._tensor_groups: list[list[int]] = []
        self._stages: list[list[int]] = []

    def meet(self, modules: list[Any], optimizer: Any, *, ddp: bool, horovod: bool) -> None:
        """Step 1 has ended."""
        data_groups = self._wrappers(modules, optimizer, ddp=ddp)
        if horovod:
            self.names.append("horovod")
        self._tensor_groups = _tensor_groups(optimizer, modules, besides=data_groups)
        self._stages = _stage_groups() if _known(_STAGE) else []

    @property
    def sharded(self) -> bool:
        """Whether the parameters here are a part of the network by design."""
        return any(name in _SHARDED for name in self.names)

    def fields(self, shapes: list[dict[str, Any]]) -> dict[str, Any]:
        """What the manifest says, given what was communicated."""
        rows = [
            (row[0], shape["groups"][row[1]], row[5]) for shape in shapes for row in shape["communications"]
        ]
        forward = {(op, tuple(ranks)) for op, ranks, phase in rows if phase == "forward"}
        experts = [ranks for ranks in self._tensor_groups if _exchanges_tokens(forward, ranks)]
        tensors = [ranks for ranks in self._tensor_groups if ranks not in experts]
        names = list(self.names)
        if tensors:
            names.append("tp")
        if any(("reduce_scatter", tuple(ranks)) in forward for ranks in tensors):
            names.append("sp")
        if experts:
            names.append("ep")
        if self._stages:
            names.append("pp")
        together = sorted({rank for ranks in (*tensors, *self._stages) for rank in ranks})
        return {
            "strategy": names or (["hand-written"] if rows else ["none"]),
            "strategy_asked": asked(),
            "replica": together or None,
        }

    def _wrappers(self, modules: list[Any], optimizer: Any, *, ddp: bool) -> list[list[int]]:
        """Note what wraps the network; the groups over which these wrappers spread the batch."""
        groups: list[list[int]] = []
        engine = next((m for m in modules if _is(m, _DEEPSPEED)), None)
        if engine is not None:
            self.names += ["deepspeed", *_zero_stage(engine)]
        if any(_is(m, _FSDP1) for m in modules):
            hybrid = any(
                "HYBRID" in str(getattr(m, "sharding_strategy", "")) for m in modules if _is(m, _FSDP1)
            )
            self.names.append("hsdp" if hybrid else "fsdp1")
        sharding = [m for m in modules if _is(m, _FSDP2)]
        if sharding:
            groups = _fsdp_groups(sharding)
            replicated = all(_is(m, _REPLICATE) for m in sharding)
            hybrid = any(name == "HSDPMeshInfo" for name in map(_mesh_kind, sharding))
            self.names.append("ddp" if replicated else "hsdp" if hybrid else "fsdp2")
        if _is(optimizer, _ZERO):
            self.names.append("zero1")
        elif ddp:
            self.names.append("ddp")
        return groups


def _exchanges_tokens(forward: set[tuple[str, tuple[int, ...]]], ranks: list[int]) -> bool:
    """Whether in forward every member sends each other what belongs there, and none gets the whole: experts that are
    spread over these workers, not tensors."""
    operations = {op for op, members in forward if members == tuple(ranks)}
    return "all_to_all" in operations and not operations & _WHOLE


def asked() -> list[str]:
    """What `accelerate launch` was configured for: a script under another launcher gets none of it."""
    return [
        name
        for variable, name in _ACCELERATE.items()
        if os.environ.get(variable, "").lower() in ("1", "true", "yes", "on")
    ]


def _known(named: tuple[str, str]) -> Optional[type]:
    """The class of this name, where the script has imported it."""
    found = getattr(sys.modules.get(named[0]), named[1], None)
    return found if isinstance(found, type) else None


def _is(thing: Any, named: tuple[str, str]) -> bool:
    kind = _known(named)
    return kind is not None and issubclass(type(thing), kind)


def _zero_stage(engine: Any) -> list[str]:
    try:
        stage = int(engine.zero_optimization_stage())
    except Exception:
        return []
    return [f"zero{stage}"] if stage else []


def _mesh_info(module: Any) -> Any:
    try:
        return module._get_fsdp_state()._fsdp_param_group.mesh_info
    except Exception:
        return None


def _mesh_kind(module: Any) -> str:
    return type(_mesh_info(module)).__name__


def _fsdp_groups(modules: list[Any]) -> list[list[int]]:
    """The groups over which FSDP spreads the batch."""
    found: list[list[int]] = []
    for info in map(_mesh_info, modules):
        for name in ("shard_process_group", "replicate_process_group"):
            ranks = _ranks(getattr(info, name, None))
            if ranks and ranks not in found:
                found.append(ranks)
    return found


def _tensor_groups(optimizer: Any, modules: list[Any], *, besides: list[list[int]]) -> list[list[int]]:
    """The groups that hold parts of one tensor, other than those over which the batch is spread."""
    found: list[list[int]] = []
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter in (*trained, *(p for module in modules for p in module._parameters.values())):
        mesh: Any = getattr(parameter, "device_mesh", None)
        for dimension, placement in enumerate(parameter.placements if mesh is not None else ()):
            if not placement.is_shard():
                continue
            ranks = _ranks(mesh.get_group(dimension))
            if len(ranks) > 1 and ranks not in found and ranks not in besides:
                found.append(ranks)
    return found


def _stage_groups() -> list[list[int]]:
    """The groups of the pipeline's stages that live here."""
    found: list[list[int]] = []
    for stage in [thing for thing in gc.get_objects() if _is(thing, _STAGE)]:
        ranks = _ranks(stage.group) if stage.group is not None else _everybody()
        if len(ranks) > 1 and ranks not in found:
            found.append(ranks)
    return found


def _ranks(group: Any) -> list[int]:
    import torch.distributed as dist

    try:
        return sorted(int(rank) for rank in dist.get_process_group_ranks(group))
    except Exception:
        return []


def _everybody() -> list[int]:
    import torch.distributed as dist

    return list(range(dist.get_world_size()))
