"""`paceline data`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.options.complete import datasets
from paceline.cli.text.guard import unguarded
from paceline.core.errors import UsageError
from paceline.core.units import bytes_text
from paceline.data import shipped
from paceline.store.download import download

__all__ = ["data"]

_BY_HAND = {
    "fruit": "its publisher asks for an account: fetch 'fruits fresh and rotten for classification' by hand",
    "steering": "record it with Udacity's driving simulator: images, and a csv with columns file,steering",
}


def data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which data; without it, a list.", autocompletion=datasets),
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The folder.  [default: ./data/NAME]")] = None,
    source: Annotated[
        str | None, typer.Option(metavar="URL", help="A mirror that has the same files under this address.")
    ] = None,
) -> None:
    """Bring published data here: checked, and resumed if it breaks off. Files that are there are checked only.

    paceline data mnist && paceline train mnist --data data/mnist
    """
    known = shipped("datasets")
    if name is None:
        for each, row in known.items():
            print(f"{each:15} {row['base']}")
        return
    if name in _BY_HAND:
        raise UsageError(
            f"{name} cannot be downloaded: {_BY_HAND[name]}", hint=f"paceline train {name} --data FOLDER"
        )
    if name not in known:
        raise UsageError(f"{name!r} is not known; there are {', '.join(known)}", hint="paceline data")
    row, folder = known[name], to or Path("data") / name
    files = row["files"]
    assert isinstance(files, dict)  # the shipped file says so
    base = (source or str(row["base"])).rstrip("/") + "/"
    for file, md5 in files.items():
        with _telling(file) as came:
            new = download(base + file, folder / file, md5=md5, came=came)
        print(
            f"{folder / file}: {'fetched, checksum right' if new else 'was here, checksum right'}",
            file=sys.stderr,
        )
    print(str(row["next"]).replace("FOLDER", str(folder)))


class _telling:  # noqa: N801 - used as a word of the with statement
    """Bytes so far, on a terminal only."""

    def __init__(self, file: str) -> None:
        self._status = Console(file=unguarded(sys.stderr)).status(file)
        self._file = file

    def __enter__(self) -> Callable[[int], None]:
        if sys.stderr.isatty():
            self._status.start()
        return lambda size: self._status.update(f"{self._file}: {bytes_text(size)}")

    def __exit__(self, *problem: object) -> None:
        self._status.stop()
