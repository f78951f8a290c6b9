"""Penalties for length and repetition, case by case as the papers write them.

Overlong: Yu et al. 2025 (DAPO), equation 13. Distance from a length: Aggarwal & Welleck 2025 (L1). Distinct n-grams:
Li et al. 2016.
"""

from __future__ import annotations

import numpy as np


def overlong(lengths, max_length, cushion):
    """The three cases of the equation, one length at a time."""
    out = []
    for length in lengths:
        if length <= max_length - cushion:
            out.append(0.0)
        elif length <= max_length:
            out.append(((max_length - cushion) - length) / cushion)
        else:
            out.append(-1.0)
    return np.array(out, np.float64)


def off_target(lengths, target, slack):
    """Nothing within the slack, then a line in units of the target, at most 1 down."""
    out = []
    for length in lengths:
        distance = max(0.0, abs(length - target) - slack) / target
        out.append(-min(1.0, distance))
    return np.array(out, np.float64)


def repeats(words, size):
    """Counts the n-grams that stand somewhere before."""
    again, total = 0, 0
    for start in range(len(words) - size + 1):
        gram = words[start : start + size]
        again += any(words[other : other + size] == gram for other in range(start))
        total += 1
    return again / total if total else 0.0
