"""A denoising network, as deep and as wide as asked: how quality, time and memory follow depth × width.

    python -m paceline_workloads.deepwide --depth 6 --width 32
    torchrun --nproc-per-node 2 -m paceline_workloads.deepwide --data FOLDER

Noise of deviation 25 (of 255) is added to grey images; the network takes it out again. Judged by PSNR, the mean over
images of 10 log₁₀(1 / mse); noise alone is 20.2 dB. `--data` names any folder or zip of images; without it the script
generates textures.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from torch import Tensor

from paceline_workloads.data.drawn_images import drawn_textures
from paceline_workloads.data.examples import Data, Examples
from paceline_workloads.data.images import archive, images_of
from paceline_workloads.networks.convolutional import Denoiser
from paceline_workloads.training.augment import flipped
from paceline_workloads.training.options import Options, parser
from paceline_workloads.training.refuse import refuse
from paceline_workloads.training.task import Task
from paceline_workloads.training.trainer import main

FLAGS = parser(
    "Train a network that removes noise.",
    batch_size=32,
    optimizer="adam",
    lr=1e-3,
    epochs=3,
    schedule="cosine",
)
FLAGS.add_argument("--depth", type=int, default=5, help="convolutions")
FLAGS.add_argument("--width", type=int, default=24, help="channels of each")
FLAGS.add_argument("--side", type=int, default=40, help="pixels of an image's side")
_NOISE = 25 / 255
_FIELDS = 256


def task(asked: Options, given: argparse.Namespace) -> Task:
    """Noisy images into clean ones."""
    if given.depth < 2 or given.width < 1:
        refuse(f"--depth {given.depth} --width {given.width} is no network", hint="--depth 5 --width 24")
    fields = torch.randn(_FIELDS, 1, given.side, given.side, generator=torch.Generator().manual_seed(25))
    noise = partial(_noisy, fields=fields)
    return Task(
        name="deepwide",
        data=_data(asked, side=given.side),
        network=partial(Denoiser, depth=given.depth, width=given.width),
        learning=noise,
        judging=noise,
        loss=torch.nn.functional.mse_loss,
        sums=_sums,
        metrics=_metrics,
        goal="val_psnr_db",
        draws=4,
        judged_together=25,  # of a wide network a forward takes memory too
    )


def _noisy(images: Tensor, same: Tensor, draws: Tensor, *, fields: Tensor) -> tuple[Tensor, Tensor]:
    """The image, mirrored or not, plus one of the noise fields, turned over by two further draws; and without it."""
    clean = flipped(images.float() / 255, draws[:, 3])
    chosen = fields.to(images.device)[(draws[:, 0] * _FIELDS).long()]
    turned = flipped(chosen, draws[:, 1]) * torch.where(draws[:, 2] < 0.5, -1.0, 1.0).view(-1, 1, 1, 1)
    return clean + _NOISE * turned, clean


def _sums(outputs: Tensor, targets: Tensor) -> Tensor:
    """Images, their PSNR, their squared error."""
    error = (outputs - targets).double().square().mean((1, 2, 3))
    psnr = 10 * torch.log10(1 / error.clamp_min(1e-12))
    return torch.stack([error.new_tensor(float(len(error))), psnr.sum(), error.sum()])


def _metrics(sums: Tensor) -> dict[str, float]:
    count, psnr, error = sums.tolist()
    return {"val_psnr_db": psnr / count, "val_mse": error / count}


def _data(asked: Options, *, side: int) -> Data:
    if asked.data is None:
        train, test = (
            drawn_textures(count, side=side, seed=asked.seed + part) for part, count in ((1, 2_000), (2, 250))
        )
        return Data(train, test, "no --data: training on generated textures", True)
    source = archive(asked.data)
    files = [(name, 0) for name in source.images()]
    order = torch.randperm(len(files), generator=torch.Generator().manual_seed(asked.seed)).tolist()
    cut = max(1, len(files) // 10)
    parts = []
    for chosen in (order[cut:], order[:cut]):
        if not chosen:
            refuse(f"{source.path} has {len(files)} images; at least 2 are needed", hint="check --data")
        pictures = images_of(source, [files[i] for i in chosen], size=(side, side), grey=True)
        if not isinstance(pictures, Examples):
            refuse(
                f"{len(files):,} images of {side} pixels are more than memory holds", hint="a smaller --side"
            )
        parts.append(Examples(pictures.inputs, pictures.inputs))
    return Data(parts[0], parts[1], f"{len(files):,} images from {source.path}", False)


if __name__ == "__main__":
    main(FLAGS, task)
