"""RMSNorm (Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", equation 4), epsilon under the root."""

from __future__ import annotations

import numpy as np


def rms_norm(x, weight, eps):
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dim.

    Args:
        x: (..., D).
        weight: (D,) gain.
        eps: added to the mean square.

    Returns:
        (..., D) float64.
    """
    x = np.asarray(x, np.float64)
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + eps) * np.asarray(weight, np.float64)
