"""What a lab asked, answered from the Analysis of its recipe: a sentence per question, from measurements only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from paceline.curve import series
from paceline.recipe import Question, Recipe
from paceline.records import Analysis, Comparison, Estimate, Profile
from paceline.units import bytes_text, duration_text, percent_text, range_text, rate_text

__all__ = ["QUESTIONS", "learnt"]

QUESTIONS: dict[Question, str] = {
    "time": "What do more workers do to the time?",
    "loss": "What do they do to the loss?",
    "accuracy": "Does accuracy survive?",
    "plateau": "After how many epochs is it stable?",
    "rule": "Which rule for the learning rate?",
    "utilisation": "How busy are the workers?",
    "batch": "What does a larger batch per worker give?",
    "steps": "How many steps has an epoch?",
    "project": "And on workers that were not measured?",
    "bytes": "How many bytes are exchanged?",
    "backends": "Which backend?",
    "grid": "Time and quality over depth × width?",
    "memory": "What does not fit into memory?",
    "exchange": "Compute or exchange?",
    "remedies": "What would help?",
}


def learnt(recipe: Recipe, analysis: Analysis) -> list[tuple[str, str]]:
    """Every question of the recipe with its answer."""
    return [
        (QUESTIONS[ask], "\n".join(_ANSWERS[ask](recipe, analysis)) or "not measured") for ask in recipe.asks
    ]


def _time(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for line in _lines(analysis):
        base, last = line[0], line[-1]
        if last.speedup is not None and base is not last:
            yield (
                f"{_setting(last)}: {range_text(last.speedup, unit='x')} the rate of {base.point.workers} "
                f"({percent_text(last.efficiency_ratio)} efficient, {last.point.scaling} scaling)"
            )


def _metric(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    found = analysis.convergence
    if found is None:
        return
    for c in found.comparisons:
        best = "unknown" if c.metric is None else range_text(c.metric)
        against = ""
        if c.difference is not None:
            words = {
                "survives": "within the margin",
                "worse": "worse",
                "cannot tell": "these seeds cannot tell",
            }
            against = (
                f"; {c.difference.value:+.4f} against the first after epoch {c.epoch:g}: "
                f"{words[c.survives or 'cannot tell']}"
            )
        lost = f"; {c.diverged} of {c.seeds} diverged" if c.diverged else ""
        yield f"{c.label}: best {found.metric} {best}{against}{lost}"


def _plateau(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    comparisons: Sequence[Comparison] = analysis.convergence.comparisons if analysis.convergence else ()
    for c in comparisons:
        if c.plateau_epoch is None:
            yield f"{c.label}: too few epochs to say"
        elif c.plateau_censored:
            yield f"{c.label}: still getting better after epoch {c.plateau_epoch.value:g}"
        else:
            yield f"{c.label}: epoch {range_text(c.plateau_epoch)}"


def _rule(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for recommendation in analysis.recommendations:
        if recommendation.goal == "lr-rule":
            yield f"{recommendation.text} ({recommendation.condition})"


def _utilisation(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for profile in _measured(analysis):
        shares = [("GPU", profile.gpu_ratio), ("CPU", profile.cpu_ratio)]
        known = [f"{name} {percent_text(share)} busy" for name, share in shares if share is not None]
        if profile.step_s is not None and profile.exposed_s is not None:
            known.append(
                f"{percent_text(profile.exposed_s.value / profile.step_s.value)} of a step waiting for others"
            )
        if known:
            yield f"{_setting(profile)}: {', '.join(known)}"


def _batch(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    def count(profile: Profile) -> tuple[object, ...]:
        point = profile.point
        return (point.workers, point.backend or "", point.varied)

    weak = sorted((p for p in _measured(analysis) if p.point.scaling == "weak"), key=lambda p: str(count(p)))
    for _, same in groupby(weak, key=lambda p: str(count(p))):
        line = sorted(same, key=lambda p: p.point.per_worker_batch or 0)
        small, large = line[0], line[-1]
        if small.throughput_per_s and large.throughput_per_s and small is not large:
            more = large.throughput_per_s.value / small.throughput_per_s.value
            yield (
                f"{_setting(large)} instead of {small.point.per_worker_batch} per worker: "
                f"{more:.2f}x the samples per second"
            )


def _steps(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    if recipe.samples is None:
        return
    batches = sorted({p.point.global_batch for p in analysis.points if p.point.global_batch})
    counts = ", ".join(f"{recipe.samples / batch:,.0f} at a global batch of {batch}" for batch in batches)
    yield f"samples / global batch; of {recipe.samples:,} samples {counts}"


def _project(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    wanted = set(recipe.project)
    for projection in analysis.projections:
        if not wanted or projection.workers in wanted:
            speed = range_text(projection.speedup, unit="x") if projection.speedup else "unknown"
            yield f"{projection.workers} workers: speed-up {speed} (projected, 90 % interval)"
    for refusal in analysis.refusals:
        if not wanted or refusal.workers in wanted:
            yield f"{refusal.workers} workers: refused, {refusal.reason}; {refusal.would_help}"


def _bytes(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for line in _lines(analysis):
        last = line[-1]
        moved = last.exchanged_bytes_per_step
        if moved is not None and last.point.workers > 1:
            yield f"{_setting(last)}: {bytes_text(moved.value)} per step and worker"
    batches: dict[object, set[float]] = {}
    for profile in _measured(analysis):
        if profile.exchanged_bytes_per_step is not None and profile.point.workers > 1:
            key = (profile.point.backend, profile.point.varied)
            batches.setdefault(key, set()).add(round(profile.exchanged_bytes_per_step.value))
    if batches and all(len(sizes) == 1 for sizes in batches.values()):
        yield "the same at every batch: gradients have the size of the network"


def _backends(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    names = sorted({p.point.backend for p in analysis.points if p.point.backend})
    for name in names:
        own = [p for p in analysis.points if p.point.backend == name and p.point.workers > 1]
        good = [p for p in own if p.step_s is not None]
        if good and (wire := good[0].wire_s) is not None:
            yield f"{name}: {duration_text(wire.value)} wire time per step ({_setting(good[0])})"
        elif own and own[0].reason:
            yield f"{name}: {own[0].state}: {own[0].reason}"
    if names == ["gloo"]:
        yield "NCCL was not compared: it needs a GPU per worker (--preset lab)"


def _grid(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """A row per depth, a column per width; each cell its step and its quality, or why there is none."""
    found = analysis.convergence
    quality = {c.point: c.metric for c in found.comparisons} if found is not None else {}
    cells = {tuple(value for _, value in p.point.varied): p for p in analysis.points if p.point.workers == 1}
    depths, widths = (list(dict.fromkeys(key[i] for key in cells if len(key) > i)) for i in (0, 1))
    yield "depth \\ width  " + "".join(f"{width:>22}" for width in widths)
    for depth in depths:
        row = [_cell(cells.get((depth, width)), quality) for width in widths]
        yield f"{depth:>13}  " + "".join(f"{text:>22}" for text in row)


def _cell(profile: Profile | None, quality: dict[str, Estimate | None]) -> str:
    if profile is None:
        return "–"
    if profile.state != "ok":
        return profile.state
    took = "–" if profile.step_s is None else duration_text(profile.step_s.value)
    best = quality.get(profile.point.id)
    return took if best is None else f"{took}, {best.value:.1f} dB"


def _memory(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for profile in analysis.points:
        if profile.state == "oom":
            yield f"{_setting(profile)}: {profile.reason}"
    sizes = [p for p in _measured(analysis) if p.peak_memory_bytes is not None]
    if sizes:
        most = max(sizes, key=lambda p: p.peak_memory_bytes.value if p.peak_memory_bytes else 0.0)
        size = most.peak_memory_bytes.value if most.peak_memory_bytes else None
        yield f"the largest that fits: {_setting(most)}, {bytes_text(size)} at its peak"


def _exchange(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for profile in _measured(analysis):
        if profile.point.workers < 2 or profile.compute_s is None:
            continue
        parts = [
            ("compute", profile.compute_s),
            ("wire", profile.wire_s),
            ("late workers", profile.straggle_s),
        ]
        told = ", ".join(f"{name} {duration_text(part.value)}" for name, part in parts if part is not None)
        bus = f"; bus {rate_text(profile.bus_bytes_per_s.value)}" if profile.bus_bytes_per_s else ""
        yield f"{_setting(profile)}, {profile.point.scaling}: {told}{bus}"


def _remedies(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """What takes the largest share of the step beyond computing says what to change."""
    for profile in _measured(analysis):
        if profile.point.workers < 2 or profile.step_s is None or profile.exposed_s is None:
            continue
        share = profile.exposed_s.value / profile.step_s.value
        wire = profile.wire_s.value if profile.wire_s else 0.0
        late = profile.straggle_s.value if profile.straggle_s else 0.0
        if share < 0.05:
            remedy = "exchange costs little; only faster computing helps"
        elif wire >= late:
            remedy = "a larger batch or --accumulate, fewer bytes (--exchange fp16), or a faster link"
        else:
            remedy = "workers wait for each other: look for the late one, or for others on its cores"
        yield f"{_setting(profile)}, {profile.point.scaling}: {percent_text(share)} of a step is exposed; {remedy}"


def _measured(analysis: Analysis) -> list[Profile]:
    return [profile for profile in analysis.points if profile.step_s is not None]


def _lines(analysis: Analysis) -> Iterator[list[Profile]]:
    """The measured Points of each line, fewest workers first."""
    groups: dict[object, list[Profile]] = {}
    for profile in _measured(analysis):
        groups.setdefault(series(profile.point), []).append(profile)
    for group in groups.values():
        yield sorted(group, key=lambda p: p.point.workers)


def _setting(profile: Profile) -> str:
    point = profile.point
    parts = [f"{point.workers} worker{'s' if point.workers > 1 else ''}"]
    parts += [f"{point.per_worker_batch} per worker"] if point.per_worker_batch else []
    parts += [f"{flag.lstrip('-')} {value}" for flag, value in point.varied]
    return ", ".join(parts)


_ANSWERS: dict[Question, Callable[[Recipe, Analysis], Iterator[str]]] = {
    "time": _time,
    "loss": _metric,
    "accuracy": _metric,
    "plateau": _plateau,
    "rule": _rule,
    "utilisation": _utilisation,
    "batch": _batch,
    "steps": _steps,
    "project": _project,
    "bytes": _bytes,
    "backends": _backends,
    "grid": _grid,
    "memory": _memory,
    "exchange": _exchange,
    "remedies": _remedies,
}
