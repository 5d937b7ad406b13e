"""What a training came to, as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from paceline.converge.summary import Evaluation, TrainingSummary
from paceline.core.units import bytes_text, duration_text, estimate_text, percent_text

__all__ = ["training_text"]

_SHOWN = 12
_HIDDEN = {"epoch", "step", "samples", "wall_s", "train_s", "lr"}


def training_text(
    measured: TrainingSummary, history: Sequence[Evaluation], *, summary: Mapping[str, object], folder: Path
) -> str:
    """Sentences first, then the curve."""
    parts = [*_sentences(measured, generated=summary.get("generated") is True)]
    if history:
        parts += ["", _curve(history)]
    return "\n".join([*parts, "", f"Training: {folder}    data: {folder / 'training.json'}"])


def _sentences(measured: TrainingSummary, *, generated: bool) -> list[str]:
    said = []
    if measured.metric is not None and measured.last is not None and measured.best is not None:
        on = " on generated data" if generated else ""
        said.append(f"{measured.metric} {measured.last:.4g}{on} at the end, {measured.best:.4g} at best.")
    if measured.target is not None:
        took = measured.time_to_target_s
        reached = "was not reached" if took is None else f"was reached after {duration_text(took)}"
        said.append(f"The target {measured.target:g} {reached}.")
    if measured.still_rising:
        said.append("It was still getting better: the plateau lies beyond the last epoch.")
    elif measured.plateau_epoch is not None:
        said.append(f"It became stable at epoch {estimate_text(measured.plateau_epoch)}.")
    rate = f", {measured.throughput_per_s:,.0f} samples/s" if measured.throughput_per_s else ""
    said.append(f"{measured.steps:,} steps of {duration_text(measured.step_s)}{rate}.")
    waits = [
        f"{percent_text(share)} {what}"
        for share, what in (
            (measured.input_ratio, "for data"),
            (measured.exchange_ratio, "for other workers"),
        )
        if share is not None
    ]
    if waits:
        said.append(f"Of a step, workers wait {' and '.join(waits)}.")
    busy = [
        f"{percent_text(share)} of the {what}"
        for share, what in ((measured.cpu_ratio, "cores"), (measured.gpu_ratio, "time of a GPU"))
        if share is not None
    ]
    if busy:
        said.append(f"Workers keep {' and '.join(busy)} busy.")
    if measured.noise_scale is not None:
        said.append(f"Gradient noise scale {estimate_text(measured.noise_scale)} samples.")
    memory = f"Peak memory of a worker {bytes_text(measured.peak_memory_bytes)}"
    device = f", of its device {bytes_text(measured.peak_device_bytes)}" if measured.peak_device_bytes else ""
    if measured.horovod_provided:
        said.append("The script speaks Horovod; paceline_horovod answered it, over torch.distributed.")
    return [*said, f"{memory}{device}."]


def _curve(history: Sequence[Evaluation]) -> str:
    """The curve, thinned to a screen: first, last, and some between."""
    every = max(1, -(-len(history) // _SHOWN))
    shown = [e for i, e in enumerate(history) if i % every == 0 or i == len(history) - 1]
    names = list(dict.fromkeys(name for e in shown for name in e.metrics if name not in _HIDDEN))
    rows = [
        [f"{e.epoch:g}", duration_text(e.wall_s), *(_number(e.metrics.get(name)) for name in names)]
        for e in shown
    ]
    headers = ["epoch", "time", *names]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, stralign="right")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
