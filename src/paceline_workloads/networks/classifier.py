"""The image classifier of the folder workloads: a slim residual network whose trunk may come from a file."""

from __future__ import annotations

from pathlib import Path

from paceline_workloads.networks.resnet import ResNet
from paceline_workloads.training import checkpoint
from paceline_workloads.training.refuse import refuse

__all__ = ["classifier"]

_WIDTHS = (24, 48, 96)


def classifier(classes: int, *, weights: Path | None, frozen: bool) -> ResNet:
    """A network for so many classes. With weights, the trunk is that of a checkpoint; the head is always new."""
    network = ResNet(_WIDTHS, blocks=1, classes=classes, stem_stride=2, frozen=frozen)
    if weights is not None:
        path = checkpoint.latest(weights) if weights.is_dir() else weights
        if path is None or not path.is_file():
            refuse(f"there are no weights at {weights}", hint="--weights names a checkpoint or its folder")
        saved = checkpoint.load(path)["network"]
        trunk = {
            name.removeprefix("trunk."): value for name, value in saved.items() if name.startswith("trunk.")
        }
        try:
            network.trunk.load_state_dict(trunk)
        except RuntimeError as problem:
            refuse(
                f"{path} is of another network: {str(problem).splitlines()[-1].strip()}",
                hint="other --weights",
            )
    elif frozen:
        refuse(
            "--freeze-trunk without --weights would freeze noise", hint="--weights CHECKPOINT --freeze-trunk"
        )
    return network
