"""Any record as plain JSON data, and back, by its annotations: nested records, tuples, mappings, unknowns.

unknown      is null; a number that is not finite is unknown, so no NaN and no Infinity is ever written; where a
             field must hold a number, null is read as NaN (the loss of a training that diverged)
missing key  takes the field's default, so what an older Paceline wrote stays readable; an unknown key is passed over
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["plain_data", "record_from"]

_T = TypeVar("_T")


def plain_data(value: object) -> object:
    """Records as dicts in the order of their fields, tuples as lists, numbers that are not finite as None."""
    if is_dataclass(value):
        return {field.name: plain_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    return value


def record_from(kind: type[_T], data: object) -> _T:
    """The record that `plain_data` wrote; TypeError or ValueError where the data do not fit its annotations."""
    if not isinstance(data, Mapping):
        raise TypeError(f"{kind.__name__} cannot be {type(data).__name__}")
    hints = _hints(kind)
    return kind(**{name: _value(hint, data[name]) for name, hint in hints.items() if name in data})


def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(cast(Any, kind))}


def _value(hint: Any, value: object) -> object:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _value(next(one for one in inner if one is not type(None)), value)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{value!r} is none of {', '.join(map(str, inner))}")
        return value
    if origin is tuple:
        return _tuple(inner, value)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError(f"a mapping cannot be {type(value).__name__}")
        return {str(key): _value(inner[1], item) for key, item in value.items()}
    if is_dataclass(hint):
        return record_from(cast("type[object]", hint), value)
    if hint is float and value is None:  # a number that was not finite, where there must be one
        return math.nan
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r} is no {getattr(hint, '__name__', hint)}")


def _tuple(inner: Sequence[Any], value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"a list cannot be {type(value).__name__}")
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_value(inner[0], item) for item in value)
    return tuple(_value(hint, item) for hint, item in zip(inner, value, strict=True))
