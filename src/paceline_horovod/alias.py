"""Let `import horovod.torch as hvd` find this package, where no Horovod is installed.

`horovod.X` is the module `paceline_horovod.X`, one and the same object under two names.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from paceline_horovod.common.place import as_environment, place

__all__ = ["install", "set_environment"]

_TF_KERAS, _KERAS = "paceline_horovod.tensorflow.keras", "paceline_horovod.keras"
_ABSENT = {
    "mxnet": "MXNet has ended",
    "ray": "on Ray, start the script with ray.train.torch.TorchTrainer",
    "spark": "on Spark, start the script with pyspark.ml.torch.distributor.TorchDistributor",
}


def install(provided: Callable[[], None] | None = None) -> bool:
    """Provide `horovod`; False where one is installed or already provided. `provided` is called at its first import.

    Nothing else changes before that import: a script without Horovod must not notice."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return False
    if importlib.util.find_spec("horovod") is not None:
        return False
    sys.meta_path.insert(0, _Finder(provided))
    if _keras_has_no_backend():
        os.environ["KERAS_BACKEND"] = "torch"  # horovod.keras comes after keras, too late to choose
    return True


def _keras_has_no_backend() -> bool:
    """Would `import keras` fail, because what it runs on by its own file, or by default, is not installed?"""
    if "KERAS_BACKEND" in os.environ or "keras" in sys.modules or importlib.util.find_spec("keras") is None:
        return False
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    backend = "tensorflow"
    with (
        contextlib.suppress(OSError, ValueError),
        open(os.path.join(home, "keras.json"), encoding="utf-8") as file,
    ):
        backend = str(json.load(file).get("backend", backend))
    return importlib.util.find_spec(backend) is None


def set_environment() -> None:
    """HOROVOD_RANK and its like, for scripts that read them before hvd.init."""
    for name, value in as_environment(place(os.environ)).items():
        os.environ.setdefault(name, value)


class _Finder(MetaPathFinder):
    """First in line: behind the finder of files, `horovod.X` would be a second copy of `paceline_horovod.X`."""

    def __init__(self, provided: Callable[[], None] | None) -> None:
        self._provided = provided

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "horovod":
            return None
        part = fullname.split(".")[1:2]
        if part and part[0] in _ABSENT:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: Paceline provides horovod.torch, horovod.keras, "
                f"horovod.tensorflow.keras and horovod.run; {_ABSENT[part[0]]}",
                name=fullname,
            )
        own_name = ("paceline_" + fullname).replace(_TF_KERAS, _KERAS)
        try:
            found = importlib.util.find_spec(own_name)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        set_environment()
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
