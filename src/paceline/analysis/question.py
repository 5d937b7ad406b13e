"""What is asked beyond the measurements themselves, and what is known of the machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.converge.epochs import Curve
from paceline.decide.recommend import Prices
from paceline.links.belief import LinkBelief, LinkSpec
from paceline.predict.refusals import Cores
from paceline.predict.whatif import NO_CHANGE, Change
from paceline.records import JitterProbe, LinkClass, LinkProbe, Setting
from paceline.table.columns import column

__all__ = ["Ask", "Cluster", "Series", "network_of"]

Series = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The machines: workers per node and link classes as declared, backend and cores as the workers saw them."""

    workers_per_node: int | None = None
    inside: LinkBelief | None = None
    between: LinkBelief | None = None
    gradient_bytes: float | None = None
    description: str = ""
    backend: str | None = None  # where a Point names none
    cores: Cores | None = None
    probes: tuple[LinkProbe, ...] = ()  # what was probed counts for more than what was declared
    jitter: tuple[JitterProbe, ...] = ()
    specs: Mapping[LinkClass, LinkSpec] = field(default_factory=dict)  # what the links promise
    devices_per_node: int | None = None  # as the workers saw them
    price: Prices | None = None  # what a worker or node costs an hour, as declared


@dataclass(frozen=True, slots=True)
class Ask:
    """What is wanted beyond the measurements themselves."""

    fit_up_to: int | None = None
    project_to: tuple[int, ...] | None = None  # None: two and four times the largest measured count
    at: tuple[tuple[Setting, Series], ...] = ()  # settings, with the series they belong to
    samples: int | None = None
    device_bytes: int | None = (
        None  # memory of every worker; None: the device's own, or what it was limited to
    )
    absolute: bool = True  # whether step times are seconds, not derived from an ambiguous throughput
    prices: Prices = field(default_factory=Prices)
    change: Change = NO_CHANGE
    curves: tuple[Curve, ...] = ()
    plateau_epochs: Mapping[Series, Mapping[int, float]] = field(default_factory=dict)
    # of every network: global batch -> epochs to stable accuracy
    seed: int = 0


def network_of(series: Series) -> Series:
    """What of a series learns: all but the device that it runs on."""
    known = ((name, value, column(0, name)) for name, value in series)
    return tuple((name, value) for name, value, what in known if what is None or what.quantity != "gpu")
