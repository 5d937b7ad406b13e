"""A switch in userspace that delays every frame, for kernels without netem. Its own process:

    python -m paceline.testbed.switch DELAY_S NAMESPACE…

It makes a TAP interface eth0 in every namespace, goes into the background, learns which address lives where, and passes
each frame on DELAY_S after it came. It ends when its namespaces are gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
from collections import deque
from collections.abc import Sequence
from time import monotonic

__all__ = ["main"]

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_FRAME_BYTES = 65_536
_LOOK_S = 1.0  # how often it looks whether its namespaces are still there
_GROUP = 1  # lowest bit of the first byte: a frame for many
_MOST_WAITING = 20_000  # frames on their way; beyond them a switch drops


def main(words: Sequence[str]) -> int:
    """Pass frames until the namespaces are gone."""
    delay_s, namespaces = float(words[0]), list(words[1:])
    taps = [_open_tap(name) for name in namespaces]
    if os.fork():  # the interfaces are there: whoever waits for this process may go on
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    _pass_frames(taps, delay_s, [f"/run/netns/{name}" for name in namespaces])
    return 0


def _pass_frames(taps: list[int], delay_s: float, homes: list[str]) -> None:
    lives_at: dict[bytes, int] = {}
    waiting: deque[tuple[float, bytes, int]] = (
        deque()
    )  # due, frame, from; one delay for all keeps it in order
    looked = monotonic()
    while True:
        now = monotonic()
        while waiting and waiting[0][0] <= now:
            _, frame, source = waiting.popleft()
            target = None if frame[0] & _GROUP else lives_at.get(frame[:6])
            for tap in taps if target is None else (target,):
                if tap != source:
                    _send(tap, frame)
        if now - looked > _LOOK_S:
            looked = now
            if not any(os.path.exists(home) for home in homes):
                return
        pause = min(_LOOK_S, waiting[0][0] - now) if waiting else _LOOK_S
        readable, _, _ = select.select(taps, [], [], max(0.0, pause))
        for tap in readable:
            for _ in range(64):
                try:
                    frame = os.read(tap, _FRAME_BYTES)
                except OSError:
                    break
                lives_at[frame[6:12]] = tap
                if len(waiting) < _MOST_WAITING:
                    waiting.append((monotonic() + delay_s, frame, tap))


def _send(tap: int, frame: bytes) -> None:
    try:
        os.write(tap, frame)
    except OSError:
        return  # the host's interface is down: the frame is lost, as on a cable


def _open_tap(namespace: str) -> int:
    """A TAP interface eth0 in another namespace, read and written from here."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as home, open(f"/run/netns/{namespace}", "rb") as there:
        _enter(libc, there.fileno(), namespace)
        try:
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", b"eth0", _IFF_TAP | _IFF_NO_PI))
        finally:
            _enter(libc, home.fileno(), "home")
    return tap


def _enter(libc: ctypes.CDLL, number: int, name: str) -> None:
    if libc.setns(number, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, f"setns {name}: {os.strerror(code)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
