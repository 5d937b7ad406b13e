"""Levenberg-Marquardt for many small problems at once.

Each problem p minimises |r_p(θ_p)|² with its own data and priors; one vectorised call evaluates all of them, so that
an ensemble of forty fits costs little more than one.

    (JᵀJ + λ diag(JᵀJ)) step = −Jᵀr     λ falls tenfold after a step that helped, grows tenfold after one that did not
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["minimise"]

Array = NDArray[np.float64]
_DIFFERENCE = 1e-5
_LARGEST_STEP = 2.0  # in log-parameters: a factor of 7


def minimise(
    residuals: Callable[[Array, NDArray[np.intp]], Array], start: Array, *, iterations: int = 30
) -> tuple[Array, Array]:
    """θ [problems × parameters] and the sum of squares [problems].

    residuals(θ, problem) gives [len(θ) × residuals]; `problem` says which problem each row of θ belongs to.
    """
    theta = start.copy()
    problems = np.arange(len(theta))
    value = residuals(theta, problems)
    loss = np.einsum("pr,pr->p", value, value)
    damping = np.full(len(theta), 1e-2)
    for _ in range(iterations):
        jacobian = _jacobian(residuals, theta, problems, value)
        gradient = np.einsum("prk,pr->pk", jacobian, value)
        curvature = np.matmul(jacobian.transpose(0, 2, 1), jacobian)
        diagonal = np.einsum("pkk->pk", curvature)
        damped = curvature + (damping[:, None] * diagonal + 1e-12)[:, :, None] * np.eye(theta.shape[1])
        step = -np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        trial = theta + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        trial_value = residuals(trial, problems)
        trial_loss = np.einsum("pr,pr->p", trial_value, trial_value)
        better = trial_loss < loss
        gain = np.where(better, (loss - trial_loss) / np.maximum(loss, 1e-12), 0.0)
        theta = np.where(better[:, None], trial, theta)
        value = np.where(better[:, None], trial_value, value)
        loss = np.where(better, trial_loss, loss)
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-6, 1e6)
        if np.all((better & (gain < 1e-5)) | (damping >= 1e5)):
            break
    return theta, loss


def _jacobian(
    residuals: Callable[[Array, NDArray[np.intp]], Array],
    theta: Array,
    problems: NDArray[np.intp],
    value: Array,
) -> Array:
    """∂r/∂θ by forward differences, [problems × residuals × parameters]."""
    count, size = theta.shape
    shifted = np.repeat(theta, size, axis=0) + np.tile(np.eye(size) * _DIFFERENCE, (count, 1))
    moved = residuals(shifted, np.repeat(problems, size)).reshape(count, size, -1)
    return np.asarray((moved - value[:, None, :]).transpose(0, 2, 1) / _DIFFERENCE)
