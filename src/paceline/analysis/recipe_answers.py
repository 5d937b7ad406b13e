"""What a lab asked, answered from the Analysis of its recipe: a sentence per question, from measurements only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

from paceline.analysis.question import Ask
from paceline.analysis.recipe import Question, Recipe
from paceline.analysis.recipe_trained import fastest, metric, plateau, rule, turnaround
from paceline.analysis.table import table_analysis
from paceline.core.units import (
    bytes_text,
    counts_text,
    duration_range_text,
    duration_text,
    gain_text,
    is_unusable,
    percent_text,
    range_text,
    rate_range_text,
    workers_text,
)
from paceline.measure.series import all_series
from paceline.plan.config import flag_value
from paceline.records import Analysis, Answer, Estimate, Profile, Refusal, Study
from paceline.table.read import read_table

__all__ = ["QUESTIONS", "learnt"]

QUESTIONS: dict[Question, str] = {
    "time": "What do more workers do to the time?",
    "turnaround": "How long from start to end, and is there enough data?",
    "loss": "What do they do to the loss?",
    "accuracy": "Does accuracy survive?",
    "plateau": "After how many epochs is it stable?",
    "fastest": "Which is the fastest to a stable metric?",
    "rule": "Which rule for the learning rate?",
    "utilisation": "How busy are the workers?",
    "batch": "What does a larger batch per worker give?",
    "steps": "How many steps has an epoch?",
    "project": "And on workers that were not measured?",
    "bytes": "How many bytes are communicated?",
    "backends": "Which backend?",
    "grid": "Time and quality over depth × width?",
    "memory": "What does not fit into memory?",
    "exchange": "Compute or communication?",
    "remedies": "What would help?",
}


def learnt(recipe: Recipe, analysis: Analysis, study: Study) -> tuple[Answer, ...]:
    """What was learned from, every question of the recipe with its answer, and what to remember.

    What this machine cannot show is answered a second time from what others recorded, and marked so."""
    goal = study.goal
    data = goal.data if goal is not None else flag_value(study.workload.args, "--data")
    answers = [Answer("From which data?", (data or "no --data: generated data",))]
    recorded = dict(_recorded(recipe))
    for ask in recipe.asks:
        own = tuple(_ANSWERS[ask](recipe, analysis)) or ("not measured",)
        answers.append(Answer(QUESTIONS[ask], (*own, *recorded.get(ask, ()))))
    return (*answers, Answer("Remember", (recipe.note,)))


def _recorded(recipe: Recipe) -> Iterator[tuple[Question, tuple[str, ...]]]:
    """The questions that the recorded table answers, each line with where it comes from."""
    found = recipe.recorded
    if found is None:
        return
    ask = Ask(project_to=recipe.project) if recipe.project else Ask()
    analysis = table_analysis(read_table(found.table), ask=ask)
    for question in found.asks:
        lines = _ANSWERS[question](recipe, analysis)
        yield question, tuple(f"recorded, {found.what}: {line}" for line in lines)


def _time(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    known = [p for p in analysis.points if p.step_s is not None or p.speedup is not None]
    for base, *others in (series.profiles for series in all_series(known)):
        for more in others:
            if more.speedup is not None and is_unusable(more.speedup):
                yield f"{_setting(more)}: unusable, runs differ too much"
            elif more.speedup is not None:
                yield (
                    f"{_setting(more)}: {range_text(more.speedup, unit='x')} the rate of {base.point.workers} "
                    f"({percent_text(more.efficiency_ratio)} efficient, {more.point.scaling} scaling)"
                )


def _utilisation(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for profile in _measured(analysis):
        shares = [("of GPU time", profile.gpu_ratio), ("of the cores", profile.cpu_ratio)]
        known = [f"{percent_text(share)} {whose} busy" for whose, share in shares if share is not None]
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
        if large.throughput_per_s and small.throughput_per_s and small is not large:
            more = _over(large.throughput_per_s, small.throughput_per_s)
            yield (
                f"{_setting(large)} instead of {small.point.per_worker_batch} per worker: "
                f"{range_text(more, unit='x')} the samples per second"
            )


def _steps(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    samples = _samples(analysis)
    if samples is None:
        return
    batches = sorted({p.point.global_batch for p in analysis.points if p.point.global_batch})
    counts = ", ".join(f"{samples // batch:,} at a global batch of {batch}" for batch in batches)
    yield f"samples / global batch; of the {samples:,} samples here {counts}"


def _project(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    wanted = set(recipe.project)
    for projection in analysis.projections:
        if not wanted or projection.workers in wanted:
            speed = gain_text(projection.speedup, unit="x") if projection.speedup else "unknown"
            base = next((p for p in analysis.points if p.point.id == projection.baseline), None)
            than = "" if base is None else f" against {base.point.workers}"
            count = workers_text(projection.workers, analysis.verdict.unit)
            yield f"{count}: speed-up {speed}{than} (predicted, 90% interval)"
    refused: dict[str, list[Refusal]] = {}
    for refusal in analysis.refusals:
        if not wanted or refusal.workers in wanted:
            refused.setdefault(refusal.reason, []).append(refusal)
    for reason, same in refused.items():
        counts = f"{counts_text(r.workers for r in same)} {analysis.verdict.unit}s"
        yield f"{counts}: no prediction, {reason}; {same[0].would_help}"


def _bytes(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for line in _lines(analysis):
        last = line[-1]
        moved = last.exchanged_bytes_per_step
        if moved is not None and last.point.workers > 1:
            epoch, samples = "", _samples(analysis)
            if samples is not None and last.point.global_batch:
                steps = samples // last.point.global_batch
                epoch = f", {bytes_text(moved.value * steps)} in an epoch of {steps:,} steps"
            yield f"{_setting(last)}: {bytes_text(moved.value)} per step and worker{epoch}"
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
            yield f"{name}: {duration_range_text(wire)} of network per step ({_setting(good[0])})"
        elif own and own[0].reason:
            yield f"{name}: {own[0].state}: {own[0].reason}"
    if names == ["gloo"]:
        yield "NCCL was not compared: it needs a GPU per worker (--preset lab)"


def _grid(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """A line per depth; each cell its step and its quality, or why there is none."""
    found = analysis.convergence
    quality = {c.point: c.metric for c in found.comparisons} if found is not None else {}
    cells = {tuple(value for _, value in p.point.varied): p for p in analysis.points if p.point.workers == 1}
    depths, widths = (list(dict.fromkeys(key[i] for key in cells if len(key) > i)) for i in (0, 1))
    for depth in depths:
        row = [f"width {width}: {_cell(cells.get((depth, width)), quality)}" for width in widths]
        yield f"depth {depth}: {'; '.join(row)}"
    if any(best is not None for best in quality.values()) and all(
        b is None or b.n == 1 for b in quality.values()
    ):
        yield "one training a cell: how far seeds differ is not known"


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
        seen = analysis.source.get("workers")
        on_host = isinstance(seen, Mapping) and list(seen.get("device", ())) == ["cpu"]
        whole = ", torch itself included" if on_host else ""
        yield f"the largest that fits: {_setting(most)}, {bytes_text(size)} at its peak{whole}"


def _exchange(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    for profile in _measured(analysis):
        if profile.point.workers < 2 or profile.compute_s is None:
            continue
        parts = [
            ("compute", profile.compute_s),
            ("network", profile.wire_s),
            ("waiting for the slowest", profile.straggle_s),
        ]
        told = ", ".join(f"{name} {duration_range_text(part)}" for name, part in parts if part is not None)
        bus = f"; bus {rate_range_text(profile.bus_bytes_per_s)}" if profile.bus_bytes_per_s else ""
        slower = _dilation(profile, analysis)
        yield f"{_setting(profile)}, {profile.point.scaling}: {told}{bus}{slower}"


def _dilation(profile: Profile, analysis: Analysis) -> str:
    """How much longer a worker computes at the same batch than one alone: no exchange is in it."""
    batch, varied = profile.point.per_worker_batch, profile.point.varied
    alone = [p for p in _measured(analysis) if p.point.workers == 1 and p.point.per_worker_batch == batch]
    base = next((p.compute_s for p in alone if p.point.varied == varied and p.compute_s is not None), None)
    if base is None or profile.compute_s is None:
        return ""
    return (
        f"; computing takes {range_text(_over(profile.compute_s, base), unit='x')} that of one worker alone"
    )


def _remedies(recipe: Recipe, analysis: Analysis) -> Iterator[str]:
    """What takes the largest share of the step beyond computing says what to change."""
    for profile in _measured(analysis):
        if profile.point.workers < 2 or profile.step_s is None or profile.exposed_s is None:
            continue
        share = profile.exposed_s.value / profile.step_s.value
        wire = profile.wire_s.value if profile.wire_s else 0.0
        late = profile.straggle_s.value if profile.straggle_s else 0.0
        if share < 0.05:
            remedy = "communication costs little; only faster computing helps"
        elif wire >= late:
            remedy = "a larger batch or --accumulate, fewer bytes (--exchange fp16), or a faster link"
        else:
            remedy = "workers wait for each other: look for the late one, or for others on its cores"
        yield f"{_setting(profile)}, {profile.point.scaling}: {percent_text(share)} of a step is comm wait; {remedy}"


def _measured(analysis: Analysis) -> list[Profile]:
    return [profile for profile in analysis.points if profile.step_s is not None]


def _lines(analysis: Analysis) -> Iterator[list[Profile]]:
    """The measured Points of each line, fewest workers first."""
    for series in all_series(_measured(analysis)):
        yield list(series.profiles)


def _samples(analysis: Analysis) -> int | None:
    """Of one epoch, as the loaders saw the data set."""
    return analysis.decision.samples_per_epoch if analysis.decision is not None else None


def _over(a: Estimate, b: Estimate) -> Estimate:
    """a / b from the ends of both intervals: no narrower than the truth."""
    value, n = a.value / b.value, min(a.n, b.n)
    if a.low is None or a.high is None or b.low is None or b.high is None or b.low <= 0:
        return Estimate(value, None, None, n)
    return Estimate(value, a.low / b.high, a.high / b.low, n)


def _setting(profile: Profile) -> str:
    point = profile.point
    parts = [workers_text(point.workers, profile.unit)]
    parts += [f"{point.per_worker_batch} per {profile.unit}"] if point.per_worker_batch else []
    parts += [f"{flag.lstrip('-')} {value}" for flag, value in point.varied]
    return ", ".join(parts)


_ANSWERS: dict[Question, Callable[[Recipe, Analysis], Iterator[str]]] = {
    "time": _time,
    "turnaround": turnaround,
    "loss": metric,
    "accuracy": metric,
    "fastest": fastest,
    "plateau": plateau,
    "rule": rule,
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
