"""One published file onto the disk: resumed where it broke off, checked, and under its name only when it is right.

FOLDER/.NAME.part    what has come so far; the next attempt asks for the rest
FOLDER/NAME          complete, with the published checksum
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

from paceline.core.errors import PacelineError
from paceline.store.atomic import flush_folder, make_folder

__all__ = ["download"]

_CHUNK = 1 << 20
_PATIENCE_S = 30.0


def download(url: str, path: Path, *, md5: str, came: Callable[[int], None]) -> bool:
    """Bring the file; False when it was there already. `came` hears the bytes so far."""
    if path.exists():
        _checked(path, md5)
        return False
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.part")
    try:
        _rest(url, beside, came=came)
    except urllib.error.HTTPError as problem:
        if problem.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # nothing is left to ask for
            raise PacelineError(f"{url}: {problem.code} {problem.reason}", hint=_by_hand(url, path)) from None
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise PacelineError(f"cannot fetch {url}: {reason}", hint=_by_hand(url, path)) from None
    _checked(beside, md5)
    os.replace(beside, path)
    flush_folder(path.parent)
    return True


def _rest(url: str, beside: Path, *, came: Callable[[int], None]) -> None:
    """Ask for what is missing; a server that sends the whole again is taken at its word."""
    held = beside.stat().st_size if beside.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={held}-"} if held else {})
    with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
        goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT
        expected = answer.headers.get("Content-Length")
        total = (held if goes_on else 0) + int(expected) if expected else None
        with open(beside, "ab" if goes_on else "wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                came(file.tell())
            size = file.tell()
    if total is not None and size < total:
        raise ConnectionError(f"broke off after {size} of {total} bytes")


def _checked(path: Path, md5: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != md5:
        raise PacelineError(
            f"{path} has MD5 {digest.hexdigest()}, published is {md5}",
            hint=f"remove {path} and try again; if it happens twice, the source has changed",
        )


def _by_hand(url: str, path: Path) -> str:
    return f"the same command again goes on where it stopped; or bring {url} to {path} by hand, it is checked then"
