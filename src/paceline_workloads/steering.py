"""From a picture of the road to the steering angle: a regression, judged by squared error and correlation.

    python -m paceline_workloads.steering
    torchrun --nproc-per-node 4 -m paceline_workloads.steering --data FOLDER

`--data` names a folder or zip of images and a csv `file,steering`. In time, the first seven tenths are learned from,
the next tenth judges every epoch (val_), and the last fifth judges once, at the end (test_): neighbouring frames are
nearly equal, so a random split would judge by what was learned, and whatever is tuned is tuned on the tenth. Once
nothing is tuned any more, `--refit` learns from the first eight tenths, and the last fifth judges (val_). Most
angles are zero, so accuracy says nothing; beside the error stand those of two baselines: always the mean angle, and a
ridge regression on the image scaled down.
"""

from __future__ import annotations

import argparse
import csv
import io
from functools import partial
from pathlib import PurePosixPath

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from paceline_workloads.data.drawn_images import drawn_roads
from paceline_workloads.data.examples import Data, Examples, Part
from paceline_workloads.data.images import Archive, archive, images_of
from paceline_workloads.networks.convolutional import PilotNetwork
from paceline_workloads.training.augment import flipped, moved
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.refuse import refuse
from paceline_workloads.training.task import Task
from paceline_workloads.training.trainer import main

FLAGS = parser(
    "Learn to steer.",
    batch_size=32,
    optimizer="adamw",
    lr=1e-3,
    epochs=20,
    weight_decay=0.3,
    schedule="cosine",
)
FLAGS.add_argument("--refit", action="store_true", help="learn from the tenth that was tuned on, too")
_SIZE = (66, 200)
_SMALL = (8, 20)
_RIDGE = 10.0


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Images of 3 x 66 x 200 bytes to angles."""
    data = _data(asked, refit=given.refit)
    return Task(
        name="steering",
        data=data,
        network=PilotNetwork,
        learning=_mirrored,
        judging=_plain,
        loss=F.mse_loss,
        sums=_sums,
        metrics=partial(_metrics, baselines=_baselines(data.train, data.test), prefix="val"),
        held_out_metrics=None
        if data.held_out is None
        else partial(_metrics, baselines=_baselines(data.train, data.held_out), prefix="test"),
        goal="val_mse",
        rises=False,
        draws=3,
    )


def _plain(images: Tensor, angles: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """−1 to 1."""
    return images.float() / 127.5 - 1.0, angles


def _mirrored(images: Tensor, angles: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """In another light, up or down a little, and every second road mirrored; it is then steered the other way."""
    light = (0.5 + draws[:, 1]).view(-1, 1, 1, 1)
    still = torch.full_like(draws[:, 2], 0.5)
    pitched = moved(images, torch.stack([draws[:, 2], still, still], dim=1), most=5)
    scaled = (pitched * light).clamp(0, 255) / 127.5 - 1.0
    return flipped(scaled, draws[:, 0]), torch.where(draws[:, 0] < 0.5, -angles, angles)


def _sums(outputs: Tensor, targets: Tensor) -> Tensor:
    """What error and correlation need."""
    p, t = outputs.double(), targets.double()
    each = [torch.ones_like(p), (p - t) ** 2, p, t, p * p, t * t, p * t]
    return torch.stack(each).sum(1)


def _metrics(sums: Tensor, *, baselines: dict[str, float], prefix: str) -> dict[str, float]:
    n, error, p, t, pp, tt, pt = sums.tolist()
    spread = ((pp / n - (p / n) ** 2) * (tt / n - (t / n) ** 2)) ** 0.5
    correlation = (pt / n - p * t / n / n) / spread if spread > 0 else 0.0
    own = {f"{prefix}_mse": error / n, f"{prefix}_correlation": correlation}
    return {
        **own,
        **{name if prefix == "val" else f"{prefix}_{name}": value for name, value in baselines.items()},
    }


def _baselines(learned: Part, judging: Part) -> dict[str, float]:
    """The errors to beat: of the mean angle, and of ridge regression w = (XᵀX + λ)⁻¹ Xᵀy on small images."""
    (known, angles), (seen, true) = _small(learned), _small(judging)
    centre, level = known.mean(0), angles.mean()
    square = (known - centre).T @ (known - centre) + _RIDGE * torch.eye(known.shape[1])
    weights = torch.linalg.solve(square, (known - centre).T @ (angles - level))
    guessed = (seen - centre) @ weights + level
    return {
        "mean_angle_mse": float(((true - level) ** 2).mean()),
        "ridge_mse": float(((true - guessed) ** 2).mean()),
    }


def _small(part: Part) -> tuple[Tensor, Tensor]:
    images, angles = part.batch(torch.arange(len(part)))
    scaled = [
        F.interpolate(chunk.float() / 127.5 - 1.0, size=_SMALL, mode="area")
        for chunk in torch.split(images, 256)
    ]
    return torch.cat(scaled).flatten(1), angles


def _data(asked: Options, *, refit: bool) -> Data:
    if asked.data is None:
        train, test, final = (
            drawn_roads(count, seed=asked.seed + part)
            for part, count in enumerate((1_500, 150, 300), start=1)
        )
        return Data(train, test, "no --data: training on generated roads", True, final)
    source = archive(asked.data)
    rows = _rows(source)
    first, second = len(rows) * 7 // 10, len(rows) * 8 // 10
    shares = [rows[:second], rows[second:]] if refit else [rows[:first], rows[first:second], rows[second:]]
    parts = [part for share in shares if isinstance(part := images_of(source, share, size=_SIZE), Examples)]
    if len(parts) < len(shares):
        refuse(f"{len(rows):,} images are more than memory holds", hint="a part of them")
    zero = float((parts[0].targets == 0).float().mean())
    origin = f"{len(rows):,} images from {source.path}, {zero:.0%} of the angles are 0"
    return Data(parts[0], parts[1], origin, False, None if refit else parts[2])


def _rows(source: Archive) -> list[tuple[PurePosixPath, float]]:
    """Images and angles in the order of time, which is the order of their names."""
    tables = [name for name in source.names if name.endswith(".csv")]
    if len(tables) != 1:
        refuse(
            f"{source.path} has {len(tables)} csv files, not one", hint="one csv with columns file,steering"
        )
    known = {path.name: path for path in source.images()}
    rows = []
    for line, row in enumerate(csv.DictReader(io.StringIO(source.read(tables[0]).decode())), start=2):
        try:
            rows.append((known[PurePosixPath(row["file"]).name], float(row["steering"])))
        except (KeyError, ValueError) as problem:
            refuse(f"{source.path}: {tables[0]} line {line}: {problem!r}", hint="columns file,steering")
    if len(rows) < 10:
        refuse(f"{source.path}: {tables[0]} names {len(rows)} images", hint="at least 10 are needed")
    return sorted(rows)


if __name__ == "__main__":
    main(FLAGS, task)
