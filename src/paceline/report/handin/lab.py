"""The skeleton of a lab report: question, setup, results with the formulas filled with the student's own numbers,
and what to discuss. What it measures is written; what it means is left to the student, where a line says so.

    speed-up     S(N) = T(1) / T(N) of the same work = throughput(N) / throughput(1)
    efficiency   E(N) = S(N) / (N / workers of the Baseline)
    step         T = compute + waiting for the slowest + network
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.core.units import bytes_text, estimate_text, gain_text, percent_text, rate_text
from paceline.decide.sentence import verdict_text
from paceline.records import Analysis, Estimate, Profile
from paceline.report.charts.series import lines, scalings
from paceline.report.charts.steps import time_unit
from paceline.report.document import Figure, Table
from paceline.report.handin.performance import performance
from paceline.report.sections import sections, title
from paceline.report.tables.measured import scaling_table, split_table

__all__ = ["Blank", "Block", "Formula", "Heading", "Sentence", "lab_blocks"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A section of the lab report."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """Something that is known."""

    text: str


@dataclass(frozen=True, slots=True)
class Formula:
    """One quantity with the student's numbers, as TeX: symbol = rule = numbers = result."""

    tex: str


@dataclass(frozen=True, slots=True)
class Blank:
    """A question to the student."""

    question: str


Block = Heading | Sentence | Formula | Blank | Table | Figure


def lab_blocks(analysis: Analysis) -> tuple[Block, ...]:
    """The whole report in the order of reading."""
    return (
        *_question(analysis),
        *_setup(analysis),
        Heading("Results"),
        *_speedups(analysis),
        *_step(analysis),
        *_exchange(analysis),
        *_accuracy(analysis),
        *_discussion(analysis),
    )


def _question(analysis: Analysis) -> list[Block]:
    return [
        Heading("Question"),
        Sentence(f"How much faster does {title(analysis)} become with more workers, and what limits it?"),
        Blank("What did you expect before you measured, and why?"),
    ]


def _setup(analysis: Analysis) -> list[Block]:
    known = [
        Sentence(f"{paragraph.title}: {paragraph.text}")
        for paragraph in performance(analysis)
        if paragraph.title in ("Problem", "Machine", "Precision and I/O", "Method")
    ]
    return [
        Heading("Setup"),
        *known,
        Blank("What else ran on the machine? What did you keep the same from count to count, and what not?"),
    ]


def _speedups(analysis: Analysis) -> list[Block]:
    found: list[Block] = []
    table = scaling_table(analysis)
    if table is not None:
        found.append(table)
    found += [
        figure
        for section in sections(analysis)
        if section.id == "scaling"
        for figure in section.figures
        if figure.id.startswith("speedup")
    ]
    for mode in scalings(analysis):
        for name, own in lines(analysis, mode).items():
            found += _speedup(name, own)
    return found


def _speedup(name: str, own: list[Profile]) -> list[Block]:
    """Speed-up and efficiency of one line, count by count, against its first point."""
    base = own[0]
    what = (
        "X is the throughput in samples per second"
        if base.throughput_per_s
        else "T is the time of the same work"
    )
    first_words = f"Speed-up S and efficiency E ({name}), relative to {_workers(base.point.workers)}"
    shown: list[Block] = [Sentence(f"{first_words}; {what}:")]
    for profile in own[1:]:
        n, first = profile.point.workers, base.point.workers
        if profile.speedup is None:
            continue
        rule, numbers = _ratio(base, profile)
        shown.append(Formula(rf"S({n}) = {rule} = {numbers} = {_value(profile.speedup)}"))
        if profile.efficiency_ratio is not None:
            percent = percent_text(profile.efficiency_ratio.value).replace("%", r"\,\%")
            more = f"{n}/{first}" if first > 1 else str(n)
            shown.append(
                Formula(
                    rf"E({n}) = \frac{{S({n})}}{{{more}}} = \frac{{{_value(profile.speedup)}}}{{{more}}} = {percent}"
                )
            )
    last = own[-1]
    if last.speedup is not None and base.point.workers == 1 and last.point.workers > 1:
        n = last.point.workers
        shown += [
            Sentence(
                "If a part s of the work stays serial (Amdahl), S(N) = 1 / (s + (1 - s)/N). From your largest count:"
            ),
            Formula(
                rf"s = \frac{{1/S({n}) - 1/{n}}}{{1 - 1/{n}}} = "
                rf"\frac{{1/{_value(last.speedup)} - 1/{n}}}{{1 - 1/{n}}} = \;?"
            ),
            Blank("How large is s, and what speed-up would it allow with very many workers?"),
        ]
    return shown


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


