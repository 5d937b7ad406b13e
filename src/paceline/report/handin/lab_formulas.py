"""The formulas of a lab report, filled with the student's own numbers.

speed-up     S(N) = T(1) / T(N) of the same work = throughput(N) / throughput(1)
efficiency   E(N) = S(N) / (N / workers of the Baseline)
serial part  s = (1/S(N) - 1/N) / (1 - 1/N)                 (Amdahl)
step         T = compute + waiting for the slowest + network
bandwidth    B = 2 (n-1)/n · bytes / t of an all-reduce, and its share of what the link carries
"""

from __future__ import annotations

from paceline.core.units import (
    bytes_text,
    duration_text,
    estimate_text,
    percent_text,
    rate_text,
    workers_text,
)
from paceline.records import Analysis, Estimate, LinkProbe, Profile
from paceline.report.charts.steps import time_unit
from paceline.report.handin.blocks import Blank, Block, Formula, Sentence

__all__ = ["bandwidth_formulas", "speedup_formulas", "step_formula"]


def speedup_formulas(name: str, own: list[Profile]) -> list[Block]:
    """Speed-up and efficiency of one line, count by count, against its first point."""
    base = own[0]
    what = (
        "X is the throughput in samples per second"
        if base.throughput_per_s
        else "T is the time of the same work"
    )
    opening = (
        f"Speed-up S and efficiency E ({name}), relative to {workers_text(base.point.workers, base.unit)}"
    )
    shown: list[Block] = [Sentence(f"{opening}; {what}:")]
    for profile in own[1:]:
        n, first = profile.point.workers, base.point.workers
        if profile.speedup is None:
            continue
        rule, numbers = _ratio(base, profile)
        shown.append(Formula(rf"S({n}) = {rule} = {numbers} = {_value(profile.speedup)}"))
        if profile.efficiency_ratio is not None:
            more = f"{n}/{first}" if first > 1 else str(n)
            shown.append(
                Formula(
                    rf"E({n}) = \frac{{S({n})}}{{{more}}} = \frac{{{_value(profile.speedup)}}}{{{more}}} = "
                    rf"{_percent(profile.efficiency_ratio.value)}"
                )
            )
    return [*shown, *_serial_part(base, own[-1])]


def _serial_part(base: Profile, last: Profile) -> list[Block]:
    """Amdahl's s from the largest count; nothing where it runs faster than its workers allow."""
    n, speedup = last.point.workers, last.speedup
    if speedup is None or base.point.workers != 1 or n < 2:
        return []
    serial = (1 / speedup.value - 1 / n) / (1 - 1 / n)
    if serial <= 0:
        return []
    return [
        Sentence(
            "If a part s of the work stays serial (Amdahl), S(N) = 1 / (s + (1 - s)/N). From the largest count:"
        ),
        Formula(
            rf"s = \frac{{1/S({n}) - 1/{n}}}{{1 - 1/{n}}} = "
            rf"\frac{{1/{_value(speedup)} - 1/{n}}}{{1 - 1/{n}}} = {_value(Estimate(serial))}, \qquad "
            rf"S(\infty) = 1/s = {_value(Estimate(1 / serial))}"
        ),
        Blank("Is that part really serial work? What else makes more workers slower than N times one?"),
    ]


def _ratio(base: Profile, profile: Profile) -> tuple[str, str]:
    """The rule that gives the speed-up, and the numbers in it."""
    n, first = profile.point.workers, base.point.workers
    if base.throughput_per_s and profile.throughput_per_s:
        rule = rf"\frac{{X({n})}}{{X({first})}}"
        return rule, rf"\frac{{{_value(profile.throughput_per_s)}}}{{{_value(base.throughput_per_s)}}}"
    before, after = (
        base.job_s or base.epoch_s or base.step_s,
        profile.job_s or profile.epoch_s or profile.step_s,
    )
    rule = rf"\frac{{T({first})}}{{T({n})}}"
    if before is None or after is None:
        return rule, rule
    if profile.point.scaling == "weak" and not (
        base.job_s or base.epoch_s
    ):  # a step at n workers does more work
        more = rf"\frac{{{n}}}{{{first}}} \cdot "
        return more + rule, more + rf"\frac{{{_value(before)}}}{{{_value(after)}}}"
    return rule, rf"\frac{{{_value(before)}}}{{{_value(after)}}}"


