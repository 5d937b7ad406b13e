"""idx, the format of MNIST and Fashion-MNIST: two zero bytes, type, dimensions; big-endian sizes; then bytes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import torch
from torch import Tensor

from paceline_workloads.data.examples import Examples
from paceline_workloads.training.refuse import refuse

__all__ = ["idx_bytes", "idx_examples"]

_UNSIGNED_BYTE = 8


def idx_examples(folder: Path, part: str) -> Examples:
    """One published part (`train`, `t10k`): images [n, 1, h, w] as bytes, labels."""
    images = idx_bytes(folder, f"{part}-images-idx3-ubyte")
    labels = idx_bytes(folder, f"{part}-labels-idx1-ubyte").long()
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        refuse(
            f"{folder}: {part} has images {list(images.shape)} and labels {list(labels.shape)}",
            hint="both files must be of one published set",
        )
    return Examples(images.unsqueeze(1), labels)


def idx_bytes(folder: Path, name: str) -> Tensor:
    """One idx file as a tensor, plain or gzipped."""
    places = (folder / name, folder / name.replace("-idx", ".idx"), folder / f"{name}.gz")
    path = next((place for place in places if place.exists()), None)
    if path is None:
        refuse(
            f"{folder / name} is not there, plain or as .gz", hint="--data names the folder of the idx files"
        )
    return _tensor(path, _content(path))


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as problem:
        refuse(f"{path} is cut short or damaged: {problem}", hint=f"remove {path} and fetch it again")


def _tensor(path: Path, data: bytes) -> Tensor:
    if len(data) < 4 or data[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        refuse(f"{path} is not an idx file of bytes", hint="fetch the published file again")
    sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    body = memoryview(data)[4 + 4 * len(sizes) :]
    expected = 1
    for size in sizes:
        expected *= size
    if len(body) != expected or expected == 0:
        refuse(
            f"{path} says {' × '.join(map(str, sizes))} bytes and holds {len(body)}",
            hint=f"remove {path} and fetch it again",
        )
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(*sizes)
