"""Rotary position embedding (Su et al. 2021, "RoFormer", section 3.2.2, equations 15 and 34).

The paper turns the pairs (2i, 2i+1); Llama weights as Hugging Face stores them turn the pairs (i, i + E/2).
Both are the same up to a fixed permutation of the head's channels; this is the second.
"""

from __future__ import annotations

import numpy as np


def llama3_frequencies(width, theta, *, factor, low, high, context):
    """Frequencies of Llama 3.1 (Grattafiori et al. 2024, section 3.4.2, in the form of its reference code).

    With the wavelength ``2 pi / f``: longer than ``context / low`` becomes ``f / factor``, shorter than
    ``context / high`` stays, and between them both are mixed by ``(context / wavelength - low) / (high - low)``.
    """
    out = []
    for i in range(width // 2):
        f = float(theta) ** (-2.0 * i / width)
        wavelength = 2 * np.pi / f
        if wavelength > context / low:
            out.append(f / factor)
        elif wavelength < context / high:
            out.append(f)
        else:
            smooth = (context / wavelength - low) / (high - low)
            out.append((1 - smooth) * f / factor + smooth * f)
    return np.array(out)


def yarn_frequencies(width, theta, *, factor, context, fast=32.0, slow=1.0, truncate=True):
    """Frequencies of YaRN (Peng et al. 2023, section 3.2, with the ramp over channels of its authors' code).

    The channel that turns n times within the context is ``width ln(context / (2 pi n)) / (2 ln theta)``; channels below
    that of ``fast`` stay, those above that of ``slow`` are divided by the factor, the ramp between them is straight.
    """
    first, last = (width * np.log(context / (2 * np.pi * n)) / (2 * np.log(theta)) for n in (fast, slow))
    if truncate:
        first, last = np.floor(first), np.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    out = []
    for i in range(width // 2):
        f = float(theta) ** (-2.0 * i / width)
        ramp = min(1.0, max(0.0, (i - first) / (last - first)))
        out.append(ramp * f / factor + (1 - ramp) * f)
    return np.array(out)


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