def _step(analysis: Analysis) -> list[Block]:
    table = split_table(analysis)
    split = [p for p in analysis.points if p.compute_s and p.straggle_s and p.wire_s and p.step_s]
    if table is None or not split:
        return []
    most = max(split, key=lambda p: p.point.workers)
    parts = (most.compute_s, most.straggle_s, most.wire_s, most.step_s)
    factor, unit = time_unit([part.value for part in parts if part])
    numbers = [_value(part, factor) for part in parts if part]
    tex = (
        r"T = T_\mathrm{compute} + T_\mathrm{slowest} + T_\mathrm{network} = "
        rf"{' + '.join(numbers[:3])} \approx {numbers[3]}\ \mathrm{{{unit.replace('µ', 'u')}}}"
    )
    return [
        table,
        Sentence(
            f"One step at {_workers(most.point.workers)}; each part is a median, so the sum need not be exact:"
        ),
        Formula(tex),
        Blank("Which part grows with the workers, and why that one?"),
    ]


def _exchange(analysis: Analysis) -> list[Block]:
    sent = [
        p for p in analysis.points if p.bus_bytes_per_s and p.exchanged_bytes_per_step and p.point.workers > 1
    ]
    if not sent:
        return []
    most = max(sent, key=lambda p: p.point.workers)
    n, size, rate = most.point.workers, most.exchanged_bytes_per_step, most.bus_bytes_per_s
    if size is None or rate is None:
        return []
    moved = rf"\mathrm{{{bytes_text(size.value).replace(' ', '~')}}}"
    told = f"Every worker communicates {bytes_text(size.value)} in a step at {_workers(n)}."
    return [
        Sentence(told),
        Formula(
            rf"B_\mathrm{{bus}} = \frac{{2(n-1)}}{{n}} \cdot \frac{{\mathrm{{bytes}}}}{{t}} = "
            rf"\frac{{2 \cdot {n - 1}}}{{{n}}} \cdot \frac{{{moved}}}{{t}} = "
            rf"\mathrm{{{rate_text(rate.value).replace(' ', '~')}}}"
        ),
        Blank("How does this compare with the rate of the link between your workers?"),
    ]


def _accuracy(analysis: Analysis) -> list[Block]:
    found = analysis.convergence
    if found is None:
        return []
    shown: list[Block] = []
    if found.plateau_epoch is not None and not found.censored:
        shown.append(Sentence(f"Accuracy is stable from epoch {estimate_text(found.plateau_epoch)} on."))
    elif found.censored:
        shown.append(
            Sentence("Accuracy was still rising at the last epoch: train longer to see where it is stable.")
        )
    shown += [table for section in sections(analysis) if section.id == "accuracy" for table in section.tables]
    if shown:
        shown.append(
            Blank("Did more workers change the accuracy? Is the difference larger than that between seeds?")
        )
    return shown


def _discussion(analysis: Analysis) -> list[Block]:
    doubts = [finding for finding in analysis.findings if finding.level != "note"]
    asked: list[Block] = [Heading("Discussion"), Sentence(verdict_text(analysis.verdict))]
    asked.append(Blank("Does this agree with what you expected? Where not, what explains it?"))
    asked += [Blank(f"{finding.text}. What does this mean for your results?") for finding in doubts[:6]]
    for projection in analysis.projections[:1]:
        speedup = gain_text(projection.speedup)
        asked.append(
            Blank(
                f"For {projection.workers} workers a speed-up of {speedup} is predicted, not measured. "
                "Which of your measurements does this rest on, and what could make it wrong?"
            )
        )
    asked += [
        Blank("How many workers would you use for this training, and at what price do the last ones come?"),
        Heading("Conclusion"),
        Blank("Your answer to the question, in three sentences."),
    ]
    return asked


def _value(quantity: Estimate, factor: float = 1.0) -> str:
    """The number alone, to three figures."""
    return estimate_text(Estimate(quantity.value), factor=factor)


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"
