"""The half page that a proposal asks for: problem, machine, method, result, limit, outlook and resources, in sentences.

Only what is known is said, every number as the tables have it; measured and projected are told apart in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.core.units import (
    bytes_text,
    counts_text,
    duration_range_text,
    estimate_text,
    gain_text,
    percent_text,
    workers_text,
)
from paceline.decide.sentence import verdict_text
from paceline.records import Analysis, Decision, Estimate, Option, Profile
from paceline.report.tables.cells import listed

__all__ = ["Paragraph", "device_hours", "performance"]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences under one word."""

    title: str
    text: str


def performance(analysis: Analysis) -> tuple[Paragraph, ...]:
    """The paragraphs in the order of a proposal; one that has nothing to say is left out."""
    found = (
        ("Problem", _problem(analysis)),
        ("Machine", _machine(analysis)),
        ("Precision and I/O", _precision(analysis)),
        ("Method", _method(analysis)),
        ("Result", [verdict_text(analysis.verdict)]),
        ("Limit", _limit(analysis)),
        ("Extrapolated", _extrapolated(analysis)),
        ("Resources", _resources(analysis)),
    )
    return tuple(Paragraph(title, " ".join(sentences)) for title, sentences in found if sentences)


def device_hours(analysis: Analysis) -> str:
    """What an hour of one worker is called: GPU-h, or CPU-worker-h where the workers had no GPU."""
    return "CPU-worker-h" if listed(_part(analysis, "workers").get("device")) == "cpu" else "GPU-h"


def _problem(analysis: Analysis) -> list[str]:
    source, problem = analysis.source, _part(analysis, "problem")
    said = []
    if what := source.get("command") or source.get("table"):
        said.append(f"The training is {what}." if source.get("command") else f"From the table {what}.")
    if versions := listed(source.get("git")):
        said.append(f"Version of the code: {versions}.")
    if parameters := listed(problem.get("parameters")):
        said.append(f"The network has {_grouped(parameters)} parameters.")
    if optimizer := listed(problem.get("optimizer")):
        said.append(f"Optimizer: {optimizer}.")
    if samples := listed(problem.get("samples_in_data_set")):
        said.append(f"The data set has {_grouped(samples)} samples.")
    measured = _measured(analysis)
    each = {p.point.per_worker_batch for p in measured if p.point.per_worker_batch is not None}
    whole = {p.point.global_batch for p in measured if p.point.global_batch is not None}
    if each and whole:
        said.append(f"Batch per worker: {counts_text(each)}; global batch: {counts_text(whole)}.")
    return said


def _machine(analysis: Analysis) -> list[str]:
    source, workers = analysis.source, _part(analysis, "workers")
    parts = [
        ("devices", listed(workers.get("device_name"))),
        ("hosts", listed(workers.get("host")) or listed(source.get("host"))),
        ("system", listed(source.get("system"))),
        ("torch", listed(workers.get("torch"))),
        ("backend", listed(workers.get("backend"))),
        ("threads per worker", listed(source.get("threads_per_worker"))),
        ("date", str(source["started"])[:10] if source.get("started") else ""),
    ]
    known = "; ".join(f"{word}: {value}" for word, value in parts if value)
    return [f"{known[0].upper()}{known[1:]}."] if known else []


def _precision(analysis: Analysis) -> list[str]:
    measured = _measured(analysis)
    if not any(p.step_s for p in measured):
        return []
    precision = listed(_part(analysis, "problem").get("gradient_precision"))
    said = [f"Gradients are communicated in {precision}." if precision else "The precision was not recorded."]
    waiting = [p for p in measured if p.input_s is not None]
    if waiting:
        most = max(waiting, key=lambda p: p.point.workers)
        said.append(
            f"Input: at {workers_text(most.point.workers, most.unit)} a step of {_time(most.step_s)} waits "
            f"{_time(most.input_s)} for data."
        )
    else:
        said.append("No data loader was found, so waiting for data is not known.")
    said.append("Checkpoints and other output are not part of the measured steps.")
    return said


