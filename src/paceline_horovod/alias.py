"""Let `import horovod.torch as hvd` find this package, where no Horovod is installed.

`horovod.X` is the module `paceline_horovod.X`, one and the same object under two names.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from paceline_horovod.common.place import as_environment, place

__all__ = ["install"]

# what Horovod calls a module and where it is here, when not at the same place
_ELSEWHERE = {"horovod.tensorflow.keras": "paceline_horovod.keras"}


def install(provided: Callable[[], None] | None = None) -> bool:
    """Provide `horovod`; False where one is installed or already provided. `provided` is called at its first import.

    Scripts may read HOROVOD_RANK and its like before hvd.init, so these are set now."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return False
    if importlib.util.find_spec("horovod") is not None:
        return False
    for name, value in as_environment(place(os.environ)).items():
        os.environ.setdefault(name, value)
    sys.meta_path.append(_Finder(provided))
    return True


class _Finder(MetaPathFinder):
    """Last in line: asked only when nobody else knows a horovod."""

    def __init__(self, provided: Callable[[], None] | None) -> None:
        self._provided = provided

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "horovod":
            return None
        own_name = _ELSEWHERE.get(fullname, "paceline_" + fullname)
        if fullname == "horovod.tensorflow":
            own_name = "paceline_horovod"
        try:
            found = importlib.util.find_spec(own_name)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        if self._provided is not None:
            self._provided()
            self._provided = None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _Same(own_name), origin=found.origin, is_package=is_package)


class _Same(Loader):
    """Hands over the module of another name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._module = importlib.import_module(self._name)
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has replaced it by the alias's
