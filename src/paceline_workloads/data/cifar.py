"""CIFAR-10 as it is published: the binary layout, or the Python one, unpacked or still in its .tar.gz.

binary   records of one label and 3 x 1024 bytes, ten thousand to a file
Python   pickles of NumPy arrays. They are read by an unpickler that knows only what those files hold and makes
         plain bytes of it, so a forged file can do nothing, and NumPy is not needed.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline_workloads.data.examples import Examples
from paceline_workloads.training.refuse import refuse

__all__ = ["cifar10", "has_cifar10"]

_BYTES = 3 * 32 * 32
_ARCHIVES = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
_FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py")
_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))


def has_cifar10(folder: Path) -> bool:
    """Whether this folder looks as if it held CIFAR-10."""
    return _place(folder) is not None


def cifar10(folder: Path) -> tuple[Examples, Examples]:
    """What is learned from and what judges: images [n, 3, 32, 32] as bytes, labels."""
    place = _place(folder)
    if place is None:
        refuse(
            f"{folder} holds neither {' nor '.join(_FOLDERS)} nor their .tar.gz",
            hint="paceline data cifar-10",
        )
    files = _files(place)
    return _joined(place, files, _BATCHES), _joined(place, files, ("test_batch",))


def _place(folder: Path) -> Path | None:
    inside = [folder / name for name in (*_FOLDERS, *_ARCHIVES)]
    marks = [folder / f"test_batch{suffix}" for suffix in (".bin", "")]
    if any(mark.is_file() for mark in marks) or (folder.is_file() and folder.name in _ARCHIVES):
        return folder
    return next((path for path in inside if path.exists()), None)


def _files(place: Path) -> dict[str, bytes]:
    """The batches by name, .bin or not."""
    wanted = {f"{name}{suffix}" for name in (*_BATCHES, "test_batch") for suffix in ("", ".bin")}
    if place.is_dir():
        return {path.name: path.read_bytes() for path in place.iterdir() if path.name in wanted}
    try:
        with tarfile.open(place) as archive:
            members = [m for m in archive.getmembers() if m.isfile() and Path(m.name).name in wanted]
            return {Path(m.name).name: _content(archive, m) for m in members}
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        refuse(f"{place} is cut short or damaged: {problem}", hint=f"remove {place} and fetch it again")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None  # only plain files were chosen
    return file.read()


def _joined(place: Path, files: dict[str, bytes], names: tuple[str, ...]) -> Examples:
    images, labels = [], []
    for name in names:
        if f"{name}.bin" in files:
            pixels, marks = _binary(place / f"{name}.bin", files[f"{name}.bin"])
        elif name in files:
            pixels, marks = _pickled(place / name, files[name])
        else:
            refuse(f"{place} has no {name}", hint=f"remove {place} and fetch it again")
        images.append(pixels)
        labels.append(marks)
    return Examples(torch.cat(images).view(-1, 3, 32, 32), torch.cat(labels).long())


def _binary(path: Path, data: bytes) -> tuple[Tensor, Tensor]:
    if not data or len(data) % (1 + _BYTES):
        refuse(f"{path} has {len(data)} bytes, not a multiple of {1 + _BYTES}", hint="fetch it again")
    records = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 1 + _BYTES)
    return records[:, 1:], records[:, 0]


def _pickled(path: Path, data: bytes) -> tuple[Tensor, Tensor]:
    try:
        batch = _Plain(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = batch[b"data"].data, batch[b"labels"]
    except (pickle.UnpicklingError, EOFError, KeyError, AttributeError, ValueError, IndexError) as problem:
        refuse(f"{path} is not a CIFAR-10 batch: {problem!r}", hint="fetch it again")
    if len(pixels) != len(labels) * _BYTES:
        refuse(f"{path} has {len(labels)} labels and {len(pixels)} bytes of pixels", hint="fetch it again")
    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(-1, _BYTES), torch.tensor(labels)


class _Array:
    """Stands for a NumPy array: its bytes."""

    data = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.data = state[4]


class _Type:
    """Stands for a NumPy type, which is bytes here."""

    def __init__(self, *described: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


class _Plain(pickle.Unpickler):
    """Knows four names, and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[str, Any] = {
            "_reconstruct": lambda *described: _Array(),
            "ndarray": _Array,
            "dtype": _Type,
        }
        if module.partition(".")[0] == "numpy" and name in known:
            return known[name]
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, coding: text.encode("latin1")
        raise pickle.UnpicklingError(f"{module}.{name} has no business here")
