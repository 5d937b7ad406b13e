"""What a probe says, as text: the links first, then every size, then devices, then what to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from paceline.core.units import (
    bytes_text,
    counts_text,
    duration_range_text,
    duration_text,
    percent_text,
    rate_range_text,
    rate_text,
)
from paceline.links.device import device_lines
from paceline.links.probe import OPS
from paceline.links.spec import class_text
from paceline.predict.after_wait import after_wait_lines
from paceline.predict.jitter import jitter_lines
from paceline.records import DeviceProbe, JitterProbe, LinkProbe, ProbeRow

__all__ = ["probe_lines"]

_POOR_FIT = 0.2


def probe_lines(
    links: Sequence[LinkProbe], devices: Sequence[DeviceProbe], jitter: Sequence[JitterProbe] = ()
) -> Iterator[str]:
    """All that was measured."""
    for link in links:
        yield from _link_lines(link)
        yield ""
    yield from device_lines(devices)
    yield from jitter_lines(jitter)
    yield from after_wait_lines(jitter)


def _link_lines(link: LinkProbe) -> Iterator[str]:
    nodes = f" on {link.nodes} nodes" if link.nodes > 1 else ""
    counts = counts_text(row.workers for row in link.rows)
    yield f"Links {class_text(link.link)}, {link.backend}, {counts} workers{nodes} ({link.source}):"
    fixed = "with the fixed cost of a call in it (probe a second worker count to tell them apart)"
    if link.fixed_s is not None:
        fixed = f"and {duration_range_text(link.fixed_s)} for every call"
    if "bytes_per_s" in link.unidentified:
        seen = rate_text(link.bytes_per_s.value)
        most = bytes_text(max(row.size_bytes for row in link.rows))
        yield f"  bandwidth at least {seen}: latency and noise hide it up to {most} (larger --bytes, more --seconds)"
    else:
        yield f"  bandwidth {rate_range_text(link.bytes_per_s)}"
    yield f"  latency   {duration_range_text(link.latency_s)} per hop, {fixed}"
    if link.cores_s_per_byte is not None:
        yield f"  cores     a GB keeps those of a node busy for {duration_text(1e9 * link.cores_s_per_byte)}"
    if link.busy_hop_s is not None:
        yield f"  computing makes a hop {duration_range_text(link.busy_hop_s)} longer"
    if link.spec_bytes_per_s:
        share = percent_text(link.bytes_per_s.value / link.spec_bytes_per_s)
        least = "at least " if "bytes_per_s" in link.unidentified else ""
        yield f"  specified {rate_text(link.spec_bytes_per_s)} ({link.spec}): {least}{share} of it arrives"
    else:
        yield f"  specified not known here: --spec {link.link}=KIND or a rate (25gbit) compares"
    if link.misfit_ratio is not None and link.misfit_ratio > _POOR_FIT:
        yield (
            f"  the times lie {percent_text(link.misfit_ratio)} off latency + size/bandwidth: "
            "read the sizes of your gradients in the table"
        )
    for workers, nodes_of in dict.fromkeys((row.workers, row.nodes) for row in link.rows):
        rows = [row for row in link.rows if (row.workers, row.nodes) == (workers, nodes_of)]
        yield ""
        yield _table(rows, f"{workers} workers")


def _table(rows: Sequence[ProbeRow], title: str) -> str:
    ops = [op for op in OPS if any(row.op == op for row in rows)]
    cells = {(row.size_bytes, row.op): row for row in rows}
    table = []
    for size in sorted({row.size_bytes for row in rows}):
        line = [bytes_text(size)]
        for op in ops:
            row = cells.get((size, op))
            line += (
                ["–", "–"]
                if row is None
                else [duration_text(row.seconds.value), rate_text(row.bus_bytes_per_s.value)]
            )
        table.append(line)
    headers = [title, *(word for op in ops for word in (op.replace("_", "-"), "bus"))]
    return tabulate(table, headers=headers, tablefmt="simple", disable_numparse=True, stralign="right")