def _method(analysis: Analysis) -> list[str]:
    source = analysis.source
    steps, warmup, trials = (source.get(key) for key in ("measured_steps", "warmup_steps", "trials"))
    said = []
    if trials:
        said.append(f"{trials} runs in all, each measured by Paceline {source.get('paceline', '')}".rstrip())
        if steps and warmup is not None:
            said[0] += f" over {steps} steps after {warmup} steps of warm-up"
        said[0] += "."
        said.append("± and brackets: 90% intervals over runs.")
    return said


def _limit(analysis: Analysis) -> list[str]:
    split = [
        p for p in _measured(analysis) if p.compute_s and p.wire_s and p.straggle_s and p.point.workers > 1
    ]
    if not split:
        return []
    most = max(split, key=lambda p: p.point.workers)
    parts = (
        f"{_time(most.compute_s)} computing",
        f"{_time(most.wire_s)} waiting for the network",
        f"{_time(most.straggle_s)} waiting for the slowest worker",
    )
    text = f"At {workers_text(most.point.workers, most.unit)} a step of {_time(most.step_s)} consists of "
    said = [f"{text}{parts[0]}, {parts[1]} and {parts[2]}."]
    if most.exchanged_bytes_per_step is not None:
        said.append(f"Every worker communicates {bytes_text(most.exchanged_bytes_per_step.value)} per step.")
    return said


def _extrapolated(analysis: Analysis) -> list[str]:
    said = []
    refused = {refusal.workers for refusal in analysis.refusals}
    for projection in (p for p in analysis.projections if p.workers not in refused):
        parts = [
            f"speed-up {gain_text(projection.speedup)}" if projection.speedup else "",
            f"efficiency {percent_text(projection.efficiency_ratio)}" if projection.efficiency_ratio else "",
        ]
        if known := [part for part in parts if part]:
            said.append(
                f"{workers_text(projection.workers, analysis.verdict.unit)}, not measured: {', '.join(known)}."
            )
    if analysis.refusals:
        counts = counts_text(refusal.workers for refusal in analysis.refusals)
        said.append(f"No prediction for {counts} {analysis.verdict.unit}s: {analysis.refusals[0].reason}.")
    return said


def _resources(analysis: Analysis) -> list[str]:
    decision = analysis.decision
    if decision is None or not decision.options:
        return []
    chosen = _chosen(decision)
    basis = "measured" if chosen.measured else "extrapolated"
    nodes = f"{chosen.nodes} {'node' if chosen.nodes == 1 else 'nodes'}"
    where = f"{workers_text(chosen.workers, analysis.verdict.unit)} ({nodes})"
    said = [
        f"Time of {decision.work} on {where}: {_time(chosen.time_s)}, {basis}. That is "
        f"{estimate_text(chosen.worker_s, factor=1 / 3600)} {device_hours(analysis)} and "
        f"{estimate_text(chosen.node_s, factor=1 / 3600)} node-h."
    ]
    if not decision.complete:
        said.append("Multiply by what is planned: paceline report takes it as --samples or --epochs.")
    return said


def _chosen(decision: Decision) -> Option:
    """The Option that is recommended, or else the cheapest."""
    return next((o for o in decision.options if o.workers == decision.chosen), decision.options[0])


def _time(quantity: Estimate | None) -> str:
    return "an unknown time" if quantity is None else duration_range_text(quantity)


def _measured(analysis: Analysis) -> list[Profile]:
    return [p for p in analysis.points if p.state == "ok"]


def _part(analysis: Analysis, key: str) -> Mapping[str, object]:
    found = analysis.source.get(key)
    return found if isinstance(found, Mapping) else {}


def _grouped(text: str) -> str:
    return f"{int(text):,}" if text.isdecimal() else text
