"""The errors that Horovod's users know.

HorovodInternalError            a collective failed; elastic training restores and goes on
└── NotAcceptedError            an argument cannot be carried out (also a ValueError)
    └── DuplicateNameError      the name is still in flight
HostsUpdatedInterrupt           workers came or went; elastic training goes on without restoring
"""

from __future__ import annotations

__all__ = ["DuplicateNameError", "HorovodInternalError", "HostsUpdatedInterrupt", "NotAcceptedError"]


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
