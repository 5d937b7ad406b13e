"""What is declared beside the measurements: machines and prices, settings to predict, what is wanted."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from paceline.analysis.cluster import cluster_from, price_from
from paceline.analysis.question import Ask, Cluster
from paceline.analysis.table import settings_of
from paceline.core.errors import TableError, UsageError
from paceline.core.units import duration
from paceline.data import shipped
from paceline.decide.recommend import Prices
from paceline.table.read import read_settings

__all__ = ["ask_of", "cluster_of", "prices_of", "text_of"]


def ask_of(fit_up_to: int | None, project_to: Sequence[int] | None, at: Path | None, prices: Prices) -> Ask:
    """What is asked of measurements."""
    return Ask(
        fit_up_to=fit_up_to,
        project_to=None if project_to is None else tuple(project_to),
        at=() if at is None else settings_of(read_settings(text_of(at))),
        prices=prices,
    )


def prices_of(
    price: str | None,
    deadline: str | None,
    budget: float | None,
    value: float | None,
    cluster: Cluster | None = None,
) -> Prices:
    """What resources cost and what is wanted; the price of the command line counts for more than the cluster's."""
    declared = None if cluster is None else cluster.price
    prices = price_from(price) if price is not None else declared or Prices()
    return replace(
        prices,
        deadline_s=None if deadline is None else duration(deadline),
        budget=budget,
        value_per_hour=value,
    )


def cluster_of(path: Path | None) -> Cluster | None:
    """The declared Cluster, or None."""
    if path is None:
        return None
    try:
        data = tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path} is not TOML: {error}", hint="compare with docs/background/prediction.md"
        ) from None
    return cluster_from(data, shipped("links"))


def text_of(path: Path) -> str:
    """A whole text file, or standard input for `-`."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8 text", hint="save the table as CSV in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="check the path") from None
