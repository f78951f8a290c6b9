"""Mean, variance and standardisation over the real tokens of a batch."""

from __future__ import annotations

import numpy as np

_EPSILON = 1e-8


def masked_mean(x: np.ndarray, mask: np.ndarray) -> float:
    """Mean of the entries whose mask is 1; 0 when there are none.

    Args:
        x: any shape, float.
        mask: x's shape, 1 where the entry counts.

    Returns:
        ``sum(mask x) / max(sum(mask), 1)``.
    """
    chosen = _chosen(x, mask)
    return float(chosen.mean()) if chosen.size else 0.0


def masked_var(x: np.ndarray, mask: np.ndarray) -> float:
    """Population variance (divided by n) of the entries whose mask is 1; 0 when there are fewer than two.

    Args:
        x: any shape, float.
        mask: x's shape, 1 where the entry counts.

    Returns:
        ``mean((x - mean)^2)`` over the counted entries.
    """
    chosen = _chosen(x, mask)
    return float(chosen.var()) if chosen.size > 1 else 0.0


def whiten(x: np.ndarray, mask: np.ndarray, *, shift_mean: bool = True) -> np.ndarray:
    """Standardise the counted entries over the whole batch: ``(x - mean) / sqrt(var + 1e-8)``.

    One mean and one variance for all rows. Andrychowicz et al. 2021 (choice C67) compare this with a mean per
    minibatch; over the whole iteration the result does not depend on how it is split.

    Args:
        x: any shape, float, e.g. advantage_BR.
        mask: x's shape, 1 where the entry counts.
        shift_mean: False divides by the deviation but keeps the mean, as for rewards, whose sign has a meaning.

    Returns:
        float32 of x's shape: 0 where the mask is 0. Fewer than two counted entries have no deviation and stay as they
        are.
    """
    real = np.asarray(mask) != 0
    out = np.zeros(np.shape(x), np.float32)
    chosen = _chosen(x, mask)
    if chosen.size > 1:
        mean = chosen.mean()
        chosen = (chosen - mean) / np.sqrt(chosen.var() + _EPSILON)
        if not shift_mean:
            chosen = chosen + mean
    out[real] = chosen
    return out


def _chosen(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.asarray(x)[np.asarray(mask) != 0].astype(np.float64)
