"""Standardisation over the real tokens of a batch: ``(x - mean) / sqrt(var + 1e-8)``, population variance."""

from __future__ import annotations

import numpy as np

EPSILON = 1e-8


def whiten(x, mask, *, shift_mean=True):
    """Whitened real entries, 0 elsewhere; ``shift_mean=False`` keeps the mean. Fewer than 2 real entries: x unscaled.

    Args:
        x: any shape. mask: same shape, 1 where real.
        shift_mean: False keeps the mean.

    Returns:
        float64 of x's shape.
    """
    x, real = np.asarray(x, np.float64), np.asarray(mask) != 0
    out = np.zeros_like(x)
    chosen = x[real]
    if chosen.size < 2:
        out[real] = chosen
        return out
    mean = chosen.sum() / chosen.size
    variance = ((chosen - mean) ** 2).sum() / chosen.size
    scaled = (chosen - mean) / np.sqrt(variance + EPSILON)
    out[real] = scaled if shift_mean else scaled + mean
    return out
