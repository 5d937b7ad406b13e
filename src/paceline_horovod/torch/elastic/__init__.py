"""hvd.elastic over torchrun's elastic restart.

    worker lost or added ──▶ collectives raise on the others ──▶ torchrun starts all workers again, fewer or more
                                                             ──▶ run() loads the last commit and goes on from there

torchrun starts new processes, so a commit is a file, written by rank 0 (commit.py). It lies below
PACELINE_HOROVOD_STATE, which must be a shared folder when rank 0 may move to another machine. Unless that is set,
`paceline horovod run` sets it to a fresh folder that only this user can open.
"""

from paceline_horovod.torch.elastic.restart import run
from paceline_horovod.torch.elastic.sampler import ElasticSampler
from paceline_horovod.torch.elastic.state import ObjectState, TorchState

__all__ = ["ElasticSampler", "ObjectState", "TorchState", "run"]
