"""Image files in a folder or in a zip archive, which is read as it is: nothing is unpacked.

Few images are decoded once and kept (as bytes, so that they fit); more than a gigabyte of them are decoded when
they are needed, by the processes of `--loader-workers`.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from paceline_workloads.data.examples import Examples, Part
from paceline_workloads.training.refuse import refuse

__all__ = ["Archive", "archive", "images_of"]

_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".ppm"}
_KEPT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder or a zip file of images."""

    path: Path
    names: tuple[str, ...]  # of all files, with / between folders, sorted
    _open: dict[int, zipfile.ZipFile] = field(default_factory=dict, repr=False, compare=False)

    def images(self) -> list[PurePosixPath]:
        """The names of the images."""
        return [path for name in self.names if (path := PurePosixPath(name)).suffix.lower() in _SUFFIXES]

    def read(self, name: str) -> bytes:
        """The bytes of one file. Every process opens the zip for itself: a shared position would mix up reads."""
        if self.path.is_dir():
            return (self.path / name).read_bytes()
        opened = self._open.get(os.getpid())
        if opened is None:
            opened = self._open[os.getpid()] = zipfile.ZipFile(self.path)
        return opened.read(name)


def archive(path: Path) -> Archive:
    """The archive at this path: a zip, a folder that holds one zip, or a folder of images."""
    if path.is_dir():
        zips = sorted(path.glob("*.zip"))
        if len(zips) == 1:
            return archive(zips[0])
        names = (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        return _some(Archive(path, tuple(sorted(names))))
    if not path.exists():
        refuse(f"there are no data at {path}", hint="--data names a folder or a zip file")
    try:
        with zipfile.ZipFile(path) as file:
            names = (entry.filename for entry in file.infolist() if not entry.is_dir())
            return _some(Archive(path, tuple(sorted(names))))
    except zipfile.BadZipFile as problem:
        refuse(f"{path} is not a complete zip archive: {problem}", hint="fetch it again")


def images_of(
    source: Archive, files: Sequence[tuple[PurePosixPath, Any]], *, size: tuple[int, int], grey: bool = False
) -> Part:
    """These images, scaled to height × width, with their targets; kept in memory where they are few."""
    targets = torch.tensor([target for _, target in files])
    pictures = _Decoded(source, tuple(str(name) for name, _ in files), targets, size, "L" if grey else "RGB")
    if len(files) * size[0] * size[1] * (1 if grey else 3) > _KEPT_BYTES:
        pictures.batch(
            torch.tensor([0])
        )  # a decoder that is missing is missed now, not in a loader's process
        return pictures
    return Examples(*pictures.batch(torch.arange(len(files))))


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Images that are decoded when they are asked for."""

    source: Archive
    names: tuple[str, ...]
    targets: Tensor
    size: tuple[int, int]
    mode: str

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [n, c, h, w] as bytes, and targets."""
        pictures = [self._picture(self.names[i]) for i in indices.tolist()]
        return torch.stack(pictures), self.targets[indices]

    def _picture(self, name: str) -> Tensor:
        pillow = _pillow()
        try:
            with pillow.open(io.BytesIO(self.source.read(name))) as picture:
                height, width = self.size
                scaled = picture.convert(self.mode)
                if scaled.size != (width, height):
                    scaled = scaled.resize((width, height), pillow.Resampling.BILINEAR)
        except (OSError, ValueError, zipfile.BadZipFile) as problem:
            refuse(f"{self.source.path}: {name} cannot be decoded: {problem}", hint="fetch the archive again")
        pixels = torch.frombuffer(bytearray(scaled.tobytes()), dtype=torch.uint8)
        return pixels.view(height, width, -1).permute(2, 0, 1)


def _some(found: Archive) -> Archive:
    if not found.images():
        refuse(f"{found.path} holds no images", hint="--data names a folder or a zip file of images")
    return found


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        refuse("decoding images needs Pillow, which this Python does not have", hint="pip install pillow")
    return Image
