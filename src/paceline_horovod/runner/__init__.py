"""horovod.run(func, np=4): a function on several workers of this machine, started from a script or a notebook."""

from paceline_horovod.runner.local import run

__all__ = ["run"]
