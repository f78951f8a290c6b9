"""Rotary position embedding (Su et al. 2021, "RoFormer", section 3.2.2, equations 15 and 34).

The paper turns the pairs (2i, 2i+1); Llama weights as Hugging Face stores them turn the pairs (i, i + E/2).
Both are the same up to a fixed permutation of the head's channels; this is the second.
"""

from __future__ import annotations

import numpy as np


def rotate(x_BTHE, positions_BT, theta):
    """Turn pair i of a head by the angle ``position * theta^(-2i/E)``.

    Args:
        x_BTHE: (B, T, H, E) queries or keys, E even.
        positions_BT: (B, T) position of each token in its document.
        theta: base of the frequencies.

    Returns:
        (B, T, H, E) float64: ``(a cos - b sin, b cos + a sin)`` for the pair (a, b) = channels (i, i + E/2).
    """
    x = np.asarray(x_BTHE, np.float64)
    half = x.shape[-1] // 2
    out = np.empty_like(x)
    for i in range(half):
        angle = np.asarray(positions_BT, np.float64)[:, :, None] * float(theta) ** (-2.0 * i / x.shape[-1])
        cos, sin = np.cos(angle), np.sin(angle)
        a, b = x[..., i], x[..., i + half]
        out[..., i] = a * cos - b * sin
        out[..., i + half] = b * cos + a * sin
    return out
