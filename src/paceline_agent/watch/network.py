"""The network that is trained: its living modules, which of them is called first, and what enters it in every step.

    step 1    ends: the modules are looked for among all living objects
    step 2    every module near the outermost one is listened to
    step 3 …  only the outermost of those that were called: one hook, some microseconds per forward

A script may never call the module that holds everything: Lightning on one device calls what lies inside of it. Nothing
below a compiled module is touched.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any, Optional

from paceline_agent.guard import guarded
from paceline_agent.watch.loader import batch_length, fingerprint, parts

if TYPE_CHECKING:
    from paceline_agent.agent import Agent

_DEEPEST = 3  # modules below the outermost one
_MOST = 200
_FINGERPRINTS = 3
_MOST_IDS_DIMENSIONS = 2


class Network:
    """Hooks on the modules of the network that the optimizer trains."""

    def __init__(self, agent: Agent) -> None:
        self.fingerprints: list[int] = []
        self._recorder = agent.recorder
        self._parents: dict[int, int] = {}  # of a module that is listened to: the one that holds it
        self._called: list[int] = []
        self._handles: dict[int, Any] = {}
        self._outermost: Any = None
        self._settled = False
        self._weight: Any = None
        self.dropped = False  # gradients, between two backwards of a step: they are used twice, not added up

    def meet(self, modules: list[Any], optimizer: Any) -> None:
        """Step 1 has ended."""
        outermost = outermost_of(modules, optimizer)
        if outermost is None:
            return
        self._outermost = weakref.ref(outermost)
        weight = next((p for p in outermost.parameters() if p.requires_grad), None)
        self._weight = None if weight is None else weakref.ref(weight)
        self._listen(outermost)
        level = [outermost]
        for _ in range(_DEEPEST):
            level = [self._below(child, parent) for parent in level for child in open_children(parent)]
            level = [child for child in level if child is not None]

    @property
    def outermost(self) -> Any:
        return None if self._outermost is None else self._outermost()

    def step_ended(self) -> None:
        """Keep the hook of the outermost module that was called in this step, and no other."""
        if self._settled or not self._handles:
            return
        self._settled = True
        kept = next((name for name in self._called if not self._is_inside(name)), None)
        for name, handle in self._handles.items():
            if name != kept:
                handle.remove()
        self._recorder.network_seen = kept is not None

    def close(self) -> None:
        """The measured steps are over: the network is as it was."""
        for handle in self._handles.values():
            handle.remove()
        self._handles, self._recorder.network_seen = {}, False

    def _below(self, child: Any, parent: Any) -> Any:
        if id(child) in self._handles or len(self._handles) >= _MOST:
            return None
        self._parents[id(child)] = id(parent)
        self._listen(child)
        return child

    def _listen(self, module: Any) -> None:
        import torch

        name, entered = id(module), guarded(self._recorder, self._entered)
        hook = Hook(name, entered, torch.compiler.is_compiling, torch.is_grad_enabled)
        try:
            self._handles[name] = module.register_forward_pre_hook(hook, with_kwargs=True)
        except Exception:
            return  # a scripted module takes no hooks

    def _is_inside(self, name: int) -> bool:
        """Whether a module that holds this one was called too."""
        parent = self._parents.get(name)
        return parent is not None and (parent in self._called or self._is_inside(parent))

    def _entered(self, name: int, args: Any, kwargs: Any) -> None:
        if not self._settled:
            if name not in self._called:
                self._called.append(name)
            return
        weight = self._weight() if self._weight is not None and self._recorder.backwards else None
        self.dropped = self.dropped or (weight is not None and weight.grad is None)
        tensor = first_tensor(kwargs.get("input_ids"))
        tensor = first_tensor((args, kwargs)) if tensor is None else tensor
        self._recorder.entered(batch_length(tensor), ids_in(tensor))
        if len(self.fingerprints) < _FINGERPRINTS and (mark := fingerprint(plain(tensor))) is not None:
            self.fingerprints.append(mark)


class Hook:
    """What a module calls before its forward. Saved or copied with its module it becomes one that does nothing, from
    the standard library: what a training leaves behind can be read where there is no agent."""

    def __init__(self, name: int, entered: Any, compiling: Any, learning: Any) -> None:
        self._name, self._entered = name, entered
        self._compiling, self._learning = compiling, learning

    def __call__(self, module: Any, args: Any, kwargs: Any) -> None:
        if not self._compiling() and self._learning():
            self._entered(self._name, args, kwargs)

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")  # takes anything, gives None


def living_modules() -> list[Any]:
    """Every module of this process. Their types are asked, not they: a stand-in may do anything when it is asked."""
    import torch

    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]


def outermost_of(modules: list[Any], optimizer: Any) -> Any:
    """Of the modules that no other holds, the one with the most numbers that this optimizer trains."""
    held = {id(child) for module in modules for child in module._modules.values()}
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}

    def size(module: Any) -> tuple[int, int]:
        own = [p for p in module.parameters() if p.requires_grad]
        return sum(p.numel() for p in own if id(p) in trained), sum(p.numel() for p in own)

    free = [(size(module), module) for module in modules if id(module) not in held]
    best = max(free, key=lambda one: one[0], default=None)
    return None if best is None or best[0][1] == 0 else best[1]


def open_children(module: Any) -> list[Any]:
    """The modules inside, none of a compiled one: a hook there would be a reason to compile it again."""
    if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
        return []
    return [child for child in module._modules.values() if child is not None]


def ids_in(tensor: Any) -> Optional[int]:
    """Tokens of a batch: where it is sequences of whole numbers; else None."""
    if tensor is None or tensor.dim() != _MOST_IDS_DIMENSIONS or tensor.shape[1] < 2:
        return None
    whole = not (tensor.is_floating_point() or tensor.is_complex()) and tensor.element_size() > 1
    return int(tensor.numel()) if whole else None


def plain(tensor: Any) -> Any:
    """The tensor where it is no more than one: what wraps tensors may communicate when its values are read."""
    import torch

    return tensor if type(tensor) in (torch.Tensor, torch.nn.Parameter) else None


def first_tensor(given: Any, depth: int = 0) -> Any:
    """The first tensor in a batch; of one that is spread over workers, what is here."""
    if hasattr(given, "shape") and hasattr(given, "numel"):
        return getattr(given, "_local_tensor", given)
    for part in parts(given) if depth < 4 else ():
        if (tensor := first_tensor(part, depth + 1)) is not None:
            return tensor
    return None
