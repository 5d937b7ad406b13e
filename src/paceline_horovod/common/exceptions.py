"""The errors that Horovod's users know.

HorovodInternalError            a collective failed; elastic training restores and goes on
└── NotAcceptedError            an argument cannot be carried out (also a ValueError)
    └── DuplicateNameError      the name is still in flight
HostsUpdatedInterrupt           workers came or went; elastic training goes on without restoring
CommitRefused                   the last commit of an elastic training is not restored, or none can be written
"""

from __future__ import annotations

__all__ = [
    "CommitRefused",
    "DuplicateNameError",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "NotAcceptedError",
]


class HorovodInternalError(RuntimeError):
    """A collective could not be carried out."""


class NotAcceptedError(HorovodInternalError, ValueError):
    """An argument of a collective is wrong on this rank."""


class DuplicateNameError(NotAcceptedError):
    """A tensor of this name is still being exchanged."""


class HostsUpdatedInterrupt(RuntimeError):
    """The set of workers changed between two commits."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the set of workers has changed")
        self.skip_sync = skip_sync


class CommitRefused(RuntimeError):
    """A commit, or the folder it lies in, is not what this user's own launch would have left there."""
