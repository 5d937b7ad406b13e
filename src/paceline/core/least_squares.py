"""Levenberg-Marquardt for many small problems at once, each with a belief about what it looks for.

Problem p minimises |r_p(z)|² + |z − ε_p|²: its data, and a standard normal belief about every parameter, drawn at ε_p.
One vectorised call evaluates all problems that still move, so that hundreds of fits cost little more than one.

    (JᵀJ + I + λ diag(JᵀJ + I)) step = −(Jᵀr + z − ε)     λ falls tenfold after a step that helped, else it grows so
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["minimise"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
_DIFFERENCE = 1e-5
_LARGEST_STEP = 2.0  # deviations of what was believed
_SETTLED = 1e-3  # of the loss, in units of χ²: where less is to be gained nothing is learnt any more
_STUCK = 1e3  # a damping under which steps lead nowhere


def minimise(
    residuals: Callable[[Array, Indices], Array], start: Array, drawn: Array, *, iterations: int = 30
) -> tuple[Array, Array]:
    """z [problems × parameters] and the sum of squares [problems]. drawn: ε, of one problem or of each.

    residuals(z, problem) gives [len(z) × residuals] of the data; `problem` says which problem each row of z belongs to.
    """
    z, drawn = start.copy(), np.broadcast_to(drawn, start.shape)
    moving = np.arange(len(z))
    value = residuals(z, moving)
    loss = _loss(value, z - drawn)
    damping = np.full(len(z), 1e-2)
    unit = np.eye(z.shape[1])
    for _ in range(iterations):
        own, off = z[moving], z[moving] - drawn[moving]
        jacobian = _jacobian(residuals, own, moving, value)
        gradient = np.einsum("prk,pr->pk", jacobian, value) + off
        curvature = np.matmul(jacobian.transpose(0, 2, 1), jacobian) + unit
        diagonal = np.einsum("pkk->pk", curvature)
        damped = curvature + (damping[moving, None] * diagonal)[:, :, None] * unit
        step = -np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        trial = own + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        trial_value = residuals(trial, moving)
        trial_loss = _loss(trial_value, trial - drawn[moving])
        better = trial_loss < loss[moving]
        left = -np.einsum("pk,pk->p", gradient, step)  # twice what the step would gain if all were linear
        gain = np.where(better, loss[moving] - trial_loss, np.inf)
        z[moving] = np.where(better[:, None], trial, own)
        value = np.where(better[:, None], trial_value, value)
        loss[moving] = np.where(better, trial_loss, loss[moving])
        damping[moving] = np.clip(damping[moving] * np.where(better, 0.1, 10.0), 1e-6, 1e6)
        on = (left >= _SETTLED) & (gain >= _SETTLED) & (damping[moving] < _STUCK)
        moving, value = moving[on], value[on]
        if not len(moving):
            break
    return z, loss


def _loss(value: Array, off: Array) -> Array:
    return np.asarray(np.einsum("pr,pr->p", value, value) + np.einsum("pk,pk->p", off, off))


def _jacobian(
    residuals: Callable[[Array, Indices], Array], z: Array, problems: Indices, value: Array
) -> Array:
    """∂r/∂z by forward differences, [problems × residuals × parameters]."""
    count, size = z.shape
    shifted = np.repeat(z, size, axis=0) + np.tile(np.eye(size) * _DIFFERENCE, (count, 1))
    moved = residuals(shifted, np.repeat(problems, size)).reshape(count, size, -1)
    return np.asarray((moved - value[:, None, :]).transpose(0, 2, 1) / _DIFFERENCE)
