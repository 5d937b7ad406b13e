"""State as tensors and plain values only, so that reading it can run nothing; and back.

None, bool, int, float, text, tensors, and lists, tuples and dicts of them stay as they are. What torch does not read
without running code in every version becomes (mark, its type, its parts): bytes, complex numbers, sets, Counters, and
NumPy's arrays and numbers. Anything else is refused, by its name.
"""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict
from typing import Any

import torch

__all__ = ["as_it_was", "plain"]

_AS_THEY_ARE: tuple[type, ...] = (
    *(type(None), bool, int, float, str),
    *(torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype, torch.device),
)
_MARK = "paceline_horovod is"
_KINDS = "biufcSUmM"  # numpy's letters for types without references and without fields


def plain(value: Any, name: str = "state") -> Any:
    """The value in that form. A TypeError names what has none."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind in (dict, OrderedDict):
        result: Any = kind(
            (plain(k, f"a key of {name}"), plain(v, f"{name}[{k!r}]")) for k, v in value.items()
        )
        if hasattr(value, "_metadata"):  # versions of modules, which a network's state_dict carries
            result._metadata = value._metadata
        return result
    if kind in (list, tuple):
        return kind(plain(each, f"{name}[{i}]") for i, each in enumerate(value))
    if kind in (bytes, bytearray):
        return (_MARK, kind.__name__, _as_tensor(value))
    if kind is complex:
        return (_MARK, "complex", value.real, value.imag)
    if kind is set:
        return (_MARK, "set", [plain(each, f"an element of {name}") for each in value])
    if kind is Counter:
        return (_MARK, "Counter", plain(dict(value), name))
    if kind.__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "O") in _KINDS:
        what = "array" if kind.__name__ == "ndarray" else "number"
        return (_MARK, what, value.dtype.str, tuple(value.shape), _as_tensor(value.tobytes()))
    raise TypeError(
        f"{name} is a {kind.__module__}.{kind.__qualname__}: a commit holds tensors, NumPy arrays and plain values "
        "only; keep its parts as such"
    )


def as_it_was(value: Any) -> Any:
    """What `plain` was given."""
    kind = type(value)
    if kind is tuple and value[:1] == (_MARK,):
        return _unmarked(*value[1:])
    if kind in (dict, OrderedDict):
        result: Any = kind((as_it_was(key), as_it_was(each)) for key, each in value.items())
        if hasattr(value, "_metadata"):
            result._metadata = value._metadata
        return result
    if kind in (list, tuple):
        return kind(map(as_it_was, value))
    return value


def _unmarked(kind: str, *parts: Any) -> Any:
    if kind == "complex":
        return complex(*parts)
    if kind == "set":
        return set(map(as_it_was, parts[0]))
    if kind == "Counter":
        return Counter(as_it_was(parts[0]))
    data = bytearray(parts[-1].numpy().tobytes())
    if kind == "bytearray":
        return data
    if kind == "bytes":
        return bytes(data)
    array = importlib.import_module("numpy").ndarray(parts[1], parts[0], buffer=data)
    return array if kind == "array" else array[()]


def _as_tensor(data: bytes | bytearray) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
