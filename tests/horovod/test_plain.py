"""A commit holds tensors, arrays and plain values, comes back as it was, and refuses the rest by name."""

import io
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline_horovod.torch.elastic.plain import as_it_was, plain


def there_and_back(value):
    buffer = io.BytesIO()
    torch.save(plain(value), buffer)
    buffer.seek(0)
    return as_it_was(torch.load(buffer, weights_only=True))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(10**30),
        2.5,
        1 + 2j,
        "é",
        b"\x00\xff",
        b"",
        set(),
        {b"key": b"a"},
        bytearray(b"a"),
        [1, (2, "b"), {3}],
        (),
        {},
        {"a": {1: [2.0]}, (1, 2): None},
        OrderedDict(b=1, a=2),
        Counter("aab"),
        torch.Size([2, 3]),
        torch.float16,
        torch.device("cpu"),
    ],
    ids=repr,
)
def test_plain_values_come_back_as_they_were(value):
    back = there_and_back(value)
    assert (type(back), back) == (type(value), value)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "float64", "complex64", "S3", "U2", "M8[s]"]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_of_numpy_come_back_with_type_shape_and_values(dtype, shape):
    value = np.ones(shape, "int64").astype(dtype)
    back = there_and_back({"kept": value})["kept"]
    assert (type(back), back.dtype, back.shape) == (np.ndarray, value.dtype, shape)
    assert np.array_equal(back, value)
    back[...] = value  # it may be written to


def test_numbers_of_numpy_come_back_as_such_also_as_keys_and_in_sets():
    best = np.float64(0.25)
    back = there_and_back({"best": best, np.int64(3): "three", "seen": {np.int32(7)}})
    assert (type(back["best"]), back["best"]) == (np.float64, 0.25)
    assert type(next(key for key in back if key == 3)) is np.int64
    assert [type(each) for each in back["seen"]] == [np.int32]


def test_a_network_and_its_optimizer_come_back_with_the_versions_of_their_modules():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    back = there_and_back({"model": net.state_dict(), "optimizer": optimizer.state_dict()})
    assert back["model"]._metadata == net.state_dict()._metadata
    other = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    other.load_state_dict(back["model"])
    torch.optim.Adam(other.parameters()).load_state_dict(back["optimizer"])
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), other.parameters(), strict=True))


class Config:
    pass


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"config": Config()}, rf"state\['config'\] is a {Config.__module__}.Config"),
        ({"paths": [1, Path("x")]}, r"state\['paths'\]\[1\] is a pathlib\w*\.PosixPath"),
        ({"scores": defaultdict(list)}, "collections.defaultdict"),
        ({"few": frozenset("a")}, "builtins.frozenset"),
        ({"rows": np.array([object()])}, "numpy.ndarray"),
        ({"rows": np.zeros(2, [("a", "i4")])}, "numpy.ndarray"),
        ({"run": print}, "builtins.builtin_function_or_method"),
    ],
)
def test_what_only_a_pickle_could_hold_is_refused_in_one_line_that_names_it(value, named):
    with pytest.raises(TypeError, match=named) as refused:
        plain(value)
    assert "\n" not in str(refused.value)
