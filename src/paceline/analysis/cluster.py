"""What a cluster file declares -> a Cluster with beliefs about its links, and a price written as `2.5/gpu-h`.

    [cluster]                                    [links.inside]            [links.between]
    workers_per_node = 4                         kind = "pcie3"            kind = "tcp"
    gradient_bytes = 44_695_848                                            gbit_per_s = 50
    price = "EUR 2.5/gpu-h"

A link may also give bytes_per_s and latency_s outright (measured = true: a probe saw them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from paceline.analysis.question import Cluster
from paceline.core.errors import UsageError
from paceline.decide.recommend import Prices
from paceline.links.belief import LinkBelief, LinkSpec, Transport, declared, measured, transports
from paceline.records import Link, LinkClass

__all__ = ["cluster_from", "price_from"]

Data = Mapping[str, object]
_CLASSES: tuple[LinkClass, ...] = ("inside", "between")


def cluster_from(data: Data, kinds: Mapping[str, Mapping[str, object]]) -> Cluster:
    """The Cluster that a cluster file describes; `kinds` are the shipped kinds of links."""
    unknown = set(data) - {"cluster", "links", "kinds", "workload"}
    if unknown:
        raise UsageError(
            f"the cluster file has an unknown section [{sorted(unknown)[0]}]",
            hint="it may have [cluster], [links.inside], [links.between] and [kinds.NAME]",
        )
    known = transports({**kinds, **_section(data, "kinds")})
    general = {**_section(data, "workload"), **_section(data, "cluster")}
    links = _section(data, "links")
    per_node = general.get("workers_per_node")
    if per_node is not None and (not isinstance(per_node, int) or per_node < 1):
        raise UsageError(
            f"workers_per_node = {per_node!r} in the cluster file", hint="give a whole number of at least 1"
        )
    size = _number(general, "gradient_bytes")
    if size is None and (parameters := _number(general, "parameters")) is not None:
        size = 4.0 * parameters
    return Cluster(
        workers_per_node=per_node,
        inside=_link(links, "inside", known),
        between=_link(links, "between", known),
        gradient_bytes=size,
        description=str(general.get("name", "")),
        price=_price(general),
        specs={name: spec for name in _CLASSES if (spec := _spec(links, name, known)) is not None},
    )


def price_from(text: str) -> Prices:
    """`2.5/gpu-h`, `0.04/worker-h` (also of CPUs), `40/node-h`; a currency before or after the number."""
    match = re.fullmatch(
        r"\s*([A-Z$€£]{0,3})\s*([0-9]*\.?[0-9]+)\s*([A-Z$€£]{0,3})"
        r"\s*(?:/\s*(gpu|(?:cpu[-_ ]?)?worker|device|cpu|node)[-_ ]?h(?:our)?)?\s*",
        text,
    )
    if match is None or (match[1] and match[3]):
        raise UsageError(
            f"{text!r} is not a price", hint="write EUR 2.5/gpu-h, EUR 0.04/worker-h or EUR 40/node-h"
        )
    value, currency = float(match[2]), match[1] or match[3]
    if match[4] == "node":
        return Prices(per_node_hour=value, currency=currency)
    return Prices(per_worker_hour=value, currency=currency)


def _price(general: Data) -> Prices | None:
    """What a cluster file says that a worker or node costs."""
    price = general.get("price")
    if price is None:
        return None
    if isinstance(price, (int, float)) and not isinstance(price, bool):
        price = str(price)
    if not isinstance(price, str):
        raise UsageError(f"price = {price!r} in the cluster file", hint='write price = "EUR 2.5/gpu-h"')
    return price_from(price)


def _link(links: Data, name: str, known: Mapping[str, Transport]) -> LinkBelief | None:
    row = links.get(name)
    if row is None:
        return None
    if not isinstance(row, Mapping):
        raise UsageError(
            f"[links.{name}] is not a section", hint='write [links.between] and kind = "tcp" below it'
        )
    rate, bits = _number(row, "bytes_per_s"), _number(row, "gbit_per_s")
    rate = rate if rate is not None else None if bits is None else bits * 1e9 / 8
    latency = _number(row, "latency_s")
    if row.get("measured"):
        if rate is None or latency is None:
            raise UsageError(
                f"[links.{name}] is measured but lacks bytes_per_s or latency_s", hint="give both"
            )
        return measured(Link(latency, rate, name, "cluster file, measured"))
    kind = _kind(row, name)
    if kind not in known:
        raise UsageError(
            f"[links.{name}] kind = {kind!r} is not known", hint=f"choose one of {', '.join(known)}"
        )
    found = declared(known[kind], bytes_per_s=rate)
    if latency is None:
        return found
    return LinkBelief(found.bytes_per_s, found.bytes_sd, latency, found.latency_sd, found.source)


def _spec(links: Data, name: str, known: Mapping[str, Transport]) -> LinkSpec | None:
    """What a declared link promises; a link that was measured promises nothing."""
    row = links.get(name)
    if not isinstance(row, Mapping) or row.get("measured"):
        return None
    rate, bits = _number(row, "bytes_per_s"), _number(row, "gbit_per_s")
    transport = known.get(_kind(row, name))
    nominal = rate or (bits * 1e9 / 8 if bits else transport.nominal_bytes_per_s if transport else None)
    return None if nominal is None or transport is None else LinkSpec(transport.name, nominal, transport)


def _kind(row: Data, name: str) -> str:
    return str(row.get("kind", "ethernet" if name == "between" else "pcie4"))


def _section(data: Data, name: str) -> dict[str, Mapping[str, object]]:
    value = data.get(name, {})
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} in the cluster file is not a section", hint=f"write [{name}]")
    return cast(dict[str, Mapping[str, object]], dict(value))


def _number(row: Data, name: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise UsageError(f"{name} = {value!r} in the cluster file", hint="give a positive number")
    return float(value)
