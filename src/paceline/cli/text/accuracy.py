"""Configurations compared by time to the target, as a table and a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.cli.text.terminal import fitted, folded_table
from paceline.converge.advice import goal_text
from paceline.core.units import duration_range_text, duration_text, estimate_text, range_text
from paceline.records import Comparison, Convergence, Estimate

__all__ = ["comparison_lines"]

_WORDS = {"survives": "same", "worse": "worse", "cannot tell": "cannot tell"}


def comparison_lines(found: Convergence, *, width: int | None = None) -> Iterator[str]:
    """The table of configurations, the fastest first, and what gradients say about the batch."""
    if not found.comparisons:
        return
    several = any(c.difference is not None for c in found.comparisons)
    headers = ["configuration", f"time to {goal_text(found)}", "epochs", "seeds", f"best {found.metric}"]
    headers += ["against the first"] if several else []
    if found.target is None:
        headers[1:3] = ["plateau epoch"]
    rows = [_row(c, found, several) for c in found.comparisons]
    yield folded_table(headers, rows, first=1, width=width)
    if several:
        epoch = next(c.epoch for c in found.comparisons if c.epoch is not None)
        yield from fitted(
            f"against the first: {found.metric} after epoch {epoch:g}, better is positive", width
        )
    if found.noise_scale is not None:
        critical = found.critical_global_batch
        beyond = f"; up to a global batch of about {_rounded(critical)} more workers help" if critical else ""
        yield from fitted(f"gradient noise scale {_rounded(found.noise_scale)} samples{beyond}", width)


def _row(c: Comparison, found: Convergence, several: bool) -> list[str]:
    best = "–" if c.metric is None else range_text(c.metric)
    if found.target is None:
        plateau = f"> {c.plateau_epoch.value:g}" if c.plateau_censored and c.plateau_epoch else None
        row = [c.label, plateau or estimate_text(c.plateau_epoch), _fate(c, found), best]
    else:
        row = [c.label, _time(c), estimate_text(c.epochs_to_target), _fate(c, found), best]
    if several:
        row.append("" if c.difference is None else f"{_signed(c.difference)} {_word(c, c.difference)}")
    return row


def _word(c: Comparison, difference: Estimate) -> str:
    """Not worse is the question; what is surely better is called so."""
    better = c.survives == "survives" and difference.low is not None and difference.low > 0
    return "better" if better else _WORDS[c.survives or "cannot tell"]


def _time(c: Comparison) -> str:
    if c.time_to_target_s is None:
        return "never" if c.spent_s is None else f"> {duration_text(c.spent_s)}"
    if c.reached < c.seeds:
        return f"{duration_text(c.time_to_target_s.value)} or never"
    return duration_range_text(c.time_to_target_s)


def _fate(c: Comparison, found: Convergence) -> str:
    lost = [f"{c.diverged} diverged"] * bool(c.diverged) + [f"{c.failed} failed"] * bool(c.failed)
    reached = str(c.seeds) if found.target is None else f"{c.reached} of {c.seeds}"
    return ", ".join([reached, *lost])


def _signed(difference: Estimate) -> str:
    if difference.low is None or difference.high is None:
        return f"{difference.value:+.4f}"
    return f"{difference.value:+.4f} ({difference.low:+.4f} to {difference.high:+.4f})"


def _rounded(quantity: Estimate) -> str:
    """Two figures are all that a noise scale has: 920 (470-2,300)."""
    if quantity.low is None or quantity.high is None:
        return _two_figures(quantity.value)
    low, high = _two_figures(quantity.low), _two_figures(quantity.high)
    return f"{_two_figures(quantity.value)} ({low}-{high})"


def _two_figures(value: float) -> str:
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"
