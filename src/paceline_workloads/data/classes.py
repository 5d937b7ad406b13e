"""Image folders, one per class, cut into what is learned from and what judges, without a leak between them."""

from __future__ import annotations

import re
import zlib
from pathlib import PurePosixPath

from paceline_workloads.data.examples import Data
from paceline_workloads.data.images import Archive, archive, images_of
from paceline_workloads.training.options import Options
from paceline_workloads.training.refuse import refuse

__all__ = ["base_name", "class_folders", "split_by_base"]

Labelled = list[tuple[PurePosixPath, int]]
_COPIES = re.compile(r"^(rotated_by_\d+_|translation_|vertical_flip_|saltandpepper_)+")


def base_name(path: PurePosixPath) -> str:
    """The picture that a file is a copy of: `rotated_by_45_apple 3.png` is `apple 3`."""
    return _COPIES.sub("", path.stem)


def split_by_base(files: Labelled, *, seed: int, share: float = 0.2) -> tuple[Labelled, Labelled]:
    """What is learned from and what judges: within each class about `share` of the pictures, with all their copies.

    Which ones follows from name and seed alone, so more files do not move others from one side to the other."""
    train: Labelled = []
    test: Labelled = []
    for path, label in files:
        chance = zlib.crc32(f"{seed}/{label}/{base_name(path)}".encode()) / 2**32
        (test if chance < share else train).append((path, label))
    return train, test


def class_folders(asked: Options, *, size: tuple[int, int]) -> tuple[Data, tuple[str, ...]]:
    """The images of --data, whose folders are the classes, and the names of these."""
    assert asked.data is not None
    source = archive(asked.data)
    files, names = _labelled(source)
    if len(names) < 2:
        refuse(
            f"{source.path} has one class ({', '.join(names)}): nothing to learn", hint="one folder per class"
        )
    train, test = split_by_base(files, seed=asked.seed)
    if not train or not test:
        refuse(f"{source.path} has {len(files)} images: too few to learn and to judge", hint="check --data")
    origin = (
        f"{len(files):,} images of {len(names)} classes from {source.path}; {len(test):,} judge, none a copy"
    )
    return Data(images_of(source, train, size=size), images_of(source, test, size=size), origin, False), names


def _labelled(source: Archive) -> tuple[Labelled, tuple[str, ...]]:
    images = [path for path in source.images() if len(path.parts) > 1]
    names = tuple(sorted({path.parent.name for path in images}))
    number = {name: index for index, name in enumerate(names)}
    return [(path, number[path.parent.name]) for path in images], names
