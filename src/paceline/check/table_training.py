"""What a table says about learning: batches, learning rates, accuracies and plateaus -> Findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from paceline.converge.epochs import accuracy_survives
from paceline.records import Finding
from paceline.table.read import Row

__all__ = ["training_findings"]

_STEPS_PER_EPOCH = 10
_SAME = 0.005  # accuracies closer than half a point count as the same
_NOISE = 2.5  # standard errors below which two accuracies are not told apart


def training_findings(rows: Sequence[Row]) -> list[Finding]:
    """Every check on learning."""
    return [
        *_learning_rate(rows),
        *_accuracy(rows),
        *_survival(rows),
        *_small_data(rows),
        *_plateaus(rows),
    ]


def _learning_rate(rows: Sequence[Row]) -> Iterator[Finding]:
    known = [row for row in rows if row.global_batch is not None]
    if not known:
        return
    small, large = min(r.global_batch or 0 for r in known), max(r.global_batch or 0 for r in known)
    if large <= small:
        return
    rates = {r.lr for r in known if r.lr is not None}
    top = next(r for r in known if r.global_batch == large)
    if len(rates) == 1:
        yield Finding(
            "lr-not-scaled",
            "doubt",
            f"the global batch grows from {small} to {large} while the learning rate stays {rates.pop():g}. "
            "Fewer updates of the same size alone may lower accuracy",
            value=large / small,
            threshold=1.0,
            hint="scale the learning rate and warm it up, then compare accuracy",
        )
    elif rates and (top.warmup_epochs is None or top.warmup_epochs == 0):
        yield Finding(
            "lr-not-warmed",
            "doubt",
            f"the learning rate is scaled up to a global batch of {large} and no warm-up is stated",
            value=large / small,
            threshold=1.0,
            hint="warm the learning rate up over the first epochs",
        )
    elif (
        not rates
        and any(r.accuracy is not None or r.loss is not None for r in known)
        and len({r.workers for r in known}) > 1
    ):
        yield Finding(
            "fewer-updates",
            "note",
            f"at a fixed number of epochs a global batch of {large} takes {large / small:g} times fewer updates "
            f"than {small}. This alone changes loss and accuracy",
            value=large / small,
            threshold=1.0,
            hint="state learning rate and warm-up, or compare at equal updates",
        )


def _accuracy(rows: Sequence[Row]) -> Iterator[Finding]:
    """Best and worst accuracy against the noise of a validation set."""
    known = [row for row in rows if row.accuracy is not None and row.workers >= 1]
    if len(known) < 2:
        return
    values = [row.accuracy for row in known if row.accuracy is not None]
    size = next((row.validation_samples for row in known if row.validation_samples is not None), None)
    spread = max(values) - min(values)
    if spread <= 0:
        return
    if size is None:
        yield Finding(
            "accuracy-noise-unknown",
            "note",
            f"accuracies differ by {spread:.2%}; without the size of the validation set nobody can say "
            "whether that is more than noise",
            value=spread,
            hint="add a column validation_samples",
        )
        return
    rate = min(fmean(values), 1 - 0.5 / size)
    noise = math.sqrt(2 * rate * (1 - rate) / size)
    ordered = sorted(values)
    lead = ordered[-1] - ordered[-2]
    if spread < _NOISE * noise:
        yield Finding(
            "accuracy-inside-noise",
            "doubt",
            f"accuracies from {ordered[0]:.2%} to {ordered[-1]:.2%} differ by {spread / noise:.1f} standard errors "
            f"on {size} samples: no configuration is shown to be better",
            value=spread / noise,
            threshold=_NOISE,
            hint="train several seeds",
        )
    elif lead < _NOISE * noise:
        yield Finding(
            "no-best-accuracy",
            "note",
            f"the best accuracy leads the next by {lead:.2%}, {lead / noise:.1f} standard errors on {size} samples: "
            "neither is shown to be best",
            value=lead / noise,
            threshold=_NOISE,
            hint="train several seeds",
        )


def _survival(rows: Sequence[Row]) -> Iterator[Finding]:
    """Whether accuracy at each larger global batch is that of the smallest, where some batch has several seeds."""
    seeds: dict[tuple[tuple[str, str], ...], dict[int, list[Row]]] = {}
    for row in rows:
        if row.accuracy is not None and row.global_batch is not None:
            seeds.setdefault(row.series, {}).setdefault(row.global_batch, []).append(row)
    for series, batches in seeds.items():
        if max(len(same) for same in batches.values()) < 2:
            continue
        first, *larger = sorted(batches)
        for batch in larger:
            found = accuracy_survives(
                [row.accuracy or 0.0 for row in batches[first]],
                [row.accuracy or 0.0 for row in batches[batch]],
                margin=_SAME,
                validation_samples=batches[first][0].validation_samples,
            )
            name = {"survives": "accuracy-survives", "worse": "accuracy-falls"}.get(found.verdict)
            where = "".join(f"{value}, " for _, value in series)
            yield Finding(
                name or "accuracy-undecided",
                "doubt" if found.verdict == "worse" else "note",
                f"{where}global batch {batch} against {first}: {found.text}",
                value=found.difference.value,
                threshold=-_SAME,
                hint=None
                if found.verdict == "survives"
                else "scale and warm up the learning rate, train more seeds",
            )


def _small_data(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row.samples is None or row.global_batch is None:
            continue
        steps = row.samples / row.global_batch
        if steps < _STEPS_PER_EPOCH:
            yield Finding(
                "data-set-too-small",
                "doubt",
                f"row {row.line}: {row.samples} samples are {steps:.1f} steps per epoch at {row.workers} workers",
                value=steps,
                threshold=float(_STEPS_PER_EPOCH),
                hint="fewer workers, a smaller per-worker batch, or more data",
            )
            return


def _plateaus(rows: Sequence[Row]) -> Iterator[Finding]:
    """A plateau near the end of the training is censored."""
    late = [r for r in rows if r.plateau_epoch and r.epochs and r.plateau_epoch > 0.75 * r.epochs]
    if late:
        row = late[0]
        yield Finding(
            "plateau-censored",
            "doubt",
            f"row {row.line}: the plateau at epoch {row.plateau_epoch:g} lies in the last quarter of "
            f"{row.epochs:g} epochs: the curve may still have been rising",
            value=(row.plateau_epoch or 0.0) / (row.epochs or 1.0),
            threshold=0.75,
            hint="train longer before reading a plateau",
        )
