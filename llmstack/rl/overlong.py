"""Soft punishment of answers that come near the length limit."""

from __future__ import annotations

import numpy as np


def overlong_penalty(length_B: np.ndarray, *, longest: int, buffer: int) -> np.ndarray:
    """Soft overlong punishment (Yu et al. 2025, DAPO, equation 13), to be added to the score.

    0 up to ``longest - buffer`` tokens, from there a straight line down to -1 at ``longest`` (and -1 beyond).

    Args:
        length_B: (B,) int, tokens of each answer, its end token included.
        longest: the length limit in tokens.
        buffer: tokens before the limit in which the punishment grows, from 1 to ``longest``.

    Returns:
        (B,) float64 from -1 to 0.
    """
    beyond_B = np.asarray(length_B, np.float64) - (longest - buffer)
    return -np.clip(beyond_B / buffer, 0.0, 1.0)
