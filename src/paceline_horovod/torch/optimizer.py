"""DistributedOptimizer: the optimizer it is given, whose gradients are those of all ranks.

It is an instance of a subclass of the given optimizer's class and shares its state and parameter groups, so schedulers,
checkpoints and isinstance see what they know.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from paceline_horovod.common.process_sets import ProcessSet, global_process_set
from paceline_horovod.torch.adasum_optimizer import AdasumOptimizer
from paceline_horovod.torch.buckets import Buckets, Reduction
from paceline_horovod.torch.compression import Compression, Compressor
from paceline_horovod.torch.ops import Adasum, Average, Op

__all__ = ["DistributedOptimizer"]

_numbers = itertools.count()
Named = Iterable[tuple[str, torch.nn.Parameter]]


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Named | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: Op = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.nn.Parameter]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """An optimizer that reduces the gradients over all ranks while backward computes them.

    named_parameters          names for error messages and traces; must name every parameter of the optimizer, once
    backward_passes_per_step  how many backward passes add up before the gradients are reduced
    gradient_predivide_factor f splits an average: gradients × 1/f, sum, × f/size
    groups                    a number of buckets, or lists of parameters that travel together
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(
            f"gradient_predivide_factor={gradient_predivide_factor} splits an average, but op is {Op(op).name}"
        )
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step must be > 0, not {backward_passes_per_step}")
    if num_groups:
        warnings.warn("`num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    named = _named(optimizer, named_parameters)
    together = _groups(groups, [parameter for _, parameter in named])
    base = AdasumOptimizer if op == Adasum and process_set.size() > 1 else ReducingOptimizer
    wrapped_class: Any = type(
        type(optimizer).__name__, (base, type(optimizer)), {"__module__": base.__module__}
    )
    if (
        process_set.included()
        and process_set.size() > 1
        and not isinstance(optimizer, torch.optim.SparseAdam)
    ):
        for _, parameter in named:  # as Horovod: scripts read gradients before the first backward
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    wrapped: Any = wrapped_class.__new__(wrapped_class)
    wrapped.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k not in ("step", "zero_grad")})
    reduction = Reduction(Op(op), compression, gradient_predivide_factor, sparse_as_dense, process_set)
    wrapped._begin(named, reduction, backward_passes_per_step, together)
    return wrapped


class ReducingOptimizer(torch.optim.Optimizer):
    """What DistributedOptimizer adds in front of the optimizer's own methods."""

    _buckets: list[Buckets]
    _synchronized: bool
    _should_synchronize: bool

    def _begin(
        self,
        named: list[tuple[str, torch.nn.Parameter]],
        reduction: Reduction,
        passes: int,
        groups: Sequence[Sequence[torch.nn.Parameter]],
    ) -> None:
        self._reduction = reduction
        self._passes = passes
        self._synchronized = False
        self._should_synchronize = True
        self._named = named
        self._prefix = f"DistributedOptimizer.{next(_numbers)}"
        self._buckets = []
        self._reduced: set[int] = set()  # ids of the parameters that are in a bucket
        self._take_in(groups)

    def _take_in(self, groups: Sequence[Sequence[torch.nn.Parameter]] = ()) -> None:
        """Buckets for parameters that are trained and have none: all at first, later those unfrozen or added."""
        how = self._reduction
        if not (how.process_set.included() and how.process_set.size() > 1):
            return
        new = [(name, p) for name, p in self._named if p.requires_grad and id(p) not in self._reduced]
        if new:
            prefix = f"{self._prefix}.{len(self._buckets)}"
            self._buckets.append(Buckets(new, how, prefix=prefix, passes=self._passes, groups=groups))
            self._reduced.update(id(parameter) for _, parameter in new)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        known = len(self._named)
        added = self.param_groups[-1]["params"]
        self._named = [*self._named, *((f"added.{known + i}", p) for i, p in enumerate(added))]
        self._take_in()

    @property
    def _parameter_names(self) -> dict[torch.nn.Parameter, str]:
        """Horovod's own attribute, which libraries on top of it read."""
        return {parameter: name for name, parameter in self._named}

    @property
    def backward_passes_per_step(self) -> int:
        return self._passes

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before a step, from the next step on."""
        self._passes = passes
        for buckets in self._buckets:
            buckets.set_passes(passes)

    def synchronize(self) -> None:
        """Wait for the gradients of all ranks: for clipping, say, before step inside skip_synchronize()."""
        self._take_in()
        for buckets in self._buckets:
            buckets.finish()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """step() inside this block does not synchronize: synchronize() was called by hand."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Synchronize, then the optimizer's own step. A closure's gradients are synchronized after each call of it."""
        if self._should_synchronize and closure is None:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(): the gradients are reduced twice",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        if closure is None:
            return super().step()

        def synchronized() -> Any:
            loss = closure()
            self.synchronize()
            self._synchronized = False
            return loss

        return super().step(synchronized if self._should_synchronize else closure)

    step.hooked = True  # type: ignore[attr-defined]  # torch's own step hooks run once, in the optimizer's step

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if any(buckets.in_flight() for buckets in self._buckets):
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(): the gradients are on their way to the other ranks"
            )
        super().zero_grad(*args, **kwargs)


def _named(optimizer: torch.optim.Optimizer, given: Named | None) -> list[tuple[str, torch.nn.Parameter]]:
    """Every parameter of the optimizer with its name; the names given are checked."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if given is None:
        return [(f"parameter.{i}", parameter) for i, parameter in enumerate(parameters)]
    named = list(given)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually model.named_parameters()"
        )
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"parameter names in named_parameters must be unique; twice: {', '.join(twice)}")
    ids = {id(parameter) for _, parameter in named}
    unnamed = sum(id(parameter) not in ids for parameter in parameters)
    if unnamed:
        raise ValueError(
            f"named_parameters was specified, but {unnamed} of the optimizer's {len(parameters)} parameters "
            "were not named: pass the named_parameters() of every module in it"
        )
    own = {id(parameter) for parameter in parameters}
    return [(name, parameter) for name, parameter in named if id(parameter) in own]


def _groups(groups: Any, parameters: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    if groups is None or groups == 0:
        return []
    trained = [p for p in parameters if p.requires_grad]
    if isinstance(groups, int) and groups > 0:
        length = -(-len(trained) // min(groups, len(trained))) if trained else 1
        return [trained[i : i + length] for i in range(0, len(trained), length)]
    if isinstance(groups, (list, tuple)):
        lists = [[p for p in group if p.requires_grad] for group in groups]
        ids = [id(p) for group in lists for p in group]
        if len(ids) != len(set(ids)):
            raise ValueError("groups: a parameter is in two groups")
        return lists
    raise ValueError(f"groups is a number of groups or lists of parameters, not {groups!r}")