def step_formula(most: Profile) -> list[Block]:
    """The parts of a step at the largest count."""
    parts = (most.compute_s, most.straggle_s, most.wire_s, most.step_s)
    factor, unit = time_unit([part.value for part in parts if part])
    numbers = [_value(part, factor) for part in parts if part]
    tex = (
        r"T = T_\mathrm{compute} + T_\mathrm{slowest} + T_\mathrm{network} = "
        rf"{' + '.join(numbers[:3])} \approx {numbers[3]}\ \mathrm{{{unit.replace('µ', 'u')}}}"
    )
    count = workers_text(most.point.workers, most.unit)
    return [
        Sentence(f"One step at {count}; each part is a median, so the sum need not be exact:"),
        Formula(tex),
    ]


def bandwidth_formulas(analysis: Analysis) -> list[Block]:
    """What the largest count communicates, how fast, and what share of the probed link that is."""
    sent = [
        p for p in analysis.points if p.bus_bytes_per_s and p.exchanged_bytes_per_step and p.point.workers > 1
    ]
    if not sent:
        return []
    most = max(sent, key=lambda p: p.point.workers)
    n, size, rate = most.point.workers, most.exchanged_bytes_per_step, most.bus_bytes_per_s
    if size is None or rate is None:
        return []
    shown: list[Block] = [
        Sentence(
            f"Every worker communicates {bytes_text(size.value)} in a step at {workers_text(n, most.unit)}."
        )
    ]
    bus = _upright(rate_text(rate.value))
    if most.strategy in (None, "ddp"):  # all of it is all-reduce, which has this factor
        took = 2 * (n - 1) / n * size.value / rate.value
        shown.append(
            Formula(
                rf"B_\mathrm{{bus}} = \frac{{2(n-1)}}{{n}} \cdot \frac{{\mathrm{{bytes}}}}{{t}} = "
                rf"\frac{{2 \cdot {n - 1}}}{{{n}}} \cdot "
                rf"\frac{{{_upright(bytes_text(size.value))}}}{{{_upright(duration_text(took))}}} = {bus}"
            )
        )
    else:
        shown.append(Formula(rf"B_\mathrm{{bus}} = {bus}"))
    return [*shown, *_share(analysis, most, rate)]


def _share(analysis: Analysis, most: Profile, rate: Estimate) -> list[Block]:
    """The share of the slowest link on the way that was probed."""
    where = "between" if most.point.nodes > 1 else "inside"
    links = [
        one for one in analysis.links if one.link == where and _of(one, most) and one.bytes_per_s.value > 0
    ]
    if not links:
        return [
            Sentence(
                "The link was not probed, so the share of it that is used is not known: "
                "paceline probe measures it."
            ),
            Blank("Which rate does the link between your workers promise, and what share of it is B?"),
        ]
    link = min(links, key=lambda one: one.bytes_per_s.value)
    share = rate.value / link.bytes_per_s.value
    numbers = rf"\frac{{{_upright(rate_text(rate.value))}}}{{{_upright(rate_text(link.bytes_per_s.value))}}}"
    return [
        Formula(rf"\frac{{B_\mathrm{{bus}}}}{{B_\mathrm{{link}}}} = {numbers} = {_percent(share)}"),
        Blank("Why is it not all of the link? Think of latency, and of what else the link or the cores do."),
    ]


def _of(link: LinkProbe, most: Profile) -> bool:
    return most.point.backend is None or link.backend == most.point.backend


def _value(quantity: Estimate, factor: float = 1.0) -> str:
    """The number alone, to three figures."""
    return estimate_text(Estimate(quantity.value), factor=factor)


def _percent(ratio: float) -> str:
    return percent_text(ratio).replace("%", r"\,\%")


def _upright(text: str) -> str:
    return rf"\mathrm{{{text.replace(' ', '~').replace('µ', 'u')}}}"
