"""Does a training get out of its links what they carry? Wire time beside what a probe says the whole exchange takes.

    exchange of G bytes in k buckets, as probed     k · hops · α + 2(N−1)/N · G/B

Wire time is only the part of the exchange that nothing hides. Where even that part is twice as long as the whole
exchange should be, something besides the links slows it: that is said. The other way round nothing follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.core import calibration
from paceline.core.units import bytes_text, duration_text, rate_text
from paceline.links.fit import link_of
from paceline.links.probe import rounds
from paceline.measure.waiting import bus_factor
from paceline.records import Finding, LinkProbe, Profile

__all__ = ["exchange_findings", "exchange_s"]

_SLOWED_RATIO = 2.0


def exchange_s(profile: Profile, link: LinkProbe) -> float | None:
    """Seconds that the whole exchange of a step should take, were nothing to disturb it."""
    size, workers, nodes = profile.exchanged_bytes_per_step, profile.point.workers, profile.point.nodes
    if size is None or workers < 2 or "bytes_per_s" in link.unidentified:
        return None
    buckets = len(profile.buckets) or 1 + int(size.value // calibration.BUCKET_BYTES.value)
    hops = rounds("all_reduce", workers if nodes == 1 else nodes)
    known = link_of(link)
    moved = size.value * bus_factor("all_reduce", workers)
    return buckets * hops * known.latency_s + moved / known.bytes_per_s


def exchange_findings(profiles: Sequence[Profile], links: Sequence[LinkProbe]) -> tuple[Finding, ...]:
    """Points whose exchange takes far longer than their links, as probed, would need."""
    found = []
    for profile in profiles:
        point, wire, size = profile.point, profile.wire_s, profile.exchanged_bytes_per_step
        where = "inside" if point.nodes == 1 else "between"
        link = next((one for one in links if (one.link, one.backend) == (where, point.backend)), None)
        needed = None if link is None else exchange_s(profile, link)
        if link is None or needed is None or wire is None or size is None:
            continue
        if wire.low is not None and wire.low > _SLOWED_RATIO * needed:
            found.append(
                Finding(
                    "exchange-below-probe",
                    "doubt",
                    f"{duration_text(wire.value)} of each step is waiting for the network. The links, as probed "
                    f"({rate_text(link.bytes_per_s.value)}), move its {bytes_text(size.value)} in "
                    f"{duration_text(needed)}: something besides the links slows communication",
                    value=wire.value / needed,
                    threshold=_SLOWED_RATIO,
                    hint="a core for the communication of every worker (--threads), fewer and larger buckets "
                    "(bucket_cap_mb), and who else is on the network",
                    point=point.id,
                )
            )
    return tuple(found)
